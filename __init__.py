"""framejit: a bytecode-level frame JIT for PyTorch."""
from .backends.registry import register_backend
from .errors import BackendError, FramejitError, GraphBreakError, InternalError, RecompileLimitError
from .frontend.api import allow_in_graph, compile, disable, explain, graph_break, is_compiling, list_backends, reset
from .options import config

__version__ = "0.1.0"
__all__ = [
    "BackendError", "FramejitError", "GraphBreakError", "InternalError", "RecompileLimitError", "allow_in_graph", "compile",
    "config", "disable", "explain", "graph_break", "is_compiling", "list_backends", "register_backend", "reset",
]  # fmt: skip
