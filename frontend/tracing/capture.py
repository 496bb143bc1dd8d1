"""Capture: the result of interpreting one frame, for the backend, the guards and the code
generator."""

from __future__ import annotations

from ...records import record
from ..pycode.instr import DecodedCode
from .interpreter.outcome import BreakExit, ReturnExit
from .trace import Trace


@record
class Capture:
    """How one frame, or the code after a break in it (`is_continuation`), was interpreted."""

    decoded: DecodedCode
    trace: Trace
    exit: ReturnExit | BreakExit
    is_continuation: bool
