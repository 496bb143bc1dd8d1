"""framejit: a bytecode-level frame JIT for PyTorch."""

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
from .frontend.support import usable
from .options import config, replaces_torch_compile

if usable():
    from .backends.registry import register_backend
    from .frontend.api import (
        allow_in_graph,
        compile,
        debug,
        disable,
        explain,
        graph_break,
        is_compiling,
        list_backends,
        opaque,
        reset,
        set_stance,
        stats,
    )
    from .frontend.artifact import load, save
    from .frontend.export import export
    from .frontend.replace_torch_compile import install, uninstall
    from .frontend.values.tensor.dynamic_marks import mark_dynamic, mark_static, maybe_mark_dynamic
else:  # the same names, which do less
    from .frontend.eager_only import (  # type: ignore[assignment]
        allow_in_graph,
        compile,
        debug,
        disable,
        explain,
        export,
        graph_break,
        install,
        is_compiling,
        list_backends,
        load,
        mark_dynamic,
        mark_static,
        maybe_mark_dynamic,
        opaque,
        register_backend,
        reset,
        save,
        set_stance,
        stats,
        uninstall,
    )

if replaces_torch_compile():
    install()

__version__ = "0.1.0"
__all__ = [
    "ArtifactError", "BackendError", "ExportError", "FramejitError", "GraphBreakError",
    "InternalError", "RecompileError", "RecompileLimitError", "RequirementError",
    "allow_in_graph", "compile", "config", "debug", "disable", "explain", "export",
    "graph_break", "install", "is_compiling", "list_backends", "load", "mark_dynamic",
    "mark_static", "maybe_mark_dynamic", "opaque", "register_backend", "reset", "save",
    "set_stance", "stats", "uninstall",
]  # fmt: skip
