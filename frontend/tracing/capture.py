"""Capture: the result of interpreting one frame, for the backend, the guards and the code
generator."""

from __future__ import annotations

from ...records import record
from ..pycode.instr import DecodedCode
from .interpreter.outcome import BreakExit, ReturnExit
from .trace import Trace


@record
class Capture:
    """`entry` is "args" for a frame captured from its start and "state" for a continuation."""

    decoded: DecodedCode
    trace: Trace
    exit: ReturnExit | BreakExit
    entry: str
