"""Compiles a captured graph with gradients: its forward and its backward ATen graph, each by
itself."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch.fx

from ..graph.passes.copies import Copies
from ..graph.passes.functional import prepare_for_tracing
from ..graph.runtime_errors import draws_unread
from .ahead_of_time import ahead_of_time
from .autograd_function import TwoParts
from .batched_backward import with_batches
from .partitioner import Partition, runnable
from .shared_partition import partition_once


@dataclass(frozen=True)
class GraphPart:
    """A functional ATen graph and which part of the work of a captured one it is. `results`: how
    many outputs of a forward graph are the program's, what comes behind them is kept for the
    backward graph; None where there is none."""

    captured: torch.fx.GraphModule
    graph: torch.fx.GraphModule | Copies
    examples: Sequence[Any]
    backward: bool
    results: int | None = None

    @cached_property
    def gm(self) -> torch.fx.GraphModule:
        """The graph as a module whose nodes are the caller's to change."""
        return self.graph.module() if isinstance(self.graph, Copies) else self.graph

    def module(self) -> torch.fx.GraphModule:
        """The graph module, ready to be called: its code is only written when asked for."""
        return runnable(self.gm)


Compile = Callable[[GraphPart], Callable[..., Any]]


def compile_forward_and_backward(
    gm: torch.fx.GraphModule, example_inputs: list[Any], compile_part: Compile, *,
    random_like_eager: bool, keep_writes: bool = False,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A captured graph, its forward and its backward graph compiled by `compile_part`. What that
    returns takes the graph's inputs one by one; for the backward graph, with the mark
    `_boxed_call`, as a list that it empties. random_like_eager: the parts draw the numbers that gm
    itself would draw. keep_writes: writing into inputs is the parts' last work, instead of being
    done after them."""

    def build(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        gm = prepare_for_tracing(gm)
        two = partition_once(gm, decompositions or {})
        if two is not None:
            return compile_partition(gm, two, compile_part)
        if draws_unread(gm.graph):
            raise NotImplementedError("aot_autograd would drop random numbers that nobody reads")
        training = importlib.import_module(
            ".aot_eager", __package__
        )  # it loads aot_autograd, which takes a second or more
        made: Callable[..., Any] = training.through_aot(
            gm, example_inputs, compile_part, keep_writes, decompositions or {}
        )
        return made

    return ahead_of_time(gm, example_inputs, build, random_like_eager=random_like_eager)


def compile_partition(
    gm: torch.fx.GraphModule, two: Partition, compile_part: Compile
) -> Callable[..., Any]:
    forward = compile_part(GraphPart(gm, two.forward, examples(two.forward), False, two.results))
    return TwoParts(
        two,
        forward,
        with_batches(compile_part, GraphPart(gm, two.backward, examples(two.backward), True)),
    )


def examples(graph: Copies) -> list[Any]:
    return [node.meta["val"] for node in graph.find_nodes(op="placeholder")]
