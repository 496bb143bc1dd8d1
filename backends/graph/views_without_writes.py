"""Views that autograd forbids to write into: results of torch.split(), chunk() and unbind() on a tensor with gradients.

Such results of a graph are made outside of it, by eager's operators from one more result. A compiled graph's own would be views of
nothing, or of something else: what Python writes into them would go past the gradients, where eager raises.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._C._autograd import CreationMeta, _get_creation_meta

from .extracted_calls import ExtractedGraph, extract_subgraph
from .mutations import may_write
from .passes.memory import memory_at


@dataclass(frozen=True)
class Outside:
    """What is done behind a graph. `results`: those of the graph itself; `piece` makes views of some of them. `places`: of each result
    of both together, its number among the graph's, or, from their end on, among the views."""

    results: tuple[torch.fx.Node, ...]
    piece: ExtractedGraph
    places: tuple[int, ...]

    def around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        makes, places = self.piece.run, self.places
        taken = tuple(self.results.index(node) for node in self.piece.inputs)

        def call(*args: Any) -> Any:
            results = tuple(run(*args))
            with torch.enable_grad():
                results += makes(*(results[place] for place in taken))
            return tuple(results[place] for place in places)

        return call


def views_to_make_outside(nodes: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]) -> Outside | None:
    """Those among the results of a graph with these nodes; None without one that can be made behind it."""
    views = dict.fromkeys(node for node in outputs if is_forbidden(node))
    made = dict.fromkeys(step for node in views for step in way_from_base(node))
    steps = [node for node in nodes if node in made]
    if not steps or is_written_behind(nodes[nodes.index(steps[0]) :], made):
        return None
    piece = extract_subgraph(steps, (), tuple(views))
    results = tuple(dict.fromkeys([node for node in outputs if node not in views] + list(piece.inputs)))
    numbers = {node: number for number, node in enumerate((*results, *views))}
    return Outside(results, piece, tuple(numbers[node] for node in outputs))


def is_forbidden(node: torch.fx.Node) -> bool:
    fake = node.meta.get("example_value")
    if not isinstance(fake, torch.Tensor) or not fake.requires_grad or not fake._is_view():
        return False
    return node.op != "placeholder" and _get_creation_meta(fake) == CreationMeta.MULTI_OUTPUT_NODE


def way_from_base(view: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes by which a view comes from the tensor that it is one of."""
    base, shared = view.meta["example_value"]._base, memory_at(view)
    found, todo = [], [view]
    while todo:
        node = todo.pop()
        if node.op == "placeholder" or node in found:
            continue
        if "example_value" in node.meta and (node.meta["example_value"] is base or memory_at(node) != shared):
            continue  # what the views are of, or a number
        found.append(node)
        todo += node.all_input_nodes
    return found


def is_written_behind(nodes: Sequence[torch.fx.Node], views: dict[torch.fx.Node, None]) -> bool:
    """Whether one of these nodes may write into the memory of the views."""
    shared = {memory_at(view) for view in views} - {None}
    return any(memory_at(other) in shared for node in nodes if may_write(node) for other in node.all_input_nodes)
