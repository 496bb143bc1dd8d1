"""What user code may say to a capture that reads it, and what it means outside of one. The api hands these out."""
from __future__ import annotations


def graph_break(message: str = "") -> None:
    """Breaks the graph here when captured; does nothing otherwise. The message is part of the report."""


def is_compiling() -> bool:
    """True while framejit captures the code that asks, False in eager."""
    return False
