"""How the interpretation of a frame ends: it returned, it yielded, or it reached the position of a
break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....errors import GraphBreak
from ...values.base import Value

if TYPE_CHECKING:
    from ..capture import BrokenFrame


@dataclass(frozen=True, slots=True)
class Returned:
    """The frame is done."""

    value: Value


@dataclass(frozen=True, slots=True)
class Yielded:
    """The generator's frame waits."""

    value: Value


class Restart(Exception):  # noqa: N818 - it steers: capture again and break at an earlier position
    """The code behind `position` cannot be handed on to Python, so the break must come there. It is
    the number of instructions interpreted before it; captures of one frame with the same
    arguments are alike."""

    def __init__(self, position: int, reason: GraphBreak) -> None:
        self.position, self.reason = position, reason


class BreakReached(Exception):  # noqa: N818 - it steers: the position of the break
    """Interpretation has reached the position of the break, with the frames as they are there."""

    def __init__(self, frames: tuple[BrokenFrame, ...]) -> None:
        self.frames = frames
