"""How interpretation ends: of any frame (Returned, Yielded), and of the root frame (ReturnExit,
BreakExit)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ....errors import GraphBreak
from ....records import record
from ...pycode.call_completion import AS_IS, CallCompletion
from ...pycode.instr import DecodedCode
from ...pycode.passthrough import PassthroughFrame
from ...values.base import Value
from ...values.modes.mode_manager import ModesMark


@dataclass(frozen=True, slots=True)
class Returned:
    """The frame is done."""

    value: Value


@dataclass(frozen=True, slots=True)
class Yielded:
    """The generator's frame waits."""

    value: Value


@record
class ReturnExit:
    """The frame ran to its end."""

    value: Value


@record
class BrokenFrame:
    """A frame at a break. In the innermost one the instruction group at `index` is to be run; in
    the others it is the call that waits for the next frame, its operands taken. `position` is the
    number of instructions interpreted before that group. A slot of None is unbound."""

    decoded: DecodedCode
    globals: dict[str, Any]
    index: int
    position: int
    stack: tuple[Value, ...]
    slots: tuple[Value | None, ...]
    passthroughs: tuple[PassthroughFrame, ...]  # between its caller and it
    completion: CallCompletion = AS_IS  # what the caller's instruction makes of its return

    def where(self) -> str:
        return f"{self.decoded.code.co_filename}:{self.decoded.instrs[self.index].line}"


# Breaks at which torch takes a number or a truth value from a tensor, and nothing of the user's
# runs.
RUN_NO_FRAME = frozenset({"data-dependent-value", "data-dependent-branch"})


@record
class BreakExit:
    """Python must run an instruction group of the innermost of `frames`, outermost first."""

    frames: tuple[BrokenFrame, ...]
    handled: Value | None  # the exception that is being handled there
    reason: GraphBreak
    where: str

    @property
    def runs_no_frame(self) -> bool:
        """Whether no frame that could be captured, or could look at this one, can run at the
        break."""
        return self.reason.reason.id in RUN_NO_FRAME


@record
class GroupMark:
    """The state at the start of an instruction group of an inlined frame. A break in the group
    goes back to it where only the graph and the guards have grown since."""

    position: int
    stack: tuple[Value, ...]
    slots: tuple[Value | None, ...]
    nodes: int
    guards: int
    unchanged: tuple[Any, ...]  # what must be as it was
    frames: tuple[BrokenFrame, ...] = ()  # at the break


class RootMark(NamedTuple):
    """The state at the start of an instruction group of the root frame, to which a break in it
    rolls back. (Changes of objects are in the effect log.)"""

    stack: list[Value]
    slots: list[Value | None]
    nodes: int
    modes: ModesMark
    guards: int
    handled: Value | None
    generators: Any


class Restart(Exception):  # noqa: N818 - it steers: capture again and break at an earlier position
    """The code after `position` cannot be handed on to Python, so the break must come there. It is
    the number of instructions interpreted before it; captures of one frame with the same
    arguments are alike."""

    def __init__(self, position: int, reason: GraphBreak) -> None:
        self.position, self.reason = position, reason


class BreakReached(Exception):  # noqa: N818 - it steers: the position of the break
    """Interpretation has reached the position of the break, with the frames as they are there."""

    def __init__(self, frames: tuple[BrokenFrame, ...]) -> None:
        self.frames = frames
