"""Capture: all that interpretation of one frame hands on to the backend, the guards and the rebuilding of code."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import GraphBreak
from ..pycode.instr import DecodedCode
from ..values.base import Value

if TYPE_CHECKING:
    from .trace import Trace


@dataclass(frozen=True)
class Return:
    """The frame ran to its end."""

    value: Value


@dataclass(frozen=True)
class Break:
    """Python must run the instruction group at `index`; before it the frame looked like this (None: unbound slot)."""

    index: int
    stack: tuple[Value, ...]
    slots: tuple[Value | None, ...]
    handled: Value | None  # the exception that is being handled there
    reason: GraphBreak
    where: str


@dataclass(frozen=True)
class Capture:
    """`entry` is "args" for a frame captured from its start and "state" for a continuation."""

    decoded: DecodedCode
    trace: Trace
    exit: Return | Break
    entry: str
