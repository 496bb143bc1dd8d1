"""MEMORY: which tensors overlap in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from ...overlap import Window, may_overlap, may_overlap_itself, window_of
from ..encoded import Encoded
from ..guard import Guard, Kind, MemoryRelation
from ..native import layout
from ..source import Source
from .registry import GuardKind, guard_kind


def relation_holds(expected: MemoryRelation, *tensors: Any) -> bool:
    """The meaning, and the slow path of the native check."""
    windows = windows_of(expected, tensors)
    return windows is not None and all(
        overlap(expected, windows, *pair) == (pair in expected.overlapping)
        for pair in pairs(expected)
    )


def windows_of(expected: MemoryRelation, tensors: Sequence[Any]) -> list[Window] | None:
    """Where the tensors are; None where one is no strided tensor, or not plain as it should be."""
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return None
    with torch._C.DisableTorchFunction():
        keys = [torch._C._dispatch_keys(tensor).raw_repr() for tensor in tensors]
        if expected.plain and not all(
            layout.is_plain_object(tensor, key) for tensor, key in zip(tensors, keys, strict=True)
        ):
            return None
        if any(tensor.layout is not torch.strided or tensor.is_nested for tensor in tensors):
            return None
    return [
        window_of(tensor, itemsize)
        for tensor, itemsize in zip(tensors, expected.itemsizes, strict=True)
    ]


def pairs(expected: MemoryRelation) -> Iterator[tuple[int, int]]:
    """The pairs of numbers that are asked about."""
    for one in range(expected.written):
        yield from ((one, other) for other in range(one + 1, len(expected.itemsizes)))
    yield from ((one, one) for one in expected.alone)


def overlap(expected: MemoryRelation, windows: Sequence[Window], one: int, other: int) -> bool:
    """Whether two of the tensors overlap, or one overlaps itself."""
    if one == other:
        return may_overlap_itself(windows[one])
    return may_overlap(windows[one], windows[other]) or (
        one < expected.history and windows[one].storage == windows[other].storage
    )


@guard_kind(Kind.MEMORY)
class Memory(GuardKind):
    """Which of several tensors overlap in memory."""

    cost = 20

    def subjects(self, guard: Guard) -> tuple[Source, ...]:
        return guard.source, *guard.expected.others

    def holds(self, expected: MemoryRelation, *subjects: Any) -> bool:
        return relation_holds(expected, *subjects)

    def encode(self, guard: Guard) -> Encoded:
        """For C, where all are plain tensors and the layout of this build's tensors is known."""
        expected: MemoryRelation = guard.expected
        if expected.plain and layout.level() == "offsets":
            overlapping = tuple(sorted(expected.overlapping))
            return Encoded(
                "MEMORY",
                (
                    expected.written,
                    expected.history,
                    expected.itemsizes,
                    overlapping,
                    expected.alone,
                ),
            )
        # a call with all subjects
        return Encoded("SHAPE", partial(relation_holds, expected), runs_python=True)

    def expression(self, guard: Guard) -> str:
        names = [source.name for source in self.subjects(guard)]
        if not guard.expected.overlapping:
            return f"no_overlap({', '.join(names)})"
        said = " and ".join(
            f"overlap({names[one]}, {names[other]})"
            for one, other in sorted(guard.expected.overlapping)
        )
        return f"{said} in memory({', '.join(names)})"

    def old(self, guard: Guard) -> str:
        return "as it was"

    def difference(self, guard: Guard, *subjects: Any) -> tuple[str, str, str]:
        expected: MemoryRelation = guard.expected
        windows = windows_of(expected, subjects)
        names = [source.name for source in self.subjects(guard)]
        if windows is None:
            return super().difference(guard, *subjects)
        for one, other in pairs(expected):
            found = overlap(expected, windows, one, other)
            if found != ((one, other) in expected.overlapping):
                return f"memory of {names[one]} and {names[other]}", *(
                    ("apart", "shared") if found else ("shared", "apart")
                )
        return super().difference(guard, *subjects)
