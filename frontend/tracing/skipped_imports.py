"""torch's functions, without an import that they make.

Constructors that a capture calls read a setting of torch._dynamo. Importing that package takes a
second of each process that compiles, as it imports torch.distributed, torch.export and more. Where
the setting is known, the module is not imported: the function gets a view of it.
"""

from __future__ import annotations

import builtins
import importlib
import types
from collections.abc import Mapping
from typing import Any


class ModuleView:
    """A module with names whose values are known; for others the module is imported."""

    def __init__(self, module: str, **known: Any) -> None:
        vars(self).update(known)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)


def without_import(function: Any, skipped: str, views: Mapping[str, ModuleView]) -> Any:
    """A copy of a Python function in which import statements bind views, where there is one of the
    module, and which does not import the module `skipped`."""

    def import_module(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if name == skipped:
            return views[name if fromlist else name.partition(".")[0]]
        module = builtins.__import__(name, globals, locals, fromlist, level)
        return views.get(module.__name__, module)

    names = {
        **function.__globals__,
        "__builtins__": {**vars(builtins), "__import__": import_module},
    }
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
