"""The C evaluator, and what it must be told about this build of torch."""
from ._guards import (
    UNBOUND,
    Program,
    held_state,
    move_cycle,
    move_index,
    move_slice,
    new_group,
    set_ahead,
    set_done,
    set_ended,
    set_group,
    set_old,
    set_open,
    set_total,
    stored_hashes,
)

__all__ = ["UNBOUND", "Program", "held_state", "move_cycle", "move_index", "move_slice", "new_group", "set_ahead", "set_done", "set_ended",
           "set_group", "set_old", "set_open", "set_total", "stored_hashes"]  # fmt: skip
