"""framejit.export, without what it needs: that loads the compiler."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exported_graph import ExportedGraph


def export(fn_or_module: Any, /, *args: Any, **kwargs: Any) -> ExportedGraph:
    """Captures a call f(*args, **kwargs) as one graph, and does not run it.

    Sizes are those of the arguments, but where dimensions are marked (framejit.mark_dynamic).

    Args:
        fn_or_module: what framejit.compile takes.
        *args: positional arguments of a call.
        **kwargs: keyword arguments of a call.

    Raises:
        ExportError: the call is not one graph: it breaks, or it changes objects. To find all
            breaks, the function is then called once.
        TypeError: the function does not take these arguments, or cannot be compiled.
    """
    loaded = importlib.import_module(".exported_graph", __package__)
    graph: ExportedGraph = loaded.export_graph(fn_or_module, args, kwargs)
    return graph
