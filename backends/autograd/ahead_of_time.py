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

from ..graph.collectives import is_on_distributed_tensors
from ..graph.fake_values import fake_of
from ..graph.grad_mode import is_on_at_both_ends, run_with_grad_mode, without_switches_at_the_ends
from ..graph.gradient_history import gains_its_first_history, wants_gradients
from ..graph.node_targets import name_of
from .compiled_node import with_eager_gradients
from .data_results import data_results, shows_data_of_inputs, with_own_versions
from .divergent_graphs import (
    is_divergent,
    marks_memory_with_history,
    returns_view_of_wrapper,
)
from .split_graph import AUTOGRAD, CannotSplit, Subgraph, TooManySubgraphs, split_graph
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


def ahead_of_time(
    gm: torch.fx.GraphModule, example_inputs: list[Any], build: Build, *, random_like_eager: bool
) -> Callable[..., Any]:
    """The form of a graph that `build` compiles, whole or in subgraphs, with eager's gradients; the
    graph as it is if it cannot be predicted what eager's autograd would do. random_like_eager: the
    compiled graph draws the numbers that gm itself would draw."""
    if wants_gradients(gm) and shows_data_of_inputs(gm):
        return gm.forward
    compiled = _ahead_of_time(gm, example_inputs, build, random_like_eager)
    places = data_results(gm)
    return with_own_versions(compiled, places) if places and compiled != gm.forward else compiled


def _ahead_of_time(
    gm: torch.fx.GraphModule, example_inputs: list[Any], build: Build, random_like_eager: bool
) -> Callable[..., Any]:
    """Does what ahead_of_time does, but for the version counters of results."""
    if wants_gradients(gm) and not is_on_at_both_ends(gm):
        found_inside = without_switches_at_the_ends(gm)
        if found_inside is None:
            return gm.forward
        inside, behind = found_inside
        with torch.enable_grad():
            return run_with_grad_mode(
                _ahead_of_time(inside, example_inputs, build, random_like_eager), behind
            )
    if is_divergent(gm):
        return gm.forward
    try:
        found = split_graph(gm)
    except TooManySubgraphs:
        return gm.forward
    except CannotSplit:
        if any(name_of(node) in AUTOGRAD for node in gm.graph.nodes):
            return gm.forward
        found = None
    if found is None:
        return compile_as_one_node(gm, example_inputs, build, random_like_eager)
    pieces, results = found

    def compile_piece(piece: Subgraph) -> Callable[..., Any]:
        return (
            piece.gm.forward
            if piece.is_small
            else compile_as_one_node(
                piece.gm, piece.examples(example_inputs), build, random_like_eager
            )
        )

    return call_in_sequence(pieces, [compile_piece(piece) for piece in pieces], results)


def compile_as_one_node(
    gm: torch.fx.GraphModule, example_inputs: list[Any], build: Build, random_like_eager: bool
) -> Callable[..., Any]:
    if marks_memory_with_history(gm) or returns_view_of_wrapper(gm):
        return gm.forward
    examples = before_the_graph(gm, example_inputs)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ANOMALY)
            compiled = build_again(lambda: build(gm, examples))
    except UNTRACEABLE:
        return gm.forward
    except Exception as error:
        if any(said in str(error) for said in REFUSALS) or any(
            node.target is torch.autograd.grad or is_on_distributed_tensors(node)
            for node in gm.graph.nodes
        ):
            # a backward pass may lack what it needs, or that was freed, or a rule for DTensors;
            # then it raises, later
            return gm.forward
        raise
    return with_eager_gradients(gm, compiled, random_like_eager)


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
