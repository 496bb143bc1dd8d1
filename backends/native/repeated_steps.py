"""Repeats the steps of a block: lowers and fuses a graph with many equal blocks by a short graph
with a few of them (lower/repeated_blocks.py).

The steps of the short graph's third block, from the first one that writes a value of it to the
first one that writes a value of the fourth, have to be those of the fourth block with other
buffers. Then the steps of all blocks in between are the same, too, as each step is made of the
nodes around it. If they are not, the whole graph is lowered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ..graph.copies import Copies
from .fuse.fuse import fuse
from .fuse.in_place import with_other_buffers
from .ir.ir import Bound, Call, Program, Step, reads, views_in, writes
from .lower.build import lower
from .lower.lowering_cache import NotRepeated, without_buffer_names
from .lower.repeated_blocks import (
    HEAD,
    LABEL,
    TAIL,
    RepeatedBlocks,
    find_repeated_blocks,
)

LABELLED = re.compile(rf"{LABEL}(\d+)\.(\d+(?:in\d+)?)(.*)")
# by pair of buffers, why a producer and a consumer stayed apart
Reasons = dict[tuple[str, str], str]


def lower_and_fuse(
    gm: torch.fx.GraphModule | Copies, devices: Collection[str]
) -> tuple[Program, Reasons]:
    """The fused program of a functional graph, and why neighbouring kernels were not fused."""
    blocks = find_repeated_blocks(gm)
    if blocks is not None:
        program, reasons = fuse(lower(blocks.short, devices))
        repetition = Repetition(blocks, program)
        if repetition.is_steady():
            return repetition.program(), repetition.reasons(reasons)
    return fuse(lower(gm, devices))


class Names:
    """The names of the whole program's buffers, by those of the short one's."""

    def __init__(self, blocks: RepeatedBlocks, short: Program) -> None:
        self.blocks = blocks
        self.parts = {
            name: (int(found[1]), found[2], found[3])
            for name in short.buffers
            if (found := LABELLED.fullmatch(name)) is not None
        }
        self.taken = {*blocks.inputs, *short.buffers}
        every = range(HEAD + TAIL + blocks.removed)
        for block, slot, ending in self.parts.values():
            if block == HEAD - 1 and not ending:
                self.taken.update(blocks.name(number, slot) for number in every)
            elif block == HEAD + TAIL and not ending:
                self.taken.add(blocks.name(block + blocks.removed, slot))
        self.known: dict[tuple[int, str, str], str] = {}

    def behind(self, names: Iterable[str], by: int) -> dict[str, str]:
        """By name, that of the buffer that is `by` blocks behind. What the first block computes for
        all blocks is in one buffer."""
        return {
            name: self.whole(block + by if block else 0, slot, ending)
            for name in names
            if name in self.parts
            for block, slot, ending in (self.parts[name],)
        }

    def whole(self, block: int, slot: str, ending: str) -> str:
        """A buffer is named like its node; if that has several, they have endings."""
        key = block, slot, ending
        if key not in self.known:
            name = self.blocks.name(block, slot) + ending
            while ending and name in self.taken:
                name += "_"
            self.taken.add(name)
            self.known[key] = name
        return self.known[key]


class Repetition:
    """Makes the whole program of the short graph's."""

    def __init__(self, blocks: RepeatedBlocks, short: Program) -> None:
        self.blocks, self.short = blocks, short
        self.names = Names(blocks, short)
        self.begin: dict[int, int] = {}  # the first step that writes a value of a block
        for position, step in enumerate(short.steps):
            self.begin.setdefault(max(map(block_of, writes(step)), default=-1), position)

    # --- whether the steps repeat

    def is_steady(self) -> bool:
        """Whether the steps of the last block before the removed ones are those of the next two,
        and returned values are in the same places."""
        if (
            self.short.writes
            or self.short.sizes
            or any(map(is_of_distant_blocks, self.short.steps))
        ):
            return False
        blocks = [self.steps_of(block) for block in range(HEAD - 1, HEAD + 2)]
        found = [
            [likeness(step, block) for step in steps]
            for block, steps in enumerate(blocks, HEAD - 1)
        ]
        return bool(found[0]) and found[0] == found[1] == found[2] and self.are_outputs_alike()

    def steps_of(self, block: int) -> list[Step]:
        first, end = self.begin.get(block), self.begin.get(block + 1)
        return [] if first is None or end is None else self.short.steps[first:end]

    def are_outputs_alike(self) -> bool:
        by_block: dict[int, list[Any]] = {HEAD - 1: [], HEAD: []}
        for item, node in zip(
            self.short.outputs, self.blocks.short.output_node().args[0], strict=True
        ):
            block = -1 if node is None else block_of(node.name)
            if block in by_block:
                by_block[block].append((type(item), likeness_of_values(item, block)))
        return sorted(map(repr, by_block[HEAD - 1])) == sorted(map(repr, by_block[HEAD]))

    # --- the whole program

    def program(self) -> Program:
        removed, short = self.blocks.removed, self.short
        middle, block = self.begin[HEAD], self.steps_of(HEAD - 1)
        read = {name for step in block for name in (*reads(step), *writes(step))}
        read.update(view.buffer for view in views_in(short.outputs))
        read.update(short.inputs)
        near = [name for name in read if block_of(name) in range(HEAD + 1)]
        renames = [
            self.names.behind([name for name in short.buffers if block_of(name) <= HEAD], 0),
            *(self.names.behind(near, by) for by in range(1, removed)),
            self.names.behind(short.buffers, removed),
        ]
        steps = [
            *(move_step(step, renames[0]) for step in short.steps[:middle]),
            *(move_step(step, names) for names in renames[1:] for step in block),
            *(move_step(step, renames[-1]) for step in short.steps[middle:]),
        ]
        outputs = [
            with_other_buffers(short.outputs[position], renames[by])
            for position, by in self.blocks.outputs
        ]
        buffers = {name: one for name, one in short.buffers.items() if block_of(name) < 0}
        for names in renames:
            for name, own in names.items():
                if own not in buffers:
                    buffers[own] = replace(short.buffers[name], name=own)
        constants = {renames[-1].get(name, name): one for name, one in short.constants.items()}
        return Program(buffers, [*self.blocks.inputs], steps, outputs, [], constants)

    def reasons(self, short: Reasons) -> Reasons:
        """Why neighbours stayed apart, in all blocks."""
        found: Reasons = {}
        for pair, reason in short.items():
            block = max(map(block_of, pair))
            moves = [self.blocks.removed] if block >= HEAD else [0]
            if block == HEAD - 1:
                moves = [*range(self.blocks.removed + 1)]
            for by in moves:
                names = self.names.behind(pair, by)
                first, second = (names.get(name, name) for name in pair)
                found[first, second] = reason
        return found


