"""What compiles a call. It is loaded at the first call that no entry serves, stored ones included:
a process that takes all its entries from the disk needs none of it."""

from . import traced_handle  # noqa: F401 - it registers
from .continuations import make_continuations
from .pipeline import Compilation

__all__ = ["Compilation", "make_continuations"]
