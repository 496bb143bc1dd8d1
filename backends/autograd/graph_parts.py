"""Compiles a captured graph with gradients: its forward and its backward ATen graph, each
separately."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch.fx

from ...events import UNREPORTED
from ...records import record
from ..graph.copies import Copies, with_code
from ..graph.graph_structure import shared_results
from ..graph.passed_values import NOTHING, PassedValues, passed_values
from ..graph.passes.functional import prepare_for_tracing
from ..graph.passes.result_layouts import lay_out_results
from ..graph.random_draws import draws_unread
from .ahead_of_time import ahead_of_time
from .autograd_function import ForwardAndBackward
from .batched_backward import with_batches
from .partitioner import Partition
from .shared_partition import partition_once


@record
class GraphPart:
    """The forward or backward ATen graph of a captured graph. `results`: how many outputs of a
    forward graph are the program's; the outputs after them are saved for the backward graph. None
    without a backward graph. `passed`: which inputs other parts made, and which outputs they read;
    of a backward graph, these are gradients."""

    captured: torch.fx.GraphModule
    graph: torch.fx.GraphModule | Copies
    examples: Sequence[Any]
    backward: bool
    results: int | None = None
    passed: PassedValues = NOTHING

    @cached_property
    def gm(self) -> torch.fx.GraphModule:
        """The graph as a module whose nodes the caller may change."""
        return self.graph.module() if isinstance(self.graph, Copies) else self.graph

    def module(self) -> torch.fx.GraphModule:
        """The graph module, ready to be called; its code is generated only when this is used."""
        return with_code(self.gm)


Compile = Callable[[GraphPart], Callable[..., Any]]


def identity(partition: Partition) -> Partition:
    return partition


def compile_forward_and_backward(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    compile_part: Compile,
    *,
    random_like_eager: bool,
    keep_writes: bool = False,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    settings: Hashable = None,
    rewrite: Callable[[Partition], Partition] = identity,
    note: Callable[[str], None] = UNREPORTED,
) -> Callable[..., Any]:
    """Compiles the forward and the backward graph of a captured graph with `compile_part`. A
    compiled forward graph takes the inputs one by one. A compiled backward graph may have the mark
    `_boxed_call`: then it takes a list of them and empties it. random_like_eager: both draw the
    same random numbers as gm. keep_writes: both write into inputs at their end, instead of leaving
    that to their caller. settings: what `compile_part` depends on besides the graph; subgraphs of
    equal structure then share one compiled function. None: what it returns belongs to one graph.
    rewrite: changes a pair of graphs before they are compiled. note: gets the reason why a graph
    runs as captured."""

    def build(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """The compiled graph: divided by the partitioner here where it can be, otherwise by
        aot_autograd."""
        known = shared_results(gm) if settings is not None else {}
        key = settings, frozenset(decompositions or ())
        if key in known:
            return known[key]
        gm = prepare_for_tracing(gm)
        partition = partition_once(gm, decompositions or {})
        if partition is not None:
            lay_out_results(gm, partition.forward)
            known[key] = compile_partition(gm, rewrite(partition), compile_part)
            return known[key]
        if draws_unread(gm.graph):
            raise NotImplementedError("aot_autograd would drop random numbers that nobody reads")
        # loading aot_autograd takes a second or more
        training = importlib.import_module(".aot_eager", __package__)
        made: Callable[..., Any] = training.compile_with_aot_autograd(
            gm, example_inputs, compile_part, keep_writes, decompositions or {}
        )
        return made

    return ahead_of_time(gm, example_inputs, build, random_like_eager=random_like_eager, note=note)


def compile_partition(
    gm: torch.fx.GraphModule, partition: Partition, compile_part: Compile
) -> Callable[..., Any]:
    """Compiles both graphs of a partition, and joins them to one differentiable function."""
    passed = passed_values(gm)
    forward = GraphPart(
        gm, partition.forward, examples(partition.forward), False, partition.results, passed
    )
    backward = GraphPart(
        gm,
        partition.backward,
        examples(partition.backward),
        True,
        passed=passed_gradients(partition, passed),
    )
    return ForwardAndBackward(
        partition, compile_part(forward), with_batches(compile_part, backward)
    )


def passed_gradients(partition: Partition, passed: PassedValues) -> PassedValues:
    """What the backward graph gets from other parts, and passes to them: values that it shares with
    the forward graph, and gradients. Autograd passes gradients on; no caller gets them."""
    count = len(partition.backward.graph.find_nodes(op="placeholder"))
    tangents = enumerate(partition.tangents, count - len(partition.tangents))
    saved = enumerate(partition.saved_inputs, partition.sizes)
    gradients = frozenset(
        place for place, position in enumerate(partition.wanted) if position in passed.inputs
    )
    return PassedValues(
        frozenset(place for place, position in saved if position in passed.inputs)
        | frozenset(place for place, position in tangents if position in passed.results),
        gradients,
        gradients,
    )


def examples(graph: torch.fx.GraphModule | Copies) -> list[Any]:
    return [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
