"""UnrolledIterations: tells which entries of a break inside a loop were made for another iteration
than the current one.

In: the frames that continue after the break, what its captures change, an entry's guards, and a
call. Out: whether a guard that depends on the iteration fails. Uses no entries and no limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from ...guards.guard import Guard, Kind
from ...guards.iterators import COUNTED, iterator_parts, remaining
from ...guards.reference import check
from ...guards.source import (
    FrameView,
    IteratedContainer,
    IteratorItem,
    IteratorPart,
    SequenceItem,
    SlotSource,
    Source,
)
from ..pycode.instr import Op
from ..pycode.liveness import loop_around
from ..pycode.resume import SuspendedFrame
from ..values.mutable import Mutable

STORES = frozenset({Op.STORE_FAST, Op.STORE_DEREF})
CONTAINERS: tuple[type, ...] = (list, dict, set)


class UnrolledIterations:
    """What differs from iteration to iteration: the items of a loop's iterator, variables that the
    loop's body binds, and containers that captures have changed."""

    def __init__(self, frames: tuple[SuspendedFrame, ...] = ()) -> None:
        self.frames = frames
        self._changed: set[Source] = set()

    def note_changes(self, changed: Iterable[Mutable]) -> None:
        """Remembers what a capture changes."""
        self._changed.update(
            one.source
            for one in changed
            if one.source is not None and one.python_type() in CONTAINERS
        )

    def made_for_another(
        self, guards: Iterable[Guard], failed: Guard | None, frame: FrameView
    ) -> bool:
        """Whether a guard that depends on the iteration fails. `failed`: a guard that fails."""
        if not self.in_loop:
            return False
        return (failed is not None and self._relies(failed)) or any(
            self._relies(one) and not check(one, frame) for one in guards
        )

    def iterations_left(self, frame: FrameView) -> int:
        """How many iterations the longest of the loops still has, as far as their iterators can
        tell."""
        return max(
            (
                iterations_remaining(item)
                for _, state, first in states(self.frames, frame)
                for item in state[first:]
            ),
            default=0,
        )

    @cached_property
    def loops(self) -> tuple[frozenset[int], ...]:
        """The instructions of the loops around the place, in each frame. Looked for when a call has
        missed."""
        return tuple(loop_around(frame.decoded, frame.point.index) for frame in self.frames)

    @property
    def in_loop(self) -> bool:
        """Whether the place may be reached again from itself."""
        return any(self.loops)

    @cached_property
    def _bound(self) -> frozenset[Source]:
        """The paths to variables that a loop's body binds, all those of frames that it has called
        among them."""
        found: set[Source] = set()
        called = False
        for (root, frame), loop in zip(roots(self.frames), self.loops, strict=True):
            slots = {
                frame.decoded.instrs[index].arg
                for index in loop
                if frame.decoded.instrs[index].op in STORES
            }
            found.update(
                SequenceItem(root, i)
                for i, slot in enumerate(sorted(frame.point.bound))
                if called or slot in slots
            )
            called = called or bool(loop)
        return frozenset(found)

    def _relies(self, guard: Guard) -> bool:
        subjects = (
            (guard.source, *(source for _, source in guard.expected.symbols))
            if guard.kind is Kind.SHAPE
            else (guard.source,)
        )
        return guard.kind is Kind.REMAINING or any(map(self.differs, subjects))

    def differs(self, source: Source | None) -> bool:
        """Whether a path leads to an object that may differ in the next iteration."""
        if not self.in_loop:
            return False
        while source is not None:
            if any(map(self.differs, source.operands[1:])) or (
                isinstance(source, IteratorItem | IteratorPart | IteratedContainer)
                or source in self._bound
                or source in self._changed
            ):
                return True
            source = source.base
        return False


def roots(frames: Iterable[SuspendedFrame]) -> Iterator[tuple[Source, SuspendedFrame]]:
    """The path to each frame's state (see pycode/resume.py)."""
    root: Source = SlotSource(0, "state")
    for frame in frames:
        yield root, frame
        root = SequenceItem(root, state_length(frame))


def state_length(frame: SuspendedFrame) -> int:
    """How many items the state of a frame has, without that of the frame that it called."""
    return len(frame.point.bound) + sum(kind != "null" for kind in frame.point.stack)


def states(
    frames: Iterable[SuspendedFrame], view: FrameView
) -> Iterator[tuple[SuspendedFrame, tuple[Any, ...], int]]:
    """The state of each frame, and where its stack begins in it."""
    state = view.slots[0] if view.slots else ()
    for frame in frames:
        yield frame, state[: state_length(frame)], len(frame.point.bound)
        state = state[state_length(frame)] if len(state) > state_length(frame) else ()


def iterations_remaining(item: Any) -> int:
    """How many items an iterator has left, 0 where it does not say."""
    if type(item) in COUNTED:
        return max(0, remaining(item))
    if type(item) in (enumerate, zip):
        inner = iterator_parts(item)[:1] if type(item) is enumerate else iterator_parts(item)
        return min((iterations_remaining(one) for one in inner), default=0)
    return 0
