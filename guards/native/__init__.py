"""The C evaluator, and what it needs from this build of torch."""

from ._guards import UNBOUND, Program, move_index

__all__ = [
    "UNBOUND",
    "Program",
    "move_index",
]
