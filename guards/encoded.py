"""Encoded: a load or a check as the evaluator in C takes it."""

from __future__ import annotations

from typing import Any

from ..records import record


@record
class Encoded:
    """An operation of guards/native/guard_program.c with its object and number.

    runs_python: it may run Python code, so what was loaded before must be held by strong references
    until it has returned.
    """

    op: str
    object: Any = None
    number: int = 0
    runs_python: bool = False
