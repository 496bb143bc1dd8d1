"""Compiles a captured graph ahead of time, as far as the gradients stay those of eager: the whole
graph, subgraphs of it around what only autograd can do, or nothing.

In: a captured graph and the compiler of one. Out: a callable.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from ...events import UNREPORTED
from ..graph.fake_values import fake_of
from ..graph.grad_mode import is_on_at_both_ends, run_with_grad_mode, without_switches_at_the_ends
from ..graph.gradient_history import gains_its_first_history, wants_gradients
from ..graph.node_targets import name_of
from ..graph.wrappers import has_wrappers
from .compiled_node import with_eager_gradients
from .data_results import data_results, shows_data_of_inputs, with_own_versions
from .divergent_graphs import (
    has_part_of_other_dimensions,
    is_divergent,
    marks_memory_with_history,
    returns_view_of_wrapper,
)
from .node_modes import CannotSplit
from .split_graph import AUTOGRAD, TooManySubgraphs, split_graph
from .subgraph import Subgraph
from .subgraph_sequence import call_in_sequence

# compiles a graph, as one node of autograd's
Build = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]

# aot_autograd traces in anomaly mode, which warns of an error before it is raised.
ANOMALY = r"Error detected in |\s*Previous calculation was induced by "
MOST_FLOATS = 32  # that one graph has to find out about one by one
# What a compiler may raise for a backward pass that depends on values, or that has no functional
# form. torch.fx writes no valid Python for operators with an overload called "from" (random_).
UNTRACEABLE = (
    DynamicOutputShapeException,
    DataDependentOutputException,
    NotImplementedError,
    SyntaxError,
)
# Parts of error messages with which autograd or aot_autograd refuses a graph. Such a graph runs as
# captured.
REFUSALS = (
    "modified by an inplace operation",  # a tensor that the backward pass needs was overwritten
    # two inputs on one memory, one of them written, with sizes that vary
    "is not tracked with proxy",
    # the same, where one of them has no gradient
    "does not yet handle non-differentiable view input mutations",
    "dispatch_on_subclass called with NO overloaded args",  # resize_as_ with sizes that vary
    # a backward pass that wants sizes as numbers, where they vary
    "expected to contain only concrete integers",
    # a write into a tensor of which several elements share memory
    "a tensor being mutated that has internal overlap",
    "derivative for aten::",  # is not implemented
    "view_as_real doesn't work on unresolved conjugated tensors",  # of a wrapper subclass
)


class LeftAsCaptured(Exception):
    """A graph runs as it was captured. Its message says why."""


def ahead_of_time(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    build: Build,
    *,
    random_like_eager: bool,
    note: Callable[[str], None] = UNREPORTED,
) -> Callable[..., Any]:
    """The form of a graph that `build` compiles, whole or in subgraphs, with eager's gradients; the
    graph as it is if it cannot be predicted what eager's autograd would do. random_like_eager: the
    compiled graph draws the numbers that gm itself would draw. note: gets the reason why the graph,
    or a subgraph, is left as it is."""

    def compile_node(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        return compile_as_one_node(gm, example_inputs, build, random_like_eager)

    try:
        if wants_gradients(gm) and shows_data_of_inputs(gm):
            raise LeftAsCaptured("it returns the `.data` of an input")
        compiled = compile_in_parts(gm, example_inputs, compile_node, note)
    except LeftAsCaptured as left:
        note(str(left))
        return gm.forward
    places = data_results(gm)
    return with_own_versions(compiled, places) if places else compiled


def compile_in_parts(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    compile_node: Build,
    note: Callable[[str], None],
) -> Callable[..., Any]:
    """Does what ahead_of_time does, but for the version counters of results. Raises
    LeftAsCaptured."""
    if wants_gradients(gm) and not is_on_at_both_ends(gm):
        found_inside = without_switches_at_the_ends(gm)
        if found_inside is None:
            raise LeftAsCaptured("it switches grad mode between its operators")
        inside, behind = found_inside
        with torch.enable_grad():
            return run_with_grad_mode(
                compile_in_parts(inside, example_inputs, compile_node, note), behind
            )
    if is_divergent(gm):
        raise LeftAsCaptured("an operator's gradients would not be eager's")
    found = subgraphs_of(gm)
    if found is None:
        return compile_node(gm, example_inputs)
    subgraphs, results = found

    def compile_subgraph(subgraph: Subgraph) -> Callable[..., Any]:
        if subgraph.is_small:
            return subgraph.gm.forward
        try:
            return compile_node(subgraph.gm, subgraph.examples(example_inputs))
        except LeftAsCaptured as left:
            note(f"in a subgraph, {left}")
            return subgraph.gm.forward

    return call_in_sequence(subgraphs, list(map(compile_subgraph, subgraphs)), results)


def subgraphs_of(gm: torch.fx.GraphModule) -> tuple[list[Subgraph], list[int]] | None:
    """As split_graph, and None for a graph that cannot be split. Raises LeftAsCaptured."""
    try:
        return split_graph(gm)
    except TooManySubgraphs as error:
        raise LeftAsCaptured("it would be cut into too many subgraphs") from error
    except CannotSplit as error:
        if any(name_of(node) in AUTOGRAD for node in gm.graph.nodes):
            raise LeftAsCaptured("autograd runs inside") from error
        return None


def compile_as_one_node(
    gm: torch.fx.GraphModule, example_inputs: list[Any], build: Build, random_like_eager: bool
) -> Callable[..., Any]:
    """The graph as one node of autograd's. Raises LeftAsCaptured."""
    if marks_memory_with_history(gm):
        raise LeftAsCaptured("it makes a leaf of what it detaches")
    if wants_gradients(gm) and has_part_of_other_dimensions(gm):
        raise LeftAsCaptured("a distributed tensor has not the dimensions of its part")
    if returns_view_of_wrapper(gm):
        raise LeftAsCaptured("it returns a view of a wrapper subclass")
    examples = before_the_graph(gm, example_inputs)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ANOMALY)
            compiled = build_again(lambda: build(gm, examples))
    except UNTRACEABLE as error:
        raise LeftAsCaptured(first_line(error)) from error
    except Exception as error:
        if (
            any(said in str(error) for said in REFUSALS)
            or any(node.target is torch.autograd.grad for node in gm.graph.nodes)
            or has_wrappers(gm)
        ):
            # a backward pass may lack what it needs, or that was freed, or a rule of a wrapper's
            # class; then it raises, later
            raise LeftAsCaptured(first_line(error)) from error
        raise
    return with_eager_gradients(gm, compiled, random_like_eager)


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).partition("\n")[0]


def before_the_graph(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> list[Any]:
    """The example inputs without the histories that the graph gives them. aot_autograd would take
    the capture's fake tensors for them, which have these histories, and so find one in everything
    that is made of such an input before it is written."""
    return [
        fake_of(node).detach() if gains_its_first_history(node) else example
        for node, example in zip(gm.graph.find_nodes(op="placeholder"), example_inputs, strict=True)
    ]


def build_again(build: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """The result of `build`, which is called a second time if aot_autograd fails because a float
    that varied is relied on after all: it has specialised the float by then."""
    for _ in range(MOST_FLOATS):
        try:
            return build()
        except Exception as error:
            if type(error).__name__ != "TensorifyScalarRestartAnalysis":
                raise
    return build()
