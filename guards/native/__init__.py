"""The evaluator of guards in C, and what it needs to know about the installed build of torch."""

from ._guards import UNBOUND, Program, move_index

__all__ = ["UNBOUND", "Program", "move_index"]
