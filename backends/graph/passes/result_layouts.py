"""Gives dimensions of one element the strides that they have in the results of a captured graph:
decompositions may give them others, by which later operators may choose another memory format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from ..copies import AnyNode, Copies
from ..fake_values import fake_of

ATEN = torch.ops.aten


def lay_out_results(
    captured: torch.fx.GraphModule, traced: torch.fx.GraphModule | Copies, skipped: int = 0
) -> None:
    """Lays out the results of a functional graph that are those of the captured graph: they come
    after `skipped` others, and others may follow."""
    (ours,), (theirs,) = captured.graph.output_node().args, traced.graph.output_node().args
    if not isinstance(ours, tuple | list) or not isinstance(theirs, tuple | list):
        return
    laid_out: dict[Any, AnyNode] = {}
    for mine, other in zip(ours, theirs[skipped:], strict=False):
        if isinstance(mine, torch.fx.Node) and isinstance(other, AnyNode):
            strides = strides_to_give(fake_of(mine), other.meta.get("val"))
            if strides is not None and other not in laid_out:
                laid_out[other] = with_strides(traced.graph, other, strides)
    if not laid_out:
        return
    # a result that is also saved for the backward pass stays one tensor: writes to it are noticed
    results: Any = [laid_out.get(item, item) for item in theirs]
    if isinstance(traced, Copies):
        traced.nodes.pop()
        traced.output(results)
    else:
        traced.graph.output_node().args = (type(theirs)(results),)
        traced.recompile()


def strides_to_give(wanted: Any, found: Any) -> Sequence[int] | None:
    """The strides of a captured result, if those of the traced one differ, but only for dimensions
    of one element."""
    if (
        type(wanted) is not FakeTensor
        or type(found) is not FakeTensor
        or wanted.layout != found.layout
        or wanted.shape != found.shape
    ):
        return None
    every = [*wanted.shape, *wanted.stride(), *found.stride()]
    if not all(type(number) is int for number in every) or wanted.stride() == found.stride():
        return None
    pairs = zip(wanted.shape, wanted.stride(), found.stride(), strict=True)
    return wanted.stride() if all(size == 1 or a == b for size, a, b in pairs) else None


def with_strides(graph: torch.fx.Graph | Copies, node: Any, strides: Sequence[int]) -> AnyNode:
    """A view of a node's result with other strides, at the end of the graph."""
    fake = node.meta["val"]
    arguments = [*fake.shape], [*strides], fake.storage_offset()
    with fake.fake_mode, torch.no_grad():
        meta = node.meta | {"val": fake.as_strided(*arguments)}
    if isinstance(graph, Copies):
        end = graph.nodes.pop()
        source = torch.fx.Graph()
        given = source.placeholder("result")
        view = source.call_function(ATEN.as_strided.default, (given, *arguments))
        made: AnyNode = graph.add(view, (node,), meta)
        graph.nodes.append(end)
        return made
    with graph.inserting_before(graph.output_node()):
        made = graph.call_function(ATEN.as_strided.default, (node, *arguments))
    made.meta.update(meta)
    return made
