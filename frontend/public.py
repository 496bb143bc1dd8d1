"""The public functions, each from where it is defined; where framejit does not support this Python
or torch, the same functions from eager_only.py.

Importing this loads the compiler. `import framejit` waits with that until one of them is used."""

from .support import usable

if usable():
    from ..backends.registry import register_backend
    from .api import (
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
    from .artifact import load, save
    from .export import export
    from .replace_torch_compile import install, uninstall
    from .values.tensor.dynamic_marks import mark_dynamic, mark_static, maybe_mark_dynamic
else:
    from .eager_only import *  # type: ignore[assignment]  # noqa: F403

__all__ = [
    "allow_in_graph", "compile", "debug", "disable", "explain", "export", "graph_break",
    "install", "is_compiling", "list_backends", "load", "mark_dynamic", "mark_static",
    "maybe_mark_dynamic", "opaque", "register_backend", "reset", "save", "set_stance",
    "stats", "uninstall",
]  # fmt: skip
