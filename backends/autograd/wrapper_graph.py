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
from ..graph.wrappers import is_distributed, is_wrapper


@record
class WrapperForm:
    """How a wrapper is made of its parts: what its class flattens it to. parts: by name, the form
    of a part that is itself a wrapper, else None."""

    cls: Any
    parts: tuple[tuple[str, WrapperForm | None], ...]
    metadata: Any
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, fake: Any) -> WrapperForm | None:
        """The form of a wrapper; None for another value. Raises CannotRebuild."""
        if not is_wrapper(type(fake)):
            return None
        names, metadata = fake.__tensor_flatten__()
        varying = (*fake.shape, *fake.stride(), *tree_leaves(metadata))
        if fake.is_nested or any(isinstance(one, torch.SymInt | torch.Tensor) for one in varying):
            raise CannotRebuild
        parts = tuple((name, cls.of(getattr(fake, name))) for name in names)
        return cls(type(fake), parts, metadata, tuple(fake.shape), fake.stride())

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
        return self.cls.__tensor_unflatten__(inner, self.metadata, self.size, self.stride)


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
        self.readers = [None if form is None else reader_of(form.paths()) for form in inputs]
        self.makes_wrappers = any(results)

    def __reduce__(self) -> Any:
        return WrapperGraph, (self.inputs, self.results, self.forward)

    def __call__(self, *args: Any) -> Any:
        given: list[Any] = []
        for arg, read in zip(args, self.readers, strict=True):
            given += (arg,) if read is None else read(arg)
        with torch.no_grad(), torch._C._DisableAutocast():
            made = self.forward(*given)
            if not self.makes_wrappers:
                return made
            parts = iter(made)
            return [next(parts) if form is None else form.make(parts) for form in self.results]


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
        or not group_names(part.graph) <= guarded_group_names(gm)
    ):
        return None
    try:
        taken, made = (
            [WrapperForm.of(fake_of(node)) for node in some] for some in (inputs, outputs)
        )
    except CannotRebuild:
        return None
    counts = [
        sum(1 if form is None else len(form.paths()) for form in forms) for forms in (taken, made)
    ]
    if counts != [len(about.input_info), len(about.output_info)]:
        return None
    return WrapperGraph(taken, made, forward)


def group_names(graph: Any) -> set[str]:
    """The names of the process groups in a graph of inner tensors, and what else is text there."""
    return {
        arg for node in graph.nodes if is_collective(node) for arg in node.args if type(arg) is str
    }


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
