"""How the tensors that a graph takes overlap in memory: what is guarded, and what backends
get. Needed where the graph writes to an input. In: the inputs of a capture, with real tensors.
Out: `InputMemory`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch
import torch.fx

from ...backends.graph.gradient_history import gains_history
from ...backends.graph.wrappers import is_wrapper, names_of_tensors
from ...guards.guard import Guard, Kind, MemoryRelation
from ...guards.native.layout import is_plain_object
from ...guards.source import AttrSource
from ...overlap import Window, has_memory, may_overlap_itself, pairs_that_overlap, window_of
from ...records import record
from .graph_builder import GraphBuilder
from .graph_inputs import GraphInput, is_symbolic


@record
class InputMemory:
    """`guards`: that the inputs of other calls overlap in the same way; none where there is one
    input, or nothing is written. `overlapping`: names of written inputs, each with an input that
    shares its memory or history, or with itself where two of its elements share memory."""

    guards: tuple[Guard, ...] = ()
    overlapping: tuple[tuple[str, str], ...] = ()


def input_memory(graph: GraphBuilder, used: Collection[torch.fx.Node]) -> InputMemory:
    """How the inputs in use overlap."""
    inputs = inputs_with_memory(graph, used)
    written = [item for item in inputs if item.is_mutated]
    if not written:
        return InputMemory()
    # aot_autograd compares the storages of wrappers' inner tensors, too
    wrapped = any(is_wrapper(type(item.value.fake)) for item in inputs)
    history = [item for item in written if wrapped or gains_history(item.value.node)]
    ordered = list({id(item): item for item in (*history, *written, *inputs)}.values())
    windows = [window_of(item.real) for item in ordered]
    writes = range(len(written))
    symbolic = tuple(number for number in writes if is_symbolic(ordered[number].value.fake))
    pairs = {pair for pair in pairs_that_overlap(windows) if pair[0] in writes}
    pairs |= pairs_with_history(windows, len(history))
    folded = {(number, number) for number in writes if may_overlap_itself(windows[number])}
    overlapping = [*sorted(pairs), *sorted(folded)]
    if len(ordered) == 1 and not symbolic:
        return InputMemory((), names(ordered, overlapping))
    relation = MemoryRelation(
        tuple(item.source for item in ordered[1:]),
        tuple(window.itemsize for window in windows),
        len(written),
        len(history),
        symbolic,
        frozenset(pairs | {(one, other) for one, other in folded if one in symbolic}),
        all(map(is_plain_input, ordered)),
    )
    return InputMemory(
        (Guard(ordered[0].source, Kind.MEMORY, relation),), names(ordered, overlapping)
    )


def inputs_with_memory(graph: GraphBuilder, used: Collection[torch.fx.Node]) -> list[GraphInput]:
    """The inputs in use that have memory; in place of a wrapper, its inner tensors."""
    taken = set(used)
    return [
        part
        for item in graph.inputs
        if isinstance(item, GraphInput) and item.value.node in taken
        for part in parts_of(item)
        if has_memory(part.real)
    ]


def pairs_with_history(windows: Sequence[Window], count: int) -> set[tuple[int, int]]:
    """Each of the first `count` inputs, which gain a history, with later ones of its storage."""
    return {
        (one, other)
        for one in range(count)
        for other in range(one + 1, len(windows))
        if windows[one].storage == windows[other].storage
    }


def parts_of(item: GraphInput) -> list[GraphInput]:
    """An input; of a wrapper, one for each of its inner tensors."""
    if not is_wrapper(type(item.real)):
        return [item]
    names = names_of_tensors(item.real)
    return [
        part
        for name in names
        for part in parts_of(
            replace(item, source=AttrSource(item.source, name), real=getattr(item.real, name))
        )
    ]


def is_plain_input(item: GraphInput) -> bool:
    """Whether guards in C can read where an input's memory is."""
    return is_plain_object(item.real, torch._C._dispatch_keys(item.real).raw_repr())


def names(
    inputs: Sequence[GraphInput], pairs: Sequence[tuple[int, int]]
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (inputs[one].value.known_source.name, inputs[other].value.known_source.name)
        for one, other in pairs
    )
