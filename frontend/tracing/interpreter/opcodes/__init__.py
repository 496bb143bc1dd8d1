"""Instruction handlers, one for each canonical op: (frame, instr) -> None, or an outcome that ends
the frame.

A handler updates the frame's symbolic state or raises GraphBreak or ObservedException; it never
emits code.
"""

from __future__ import annotations

from . import (  # noqa: F401 - they register
    calls,
    containers,
    control,
    exceptions,
    generators,
    names,
    operators,
    stack,
)
