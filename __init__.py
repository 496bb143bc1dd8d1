"""framejit: a bytecode-level frame JIT for PyTorch."""
# ruff: noqa: F403, F405 - frontend/public.py lists the functions

import importlib
from typing import TYPE_CHECKING, Any

from .errors import (
    ArtifactError,
    BackendError,
    ExportError,
    FramejitError,
    GraphBreakError,
    InternalError,
    RecompileError,
    RecompileLimitError,
    RequirementError,
)
from .garbage_collection import permanent_objects
from .options import config, replaces_torch_compile

if TYPE_CHECKING:
    from .frontend.public import *
else:

    def __getattr__(name: str) -> Any:
        """Loads the compiler at the first use of a public function: that takes longer than a
        program that only imports framejit should wait."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with permanent_objects():
            public = importlib.import_module(".frontend.public", __name__)
        globals().update(
            (public_name, getattr(public, public_name)) for public_name in public.__all__
        )
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


if replaces_torch_compile():
    importlib.import_module(".frontend.public", __name__).install()

__version__ = "0.1.0"
__all__ = [
    "ArtifactError", "BackendError", "ExportError", "FramejitError", "GraphBreakError",
    "InternalError", "RecompileError", "RecompileLimitError", "RequirementError",
    "allow_in_graph", "compile", "config", "debug", "disable", "explain", "export",
    "graph_break", "install", "is_compiling", "list_backends", "load", "mark_dynamic",
    "mark_static", "maybe_mark_dynamic", "opaque", "register_backend", "reset", "save",
    "set_stance", "stats", "uninstall",
]  # fmt: skip
