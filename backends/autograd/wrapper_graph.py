"""Runs the graph of inner tensors behind a captured graph on wrapper subclasses, without gradients:
takes the inputs apart and makes the results.

Unlike the function that aot_autograd makes, this one can be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch.utils._pytree import tree_leaves

from ...records import reader_of, record
from ..graph.collectives import is_collective
from ..graph.distributed_call import DistributedCall
from ..graph.fake_values import fake_of
from ..graph.memory import memory_at
from ..graph.wrappers import WrapperDescription, is_distributed, is_wrapper


@record
class WrapperForm(WrapperDescription):
    """How a wrapper is made of its parts: what its class flattens it to. parts: by name, the form
    of a part that is itself a wrapper, else None. size, stride: None for a number that varies;
    graphs take and return these numbers after the parts."""

    cls: Any
    parts: tuple[tuple[str, WrapperForm | None], ...]
    metadata: Any
    size: tuple[int | None, ...]
    stride: tuple[int | None, ...]

    @classmethod
    def of(cls, fake: Any) -> WrapperForm | None:
        """The form of a wrapper; None for another value. Raises CannotRebuild."""
        if not is_wrapper(type(fake)):
            return None
        if fake.is_nested:
            raise CannotRebuild
        names, metadata = fake.__tensor_flatten__()
        parts = tuple((name, cls.of(getattr(fake, name))) for name in names)
        size, stride = (tuple(map(fixed_number, found)) for found in (fake.shape, fake.stride()))
        return cls(type(fake), parts, metadata, size, stride).require_fixed_metadata()

    @classmethod
    def described_by(cls, about: Any) -> WrapperForm | None:
        """The form of a wrapper that aot_autograd's metadata describes; None for another value.
        Raises CannotRebuild."""
        if not hasattr(about, "attrs"):
            return None
        parts = tuple((name, cls.described_by(part)) for name, part in about.attrs.items())
        kind = about.original_subclass_type or type(about.original_subclass)
        size, stride = tuple(about.outer_size), tuple(about.outer_stride)
        made = cls(kind, parts, about.meta, size, stride)
        # ragged sizes are no numbers that a graph could return
        fits = all(type(number) in (int, type(None)) for number in (*size, *stride))
        if not fits or (made.varies and not about.included_subclass_symints):
            raise CannotRebuild
        return made.require_fixed_metadata()

    def require_fixed_metadata(self) -> WrapperForm:
        """The form itself. Raises CannotRebuild where its metadata varies."""
        if any(
            isinstance(leaf, torch.SymInt | torch.Tensor) for leaf in tree_leaves(self.metadata)
        ):
            raise CannotRebuild
        if self.varies and is_distributed(self.cls):  # the sizes are in the metadata, too
            raise CannotRebuild
        return self

    @property
    def varies(self) -> bool:
        """Whether one of its own sizes or strides varies."""
        return None in self.size or None in self.stride

    @property
    def count(self) -> int:
        """How many values graphs take for it: parts that are no wrappers, and numbers."""
        numbers = self.size.count(None) + self.stride.count(None)
        return numbers + sum(1 if form is None else form.count for _, form in self.parts)

    @property
    def reader(self) -> Callable[[Any], Sequence[Any]]:
        """A function that gives what graphs take for a wrapper."""
        paths = self.paths()
        return reader_of(paths) if len(paths) == self.count else self.read

    def read(self, wrapper: Any) -> list[Any]:
        """What graphs take for a wrapper."""
        found: list[Any] = []
        for name, form in self.parts:
            part = getattr(wrapper, name)
            found += (part,) if form is None else form.read(part)
        for expected, number in zip(
            (*self.size, *self.stride), (*wrapper.shape, *wrapper.stride()), strict=True
        ):
            if expected is None:
                found.append(number)
        return found

    def paths(self) -> list[str]:
        """The attributes that lead to the parts that are no wrappers."""
        return [
            path
            for name, form in self.parts
            for path in ([name] if form is None else [f"{name}.{one}" for one in form.paths()])
        ]

    def make(self, parts: Iterator[Any]) -> Any:
        """The wrapper of the next parts."""
        inner = {
            name: next(parts) if form is None else form.make(parts) for name, form in self.parts
        }
        size, stride = (
            tuple([next(parts) if number is None else number for number in numbers])
            for numbers in (self.size, self.stride)
        )
        return self.cls.__tensor_unflatten__(inner, self.metadata, size, stride)


def fixed_number(number: Any) -> int | None:
    """A size; None for one that varies, as aot_autograd has it."""
    return number if type(number) is int else None


class CannotRebuild(Exception):
    """aot_autograd's own function has to run a graph."""


