"""Views that are created after the compiled graph, by eager's operators, from an input or an
additional result.

Two kinds of results need this. torch.split(), chunk() and unbind() of a tensor with a gradient give
views that autograd forbids to write to; a compiled graph's views would have another base, and
Python could write to them past the gradients, where eager raises. And where sizes vary,
aot_autograd places views of a written input at the offset that they have in its new value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
import torch.fx

from ...factory_call import record_factory
from ...records import record
from .extracted_calls import ExtractedGraph, extract_subgraph
from .fake_values import fake_of
from .gradient_history import is_one_of_several_views
from .higher_order_call import HigherOrderCall
from .memory import memory_at
from .mutations import may_write


@record
class ViewsAfterGraph:
    """What runs after a graph. `results`: those of the graph itself. `view_graph` creates views of
    some of them, and of inputs, since a compiled graph may return an input as another tensor.
    `places`: for each result of both together, its position among the graph's results or, after
    those, among the views."""

    results: tuple[torch.fx.Node, ...]
    view_graph: ExtractedGraph
    places: tuple[int, ...]

    def wrap(self, run: Callable[..., Any], inputs: Sequence[torch.fx.Node]) -> Callable[..., Any]:
        """A function that runs the graph, then creates the views. inputs: the nodes of the
        arguments that `run` takes."""
        taken = tuple((*inputs, *self.results).index(node) for node in self.view_graph.inputs)
        return then_make_views(run, self.view_graph.run, taken, self.places)


def then_make_views(
    run: Callable[..., Any],
    makes: Callable[..., Any],
    taken: tuple[int, ...],
    places: tuple[int, ...],
) -> Callable[..., Any]:
    """A function that runs a graph, then makes views of its arguments and results. taken: what
    `makes` gets of these. places: of the results and views, what is returned."""

    def call(*args: Any) -> Any:
        results = tuple(run(*args))
        known = (*args, *results)
        with torch.enable_grad():
            results += makes(*(known[place] for place in taken))
        return tuple(results[place] for place in places)

    return record_factory(call, then_make_views, run, makes, taken, places)


def views_to_make_outside(
    nodes: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]
) -> ViewsAfterGraph | None:
    """The results of a graph with these nodes that have to be created after it; None where there
    are none."""
    forbidden = dict.fromkeys(
        node for node in outputs if is_forbidden(node) and is_only_a_view(node)
    )
    made = dict.fromkeys(step for node in forbidden for step in path_from_base(node))
    if made and is_written_behind(
        nodes[next(place for place, node in enumerate(nodes) if node in made) :], made
    ):
        forbidden, made = {}, {}
    moving = {node: way for node in views_at_an_offset(outputs) if (way := path_from_input(node))}
    made |= dict.fromkeys(step for way in moving.values() for step in way)
    views = forbidden | dict.fromkeys(moving)
    steps = [node for node in nodes if node in made]
    return make_after_graph(steps, views, outputs) if steps else None


def make_after_graph(
    steps: Sequence[torch.fx.Node],
    views: Collection[torch.fx.Node],
    outputs: Sequence[torch.fx.Node],
) -> ViewsAfterGraph:
    """Moves `steps` after a graph with these outputs; `views` are the outputs that they make."""
    view_graph = extract_subgraph(steps, (), tuple(views))
    bases = [node for node in view_graph.inputs if node.op != "placeholder"]
    results = tuple(dict.fromkeys([node for node in outputs if node not in views] + bases))
    numbers = {node: number for number, node in enumerate((*results, *views))}
    return ViewsAfterGraph(results, view_graph, tuple(numbers[node] for node in outputs))


def reason(results: Sequence[torch.fx.Node]) -> str:
    """Why a graph with these results, after others are made outside, can only run on torch's own
    operators; "" otherwise."""
    if views_at_an_offset(results):
        return "a result is a view of an input that is written, and sizes vary"
    if any(map(is_forbidden, views_of_written(results))):
        return (
            "a result is one of several views that an operator made of an input that was "
            "written afterwards"
        )
    return ""


def views_at_an_offset(outputs: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """Results that are views of an input that is written, where sizes vary."""
    return list(filter(has_symbols, views_of_written(outputs)))


def views_of_written(outputs: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """Results that are views of an input that is written."""
    inputs = outputs[0].graph.find_nodes(op="placeholder") if outputs else []
    written = {memory_at(node) for node in inputs if node.meta.get("mutated")} - {None}
    return [node for node in outputs if node.op != "placeholder" and memory_at(node) in written]


def has_symbols(node: torch.fx.Node) -> bool:
    fake = node.meta["example_value"]
    return any(
        isinstance(number, torch.SymInt)
        for number in (*fake.shape, *fake.stride(), fake.storage_offset())
    )


def path_from_input(view: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes that make a view from inputs; none where one of them does more than make a view, or
    is differentiated."""
    found, todo = [], [view]
    while todo:
        node = todo.pop()
        fake = fake_of(node)
        if (
            isinstance(fake, torch.Tensor)
            and (fake.requires_grad or memory_at(node) != memory_at(view))
            or may_write(node)
        ):
            return []
        if node.op != "placeholder" and node not in found:
            found.append(node)
            todo += node.all_input_nodes
    return found


def is_forbidden(node: torch.fx.Node) -> bool:
    return node.op != "placeholder" and is_one_of_several_views(node)


def is_only_a_view(view: torch.fx.Node) -> bool:
    """Whether what makes the view does nothing else, unlike flex_attention, of which the result is
    a view to autograd."""
    return not any(isinstance(step.target, HigherOrderCall) for step in path_from_base(view))


def path_from_base(view: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes that make a view from its base."""
    base, shared = view.meta["example_value"]._base, memory_at(view)
    found, todo = [], [view]
    while todo:
        node = todo.pop()
        if node.op == "placeholder" or node in found:
            continue
        if "example_value" in node.meta and (
            node.meta["example_value"] is base or memory_at(node) != shared
        ):
            continue  # what the views are of, or a number
        found.append(node)
        todo += node.all_input_nodes
    return found


def is_written_behind(nodes: Sequence[torch.fx.Node], views: dict[torch.fx.Node, None]) -> bool:
    """Whether one of these nodes may write into the memory of the views."""
    shared = {memory_at(view) for view in views} - {None}
    return any(
        memory_at(other) in shared
        for node in nodes
        if may_write(node)
        for other in node.all_input_nodes
    )
