"""FrameStack: the frames being interpreted, outermost first, and their positions in the user's
code."""

from __future__ import annotations

import inspect
import types
from typing import Any

from ...pycode.code_place import CodePlace
from ...values.base import Value
from .frame_state import FrameState
from .outcome import BrokenFrame


class FrameStack(list[FrameState]):
    """The root frame and the calls inlined into it."""

    def __init__(self) -> None:
        super().__init__()
        self.root_arguments: list[Value | None] = []  # the slots of the root frame at its start
        # where the program last called torch.compiler.is_compiling(), as a break position
        self.is_compiling_at: int | None = None

    def break_position(self) -> int:
        """The latest position so far at which a break can be made, in instructions from the start
        (outcome.py)."""
        return next(frame.position for frame in reversed(self) if frame.resumable)

    def note_is_compiling(self) -> None:
        """Notes that the program learns here that it is being compiled: an error that follows may
        not occur in eager."""
        self.is_compiling_at = self.break_position()

    def caller_position(self) -> int | None:
        """The position at which the innermost frame was called; None in the root frame, in a
        generator, and where no break can be made there."""
        generates = self[-1].decoded.code.co_flags & inspect.CO_GENERATOR
        called = len(self) > 1 and self[-2].resumable and not generates
        return self[-2].position if called else None

    def root_break_position(self) -> int:
        """The latest such position in the outermost frame that does not wait, after a break, for
        the result of an inner one: in the root frame, mostly."""
        return next(frame.position for frame in self if frame.position >= 0)

    def broken_frames(self) -> tuple[BrokenFrame, ...]:
        """The frames in which a break can be made, as they are."""
        return tuple(
            BrokenFrame(
                frame.decoded,
                frame.globals,
                frame.group,
                frame.position,
                tuple(frame.stack),
                tuple(frame.slots),
                frame.passthroughs,
                frame.completion,
            )
            for frame in self
            if frame.resumable
        )

    @property
    def can_break(self) -> bool:
        """Whether an instruction group is being interpreted."""
        return bool(self) and self[-1].position >= 0

    def release_objects(self) -> None:
        """Drops the program's objects."""
        self.clear()
        self.root_arguments.clear()

    def line(self) -> tuple[int, types.CodeType]:
        """The line being interpreted, and the code object it is in."""
        frame = self[-1]
        return frame.current.line or frame.decoded.code.co_firstlineno, frame.decoded.code

    def instruction(self) -> CodePlace:
        """The place of the instruction being interpreted, as UncapturedCode names it: by the index
        after it."""
        frame = self[-1]
        return CodePlace(frame.decoded.code, frame.pc)

    def innermost_globals(self) -> dict[str, Any]:
        return self[-1].globals

    def root_globals(self) -> dict[str, Any]:
        return self[0].globals

    def where(self) -> str:
        """The user's line being interpreted, as "file:line"; empty before the first."""
        return self[-1].where() if self else ""

    def call_lines(self) -> tuple[str, ...]:
        """The same of each frame, innermost first."""
        return tuple(frame.where() for frame in reversed(self))