def move_step(step: Step, names: Mapping[str, str]) -> Step:
    """A step on the buffers of another block."""
    if isinstance(step, Bound):
        return Bound(step.pattern, tuple([names.get(name, name) for name in step.names]))
    assert isinstance(step, Call)
    return replace(
        step,
        args=with_other_buffers(step.args, names),
        kwargs=with_other_buffers(dict(step.kwargs), names),
        results=tuple([names.get(name or "", name) for name in step.results]),
    )


def block_of(name: str) -> int:
    """The block of a buffer, -1 for none."""
    return int(name[1 : name.index(".")]) if name.startswith(LABEL) else -1


def is_of_distant_blocks(step: Step) -> bool:
    """Whether a kernel is made of nodes that other blocks may lie between in the whole graph."""
    blocks = [*map(block_of, writes(step))]
    return bool(blocks) and max(blocks) - min(blocks) > 1


def likeness(step: Step, block: int) -> Any:
    """What is equal for steps of two blocks that do the same. An object of its own where that
    cannot be told."""
    if isinstance(step, Bound):
        return step.pattern, tuple(relative(name, block) for name in step.names)
    if not isinstance(step, Call):
        return object()
    return (
        step.function,
        likeness_of_values([step.args, dict(step.kwargs)], block),
        tuple(name and relative(name, block) for name in step.results),
        step.single,
        step.origin,
        step.effect,
    )


def likeness_of_values(tree: Any, block: int) -> Any:
    names: dict[str, int] = {}
    try:
        found = without_buffer_names(tree, names)
    except NotRepeated:
        return object()
    return found, tuple(relative(name, block) for name in names)


def relative(name: str, block: int) -> Any:
    """A buffer's name, counted from a block; what the first block has is shared by all."""
    own = block_of(name)
    return name if own < 1 else (own - block, name[name.index(".") :])
