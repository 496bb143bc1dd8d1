"""Nodes that run as captured, between the subgraphs that a backend compiles: those that set
hooks up, collectives, calls of opaque functions, and calls of higher-order operators for a backend
that does not take them, of which the functions are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch.fx
from torch.utils._pytree import tree_leaves

from ...errors import RequirementError
from ...events import Reporter
from ..autograd.node_modes import CannotSplit, Modes, separate_modes
from ..autograd.split_graph import has_gradient, memories_of, written_memories
from ..autograd.subgraph import is_passed_between, make_subgraphs
from ..autograd.subgraph_sequence import call_in_sequence
from ..graph.collectives import (
    CountedCollectives,
    has_collectives,
    is_on_distributed_tensors,
    may_communicate,
)
from ..graph.data_dependent_sizes import CheckedGraph, has_data_dependent_sizes
from ..graph.eager_fallback import fall_back_to_eager
from ..graph.gradient_history import lost_its_history, wants_gradients
from ..graph.graph_structure import share_with_equal_subgraphs
from ..graph.higher_order_call import HigherOrderCall
from ..graph.memory import is_strided
from ..graph.mode_switches import ENTER_AUTOCAST, leaves_vmap_open, switches_modes
from ..graph.mutations import is_norm, is_written, may_write, written_nodes
from ..graph.node_targets import is_foreign, name_of
from ..graph.number_arguments import takes_varying_length
from ..graph.opaque_call import OpaqueNode
from ..graph.random_draws import draws_random_numbers
from ..graph.random_generators import DrawFrom
from ..graph.size_checks import SizeChecks
from ..graph.tensor_hooks import RegisterHook, RetainGrad
from ..registry import Backend
from .control_flow import compile_control_flow
from .written_attention import calls_attention, run_as_kernels, write_out_attention

Build = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]
Choice = Callable[[torch.fx.Node], bool]
UseKernels = Callable[[torch.fx.GraphModule], bool]


def compile_around(
    gm: torch.fx.GraphModule, examples: list[Any], backend: Backend, build: Build, report: Reporter
) -> Callable[..., Any]:
    """Compiles with `build` the subgraphs before, between and after the nodes that the backend
    cannot compile."""
    if has_data_dependent_sizes(gm):
        build = fall_back_to_captured(build, report)
    if has_collectives(gm.graph.nodes):
        build = with_own_fallback(build, backend.description)
    if any(map(is_on_distributed_tensors, gm.graph.nodes)):
        build = with_counted_collectives(build)
    if backend.higher_order and not any(map(is_never_compiled, gm.graph.nodes)):
        try:
            return build(gm, examples)
        except RequirementError:
            raise
        except Exception as error:
            if not any(map(is_higher_order, gm.graph.nodes)):
                raise
            report(f"higher-order operators run as captured: {type(error).__name__}")
    attention = partial(run_as_kernels, report=report) if backend.attention_kernels else None
    return compile_between(gm, examples, stays_uncompiled, build, attention)


def fall_back_to_captured(build: Build, report: Reporter) -> Build:
    """Returns a `build` that leaves a graph as it is where the backend cannot compile it: some
    decide by sizes that are only known while the graph runs."""

    def build_or_leave(gm: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        try:
            return build(gm, examples)
        except RequirementError:
            raise
        except Exception as error:
            report(f"runs as captured: sizes depend on values ({type(error).__name__})")
            return gm.forward

    return build_or_leave


def with_own_fallback(build: Build, backend: str) -> Build:
    """Returns a `build` for subgraphs of a graph that cannot start over: one that only computes
    runs as captured after it has failed."""

    def build_with_fallback(gm: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        compiled, nodes = build(gm, examples), list(gm.graph.nodes)
        writes = any(node.meta.get("mutated") for node in gm.graph.find_nodes(op="placeholder"))
        acts = writes or draws_random_numbers(nodes) or any(map(switches_modes, nodes))
        acts = acts or has_collectives(nodes)
        if acts or compiled == gm.forward or isinstance(compiled, CheckedGraph):
            return compiled
        return fall_back_to_eager(compiled, gm.forward, backend)

    return build_with_fallback


def with_counted_collectives(build: Build) -> Build:
    """Returns a `build` whose results count collectives as started, where a graph is on distributed
    tensors: which of its operators communicate does not show in it."""

    def build_counted(gm: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        compiled = build(gm, examples)
        return CountedCollectives(compiled) if has_collectives(gm.graph.nodes) else compiled

    return build_counted


def write_each_others_memory(subgraphs: Sequence[Sequence[torch.fx.Node]]) -> bool:
    """Whether memory that one of the subgraphs writes is used by another one."""
    used = [memories_of(*group, *inputs_of(group)) for group in subgraphs]
    return any(
        not written_memories(group).isdisjoint(other)
        for position, group in enumerate(subgraphs)
        for other in (*used[:position], *used[position + 1 :])
    )


def write_memory_from_outside(
    groups: Sequence[Sequence[torch.fx.Node]], uncompiled: Choice | None = None
) -> bool:
    """Whether a group writes into memory that it gets from outside, and that another group uses.
    (What a group writes into what it has made is done before another group reads that.) uncompiled:
    given, only memory of tensors with gradients counts, and only groups without such nodes."""
    used = [memories_of(*group, *inputs_of(group)) for group in groups]
    for place, group in enumerate(groups):
        if uncompiled is not None and any(map(uncompiled, group)):
            continue
        inside = set(group)
        passed = [
            node
            for node in inputs_of(group)
            if node not in inside and (uncompiled is None or has_gradient(node))
        ]
        if any(map(lost_its_history, passed)):  # a view whose memory was written since
            return True
        outside = memories_of(*passed)
        others = set().union(*used[:place], *used[place + 1 :])
        writers = [node for node in group if may_write(node) and not is_norm(node)]
        written = memories_of(*(target for node in writers for target in written_arguments(node)))
        if written & outside & others:
            return True
    return False


def written_arguments(writer: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes into which a node writes, as far as its name and its arguments tell; all that it is
    given where it calls an unknown function."""
    if is_foreign(writer):
        return writer.all_input_nodes
    out = [
        node for node in tree_leaves(writer.kwargs.get("out")) if isinstance(node, torch.fx.Node)
    ]
    return [*written_nodes(writer), *out]


