"""The loop IR. A Program is a sequence of steps on buffers; a step is a Kernel (a loop nest that
stores numbers) or a call of a torch function.

A Kernel's values are a graph of Scalars, in no particular order. A printer derives the order:
values that depend on a reduction come after it, values that do not depend on the innermost
variables are computed outside of their loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from ....records import record
from .index import ONE, Index, Var, index, product
from .scalar import LOAD, SCATTER, Scalar, loads, rewrite

PADDED = "padded"  # the origin of a kernel that only copies a matrix with zeros after its rows


@record
class Buffer:
    """Memory for a tensor. Sizes and strides in elements; `device` and `dtype` are torch's."""

    name: str
    size: tuple[Index, ...]
    stride: tuple[Index, ...]
    dtype: torch.dtype
    device: torch.device


@record
class View:
    """A tensor as a strided view of a buffer."""

    buffer: str
    size: tuple[Index, ...]
    stride: tuple[Index, ...]
    offset: Index
    dtype: torch.dtype
    device: torch.device

    def at(self, subscripts: Iterable[Index]) -> Index:
        """The element's position in the buffer."""
        place = self.offset
        for subscript, stride in zip(subscripts, self.stride, strict=True):
            place = place + subscript * stride
        return place

    def on(self, buffer: str) -> View:
        """The same window on another buffer."""
        return type(self)(buffer, self.size, self.stride, self.offset, self.dtype, self.device)


class AliasedOutput(View):
    """An output that is another tensor on the memory of an earlier output."""


@record
class Store:
    """buffer[index] = value, once for each loop point that the index distinguishes."""

    buffer: str
    index: Index
    value: Scalar


@record
class Kernel:
    """Loops over `outer` and, inside, over `inner`, along which Reduce nodes reduce. Iterations of
    `outer` are independent, except in a kernel that scatters (`scattered_value`): it has one store,
    no inner loops, and iterations that store to one element keep their order."""

    outer: tuple[Var, ...]
    inner: tuple[Var, ...]
    stores: tuple[Store, ...]
    origins: tuple[str, ...] = ()  # the operators that it computes

    @property
    def rows(self) -> Index:
        return product([variable.size for variable in self.outer])

    @property
    def columns(self) -> Index:
        return product([variable.size for variable in self.inner])

    @property
    def variables(self) -> tuple[Var, ...]:
        return self.outer + self.inner

    def roots(self) -> tuple[Scalar, ...]:
        return tuple(store.value for store in self.stores)

    @cached_property
    def read(self) -> frozenset[str]:
        """The buffers that it reads."""
        return frozenset(node.attr.buffer for node in loads(self.roots()))


@record
class Product(Kernel):
    """A kernel over the elements of the matrix product left @ right. Its loads of `result` read the
    product's element at this point of `outer`, which is (row, column) or (batch, row, column); that
    element is never stored."""

    _: KW_ONLY
    left: View
    right: View
    result: str

    @cached_property
    def read(self) -> frozenset[str]:
        return frozenset(node.attr.buffer for node in loads(self.roots())) - {self.result} | {
            self.left.buffer,
            self.right.buffer,
        }


