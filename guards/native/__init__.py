"""The C evaluator, and what it must be told about this build of torch."""

from ._guards import UNBOUND, Program, move_index, move_slice, set_open, slice_state, stored_hashes

__all__ = [
    "UNBOUND",
    "Program",
    "move_index",
    "move_slice",
    "set_open",
    "slice_state",
    "stored_hashes",
]