def inputs_of(nodes: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    return [other for node in nodes for other in node.all_input_nodes]


def stays_uncompiled(node: torch.fx.Node) -> bool:
    return is_never_compiled(node) or is_higher_order(node)


def is_never_compiled(node: torch.fx.Node) -> bool:
    """Whether no backend can compile a node."""
    kinds = OpaqueNode | RegisterHook | RetainGrad | DrawFrom | SizeChecks
    return isinstance(node.target, kinds) or may_communicate(node)


def is_higher_order(node: torch.fx.Node) -> bool:
    return isinstance(node.target, HigherOrderCall)


def compile_between(
    gm: torch.fx.GraphModule,
    examples: list[Any],
    uncompiled: Choice,
    build: Build,
    attention: UseKernels | None = None,
) -> Callable[..., Any]:
    """Compiles with `build` the subgraphs around the uncompiled nodes. Returns the captured graph
    where it cannot be split. attention: makes a graph's calls of flex_attention calls of kernels,
    if it can."""
    if not any(map(uncompiled, gm.graph.nodes)):
        return build(gm, examples)
    try:
        nodes, modes = separate_modes(calls_of(gm), keeps_vmap=True)
        nodes.sort(key=lambda node: not is_made_of_numbers(node))  # so that fewer subgraphs remain
        groups = list(runs(nodes, uncompiled))
        if any(map(leaves_vmap_open, groups)):
            raise CannotSplit
        varies = has_data_dependent_sizes(gm) or any(map(takes_varying_length, nodes))
        if wants_gradients(gm) and (
            write_memory_from_outside(groups, uncompiled)
            or varies
            and write_each_others_memory(groups)
        ):
            raise CannotSplit  # a history that begins in one subgraph would be used in another
        return compile_groups(gm, examples, groups, modes, uncompiled, build, attention)
    except CannotSplit:
        return run_as_captured(gm)


def calls_of(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in gm.graph.nodes if node.op not in ("placeholder", "output")]


def compile_groups(
    gm: torch.fx.GraphModule,
    examples: list[Any],
    groups: Sequence[Sequence[torch.fx.Node]],
    modes: dict[torch.fx.Node, Modes],
    uncompiled: Choice,
    build: Build,
    attention: UseKernels | None = None,
) -> Callable[..., Any]:
    """Compiles with `build` a subgraph for each group of nodes, but for those with uncompiled
    nodes, and calls them in turn. Raises CannotSplit."""
    results: Any = gm.graph.output_node().args[0]
    subgraphs, numbers = make_subgraphs(gm, groups, results, modes)
    for subgraph in subgraphs:
        for node in subgraph.gm.graph.find_nodes(op="placeholder"):
            node.meta["mutated"] = is_strided(node) and is_written(node)
    calls = []
    for group, subgraph in zip(groups, subgraphs, strict=True):
        of, own = subgraph.gm, subgraph.examples(examples)
        if not any(map(uncompiled, of.graph.nodes)):
            calls.append(build(of, own))
        elif is_trained_and_written(group):
            calls.append(run_as_captured(of))
        else:
            calls.append(run_alone(gm, of, own, build, attention))
    return call_in_sequence(subgraphs, calls, numbers)


def is_trained_and_written(group: Sequence[torch.fx.Node]) -> bool:
    """Whether a graph takes gradients through nodes, and writes what they are given or return:
    torch's own operators say which of these writes are errors."""
    return any(map(has_gradient, group)) and any(
        is_strided(node) and is_written(node, for_sure=True) for node in (*group, *inputs_of(group))
    )


def is_made_of_numbers(node: torch.fx.Node) -> bool:
    """Whether a node makes a tensor of a varying length from numbers that are known before."""
    return takes_varying_length(node) and not any(map(is_passed_between, node.all_input_nodes))


def run_alone(
    whole: torch.fx.GraphModule,
    gm: torch.fx.GraphModule,
    examples: list[Any],
    build: Build,
    attention: UseKernels | None,
) -> Callable[..., Any]:
    """A subgraph of an uncompiled node. Where that is a higher-order operator, the functions which
    it calls are compiled, equal ones of the whole graph once, or the operator runs as kernels or is
    written out."""
    nodes = gm.graph.nodes
    as_captured = any(is_never_compiled(node) or name_of(node) == ENTER_AUTOCAST for node in nodes)
    if as_captured or not any(map(is_higher_order, nodes)):
        return run_as_captured(gm)
    if any(map(calls_attention, nodes)):
        if attention is not None and attention(gm):
            return gm.forward
        written = write_out_attention(gm)
        return run_as_captured(gm) if written is None else build(written, examples)

    def build_function(function: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        share_with_equal_subgraphs(whole, function, id(function))
        return compile_between(function, examples, stays_uncompiled, build, attention)

    return compile_control_flow(gm, build_function)


def run_as_captured(gm: torch.fx.GraphModule) -> Callable[..., Any]:
    """The graph itself. Where it has collectives, they are counted."""
    return CountedCollectives(gm.forward) if has_collectives(gm.graph.nodes) else gm.forward


def runs(nodes: Sequence[torch.fx.Node], uncompiled: Choice) -> Iterator[list[torch.fx.Node]]:
    """The nodes in their order, in runs: an uncompiled node, with the items of its result, is a run
    of its own."""
    run: list[torch.fx.Node] = []
    inside = False
    for node in nodes:
        item = name_of(node) == "getitem" and any(map(uncompiled, node.all_input_nodes))
        if uncompiled(node) or inside != item:
            if run:
                yield run
            run = []
        inside = uncompiled(node) or item
        run.append(node)
    yield run