@record
class Call:
    """A step that calls `function`. Among its arguments, Views stand for tensors and Indexes for
    sizes. Results go to buffers (None: unused, or not a tensor). Calls with an `effect` keep their
    order."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[str | None, ...]
    single: bool  # it returns one tensor, not a tuple
    origin: str
    effect: bool = False

    def views(self) -> Iterator[View]:
        yield from views_in((self.args, dict(self.kwargs)))

    @cached_property
    def read(self) -> frozenset[str]:
        """The buffers that it reads."""
        return frozenset(view.buffer for view in self.views())


@dataclass(frozen=True, eq=False)
class Pattern:
    """The common part of kernels that differ only in their buffers. `kernel`: one of them; `names`:
    its buffers, in the order of their first use; `loaded`, `stored`: positions among the names."""

    kernel: Kernel
    names: tuple[str, ...]
    loaded: tuple[int, ...]
    stored: tuple[int, ...]
    size: int  # computed subscripts


@dataclass(frozen=True, eq=False)
class Bound:
    """A pattern applied to buffers, some of which may be equal."""

    pattern: Pattern
    names: tuple[str, ...]

    @cached_property
    def stored_names(self) -> tuple[str, ...]:
        return tuple(self.names[number] for number in self.pattern.stored)

    @cached_property
    def read(self) -> frozenset[str]:
        return frozenset(self.names[number] for number in self.pattern.loaded)

    @property
    def rows(self) -> Index:
        return self.pattern.kernel.rows

    @property
    def origins(self) -> tuple[str, ...]:
        return self.pattern.kernel.origins

    @property
    def alike(self) -> tuple[Pattern, tuple[int, ...]]:
        """The properties shared with steps that are equal except for their buffers."""
        return self.pattern, tuple(map(self.names.index, self.names))

    @cached_property
    def kernel(self) -> Kernel:
        if self.names == self.pattern.names:
            return self.pattern.kernel
        return on_buffers(
            self.pattern.kernel, dict(zip(self.pattern.names, self.names, strict=True))
        )


def views_in(tree: Any) -> Iterator[View]:
    """The Views in nested tuples, lists and dicts."""
    if isinstance(tree, View):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from views_in(item)
    elif isinstance(tree, dict):
        yield from views_in(list(tree.values()))


def map_views(tree: Any, change: Callable[[View], Any]) -> Any:
    """Nested tuples, lists and dicts with each View replaced by what `change` returns for it."""
    if isinstance(tree, View):
        return change(tree)
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_views(item, change) for item in tree)
    if isinstance(tree, dict):
        return {key: map_views(item, change) for key, item in tree.items()}
    return tree


AnyKernel = Kernel | Bound
Step = AnyKernel | Call


def with_buffers(kernel: AnyKernel) -> Kernel:
    """The kernel with its buffers filled in."""
    return kernel.kernel if isinstance(kernel, Bound) else kernel


@record
class InputOutput:
    """An output that is an input itself."""

    name: str


@dataclass
class Program:
    """A graph as steps. `inputs`: names, in order, of the graph's placeholders: buffers for
    tensors, sizes for integers. `outputs`: Views, Same, Indexes, or plain objects. `writes`: input
    buffers that get a View's values when all else is done."""

    buffers: dict[str, Buffer]
    inputs: list[str]
    steps: list[Step]
    outputs: list[Any]
    writes: list[tuple[View, View]] = field(default_factory=list)
    # buffers that belong to the graph
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    # symbol: the Python expression that gives it
    sizes: dict[str, str] = field(default_factory=dict)

    def write_out(self) -> None:
        """Replaces bound patterns by plain kernels."""
        self.steps = [
            with_buffers(step) if isinstance(step, Bound) else step for step in self.steps
        ]

    def imports(self) -> set[str]:
        """The modules whose functions the expressions of `sizes` call."""
        text = " ".join(self.sizes.values())
        return {module for module in ("math", "torch") if f"{module}." in text}

    def kept_buffers(self) -> set[str]:
        """The buffers whose content is returned, or written to inputs at the end."""
        return {view.buffer for view in views_in([self.outputs, *map(list, self.writes)])}

    def unused_name(self, name: str) -> str:
        """A name that no buffer has yet."""
        while name in self.buffers:
            name += "_"
        return name


def scattered_value(kernel: Kernel) -> Scalar | None:
    """The scatter of a kernel that has one."""
    value = kernel.stores[0].value
    return value if value.op == SCATTER else None


def loops(sizes: Iterable[Index], prefix: str) -> tuple[Var, ...]:
    """Fresh variables over sizes."""
    return tuple(Var(f"{prefix}{number}", index(size)) for number, size in enumerate(sizes))


def contiguous_strides(size: Iterable[Index]) -> tuple[Index, ...]:
    """Strides of a tensor in row-major order."""
    strides: list[Index] = []
    step = ONE
    for extent in reversed(tuple(size)):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def on_buffers(kernel: Kernel, mapping: dict[str, str]) -> Kernel:
    """The kernel with other buffers. What a product's element is read from is none."""

    def change(node: Scalar) -> Scalar:
        if node.op != LOAD:
            return node
        return Scalar(
            LOAD,
            node.args,
            node.dtype,
            replace(node.attr, buffer=mapping.get(node.attr.buffer, node.attr.buffer)),
        )

    values = rewrite(kernel.roots(), change)
    stores = (
        Store(mapping[store.buffer], store.index, value)
        for store, value in zip(kernel.stores, values, strict=True)
    )
    if isinstance(kernel, Product):
        left, right = (
            replace(view, buffer=mapping[view.buffer]) for view in (kernel.left, kernel.right)
        )
        return replace(kernel, stores=tuple(stores), left=left, right=right)
    return replace(kernel, stores=tuple(stores))


def writes(step: Step) -> Sequence[str]:
    if isinstance(step, Bound):
        return step.stored_names
    if isinstance(step, Kernel):
        return [store.buffer for store in step.stores]
    return [name for name in step.results if name is not None]


def reads(step: Step) -> frozenset[str]:
    return step.read
