"""Functions with a meaning inside a capture (graph_break, is_compiling), and what they do outside
one. frontend/api.py exports them."""

from __future__ import annotations


def graph_break(message: str = "") -> None:
    """Breaks the graph here when captured; does nothing otherwise. The message is part of the
    report."""


def is_compiling() -> bool:
    """True while framejit captures the code that asks, False in eager."""
    return False
