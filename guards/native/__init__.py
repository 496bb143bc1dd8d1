"""The C evaluator, and what it must be told about this build of torch."""
from ._guards import UNBOUND, Program

__all__ = ["UNBOUND", "Program"]
