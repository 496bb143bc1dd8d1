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
from .index import ONE, Atom, Index, Var, index, product
from .scalar_ops import BOOL, SCALAR_OPS

LOAD, CONST, INDEX, CAST, REDUCE = "load", "const", "index", "cast", "reduce"
SCATTER = "scatter"


@dataclass(frozen=True, eq=False, slots=True)
class Scalar:
    """One number for each point of the loops. `op`: a name of SCALAR_OPS, or load: attr an Access,
    arguments its mask and its computed subscripts; const: attr the number; index: attr an Index;
    cast: to dtype; reduce: attr a name of REDUCTIONS, over the inner loops; scatter: only as what
    is stored, see `scatter`."""

    op: str
    args: tuple[Scalar, ...]
    dtype: torch.dtype
    attr: Any = None

    def __add__(self, other: Operand) -> Scalar:
        return scalar("add", self, other)

    def __radd__(self, other: Operand) -> Scalar:
        return scalar("add", other, self)

    def __sub__(self, other: Operand) -> Scalar:
        return scalar("sub", self, other)

    def __rsub__(self, other: Operand) -> Scalar:
        return scalar("sub", other, self)

    def __mul__(self, other: Operand) -> Scalar:
        return scalar("mul", self, other)

    def __rmul__(self, other: Operand) -> Scalar:
        return scalar("mul", other, self)

    def __truediv__(self, other: Operand) -> Scalar:
        return scalar("div", self, other)

    def __rtruediv__(self, other: Operand) -> Scalar:
        return scalar("div", other, self)

    def __neg__(self) -> Scalar:
        return scalar("neg", self)


Operand = Scalar | int | float  # a number takes the type of the other operands


@record
class Access:
    """An element of a buffer, counted from its start. Hole(n) in the index is the n-th computed
    subscript. Where the load's mask is false, nothing is read. checked: the last argument must hold
    wherever the mask does; eager raises where it does not."""

    buffer: str
    index: Index
    checked: bool = False


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

    def unused_name(self, name: str) -> str:
        """A name that no buffer has yet."""
        while name in self.buffers:
            name += "_"
        return name


# --- making Scalars
# --------------------------------------------------------------------------------------------------


def scalar(name: str, *operands: Operand) -> Scalar:
    """An operation of SCALAR_OPS. Operands have one type (`where`: the last two), which plain
    numbers take on."""
    typed = operands[1:] if name == "where" else operands
    dtype = next(one.dtype for one in typed if isinstance(one, Scalar))
    args = tuple(one if isinstance(one, Scalar) else const(one, dtype) for one in operands)
    assert all(arg.dtype == dtype for arg in args[-len(typed) :]), (name, args)
    return Scalar(name, args, torch.bool if SCALAR_OPS[name].result == BOOL else dtype)


def const(value: Any, dtype: torch.dtype) -> Scalar:
    if dtype == torch.bool:
        value = bool(value)
    elif dtype.is_floating_point:
        value = float(value)
    else:
        value = int(value)
    return Scalar(CONST, (), dtype, value)


def position(value: Index, dtype: torch.dtype = torch.int64) -> Scalar:
    return cast(Scalar(INDEX, (), torch.int64, value), dtype)


TRUE = const(True, torch.bool)


def load(
    buffer: str,
    place: Index,
    dtype: torch.dtype,
    subscripts: tuple[Scalar, ...] = (),
    mask: Scalar = TRUE,
    check: Scalar | None = None,
) -> Scalar:
    args = (mask, *subscripts) if check is None else (mask, *subscripts, check)
    return Scalar(LOAD, args, dtype, Access(buffer, place, check is not None))


HALF = (torch.float16, torch.bfloat16)


def cast(value: Scalar, dtype: torch.dtype) -> Scalar:
    """value as dtype, torch's way: to bool is `!= 0`, to an integer truncates."""
    if value.dtype == dtype:
        return value
    if value.op == CONST and not (dtype in HALF and isinstance(value.attr, float)):
        if not (
            isinstance(value.attr, float) and not dtype.is_floating_point and dtype != torch.bool
        ):
            return const(value.attr, dtype)
    if value.op == CAST and value.args[0].dtype == dtype == torch.float32 and value.dtype in HALF:
        # rounding to half precision and back is left out between fused operations
        return value.args[0]
    return Scalar(CAST, (value,), dtype)


def reduce(kind: str, value: Scalar) -> Scalar:
    return Scalar(REDUCE, (value,), torch.int64 if kind.startswith("arg") else value.dtype, kind)


def scatter(kind: str, old: Scalar, value: Scalar, row: Scalar, rows: Index) -> Scalar:
    """What a kernel stores at computed places: the element there (`old`, a load at the same place
    whose mask says whether anything is stored) combined with a value. kind: a name of SCATTERS.
    row: the place along one dimension; iterations with different rows store to different elements.
    rows: how many rows there are."""
    return Scalar(SCATTER, (old, value, row, position(rows)), value.dtype, kind)


def scattered_value(kernel: Kernel) -> Scalar | None:
    """The scatter of a kernel that has one."""
    value = kernel.stores[0].value
    return value if value.op == SCATTER else None


# --- walking and rewriting
# --------------------------------------------------------------------------------------------------


def topological(roots: Iterable[Scalar]) -> list[Scalar]:
    """Every Scalar once, arguments first."""
    seen: set[int] = set()
    ordered: list[Scalar] = []
    todo: list[tuple[Scalar, bool]] = [(root, False) for root in reversed(list(roots))]
    while todo:
        node, ready = todo.pop()
        if ready:
            ordered.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            todo.append((node, True))
            todo.extend((arg, False) for arg in reversed(node.args) if id(arg) not in seen)
    return ordered


def rewrite(roots: Iterable[Scalar], change: Callable[[Scalar], Scalar]) -> list[Scalar]:
    """The roots with every node replaced by change(node, its arguments already rewritten); shared
    nodes stay shared."""
    roots = list(roots)
    done: dict[int, Scalar] = {}
    for node in topological(roots):
        args = tuple(done[id(arg)] for arg in node.args)
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        done[id(node)] = change(node if same else Scalar(node.op, args, node.dtype, node.attr))
    return [done[id(root)] for root in roots]


def substitute(roots: Iterable[Scalar], mapping: Mapping[Atom, Index]) -> list[Scalar]:
    """The roots with loop variables replaced."""

    def change(node: Scalar) -> Scalar:
        if node.op == LOAD:
            place = node.attr.index.substitute(mapping)
            if place is node.attr.index:
                return node
            return Scalar(LOAD, node.args, node.dtype, replace(node.attr, index=place))
        if node.op == INDEX:
            place = node.attr.substitute(mapping)
            return node if place is node.attr else Scalar(INDEX, (), node.dtype, place)
        return node

    return rewrite(roots, change)


def share(roots: Iterable[Scalar]) -> list[Scalar]:
    """Common subexpression elimination: equal Scalars become one object."""
    known: dict[Any, Scalar] = {}

    def change(node: Scalar) -> Scalar:
        # 0.0 is not -0.0, NaN is NaN
        attr = repr(node.attr) if isinstance(node.attr, float) else node.attr
        return known.setdefault(
            (node.op, tuple(map(id, node.args)), node.dtype, attr, type(node.attr)), node
        )

    return rewrite(roots, change)


def loads(roots: Iterable[Scalar]) -> list[Scalar]:
    return [node for node in topological(roots) if node.op == LOAD]


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
