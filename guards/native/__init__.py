"""The C evaluator, and what it must be told about this build of torch."""
from ._guards import UNBOUND, Program, held_state, move_index, move_slice, set_done, set_old, set_open

__all__ = ["UNBOUND", "Program", "held_state", "move_index", "move_slice", "set_done", "set_old", "set_open"]