class WrapperGraph:
    """A function of a captured graph's inputs. inputs, results: their forms, None where they are no
    wrappers. forward: the compiled graph of inner tensors."""

    def __init__(
        self,
        inputs: Sequence[WrapperForm | None],
        results: Sequence[WrapperForm | None],
        forward: Callable[..., Any],
    ) -> None:
        self.inputs, self.results, self.forward = inputs, results, forward
        self.readers = readers_of(inputs)
        self.makes_wrappers = any(results)

    def __reduce__(self) -> Any:
        return WrapperGraph, (self.inputs, self.results, self.forward)

    def __call__(self, *args: Any) -> Any:
        with torch.no_grad(), torch._C._DisableAutocast():
            made = self.forward(*flatten_wrappers(args, self.readers))
            return put_together(self.results, made) if self.makes_wrappers else made


Forms = Sequence[WrapperForm | None]
# by value, what reads its parts; None where it is no wrapper
Readers = Sequence[Callable[[Any], Sequence[Any]] | None]


def readers_of(forms: Forms) -> Readers:
    return [None if form is None else form.reader for form in forms]


def flatten_wrappers(values: Sequence[Any], readers: Readers) -> list[Any]:
    """The values, with the parts of wrappers instead of these."""
    given: list[Any] = []
    for value, read in zip(values, readers, strict=True):
        given += (value,) if read is None else read(value)
    return given


def put_together(forms: Forms, values: Sequence[Any]) -> list[Any]:
    """The values, with wrappers instead of their parts."""
    parts = iter(values)
    return [next(parts) if form is None else form.make(parts) for form in forms]


def count_parts(forms: Forms) -> int:
    return sum(1 if form is None else form.count for form in forms)


def wrapper_graph(
    gm: torch.fx.GraphModule, part: Any, forward: Callable[..., Any], about: Any
) -> WrapperGraph | None:
    """The function of a captured graph without gradients; None where aot_autograd's own has to run
    it. part: its graph of inner tensors, and forward, what that was compiled to. about:
    aot_autograd's metadata of the part."""
    inputs = gm.graph.find_nodes(op="placeholder")
    outputs: Any = gm.graph.output_node().args[0]
    nodes = [node for node in (*inputs, *outputs) if isinstance(node, torch.fx.Node)]
    memories = [memory for node in nodes if (memory := memory_at(node)) is not None]
    if (
        len(nodes) < len(inputs) + len(outputs)
        or any(node.meta.get("mutated") for node in inputs)
        or len(set(memories)) < len(memories)
        or any(info.output_type.name != "non_alias" for info in about.output_info)
        or not group_names(part) <= guarded_group_names(gm)
    ):
        return None
    try:
        taken, made = (
            [WrapperForm.of(fake_of(node)) for node in some] for some in (inputs, outputs)
        )
    except CannotRebuild:
        return None
    return WrapperGraph(taken, made, forward) if takes_parts(part, taken, made) else None


def takes_parts(part: torch.fx.GraphModule, taken: Forms, made: Forms) -> bool:
    """Whether a graph takes and returns the parts of values of these forms, and no more (such as
    the tokens that keep operators with side effects in order)."""
    results: Any = part.graph.output_node().args[0]
    counts = count_parts(taken), count_parts(made)
    return counts == (len(part.graph.find_nodes(op="placeholder")), len(results))


def group_names(part: torch.fx.GraphModule) -> set[str]:
    """The names of the process groups in a graph of inner tensors, and what else is text there."""
    started = filter(is_collective, part.graph.nodes)
    return {arg for node in started for arg in node.args if type(arg) is str}


def guarded_group_names(gm: torch.fx.GraphModule) -> frozenset[str]:
    """The names of the groups of all meshes that a captured graph is given."""
    fakes: list[Any] = [fake_of(node) for node in gm.graph.find_nodes(op="placeholder")]
    meshes = [fake.device_mesh for fake in fakes if is_distributed(type(fake))]
    for node in gm.graph.nodes:
        if isinstance(node.target, DistributedCall):
            meshes += filter(is_mesh, node.target.fixed.values())
    return REDUCTIONS.union(group.group_name for mesh in meshes for group in mesh.get_all_groups())


def is_mesh(item: Any) -> bool:
    return isinstance(item, torch.distributed.DeviceMesh)


# names of reductions, the other text among the arguments of collectives
REDUCTIONS = frozenset({"sum", "avg", "product", "min", "max", "band", "bor", "bxor"})
