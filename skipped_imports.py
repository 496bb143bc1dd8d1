"""torch's functions, without imports of what they do not use.

Functions of torch that a capture calls read settings of torch._dynamo. Importing that package takes
a second of each process that compiles, as it imports torch.distributed, torch.export and more.
While nothing has imported it no program has changed its settings: they are known. They also import
functions for symbols, and with them SymPy, before they know whether there is a symbol.
"""

from __future__ import annotations

import builtins
import importlib
import operator
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch


class ModuleView:
    """A module, with other values of some names. load: returns the module."""

    def __init__(self, load: Callable[[], types.ModuleType], **other: Any) -> None:
        vars(self).update(other)
        self._load = load

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)


class UnimportedModule:
    """A module that is not imported for the sake of names that have known values in it."""

    def __init__(self, module: str, **known: Any) -> None:
        self._module, self._known = module, known

    def __getattr__(self, name: str) -> Any:
        if name in self._known and self._module not in sys.modules:
            return self._known[name]
        return getattr(importlib.import_module(self._module), name)


class UnimportedFunctions:
    """A module of functions that is imported by the first call of one; but not by a call on plain
    numbers of one that returns them as they are, or compares them."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if name in SAME_NUMBER and len(args) == 1 and type(args[0]) in (bool, int):
                return args[0]
            if name == "sym_eq" and all(map(is_plain_number_or_tuple, args)):
                return operator.eq(*args)
            return getattr(importlib.import_module(self._module), name)(*args, **named)

        return call


class UnreadSources(UnimportedFunctions):
    """TorchDynamo's module of sources, for code that makes sources and reads none."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: self


def is_plain_number_or_tuple(value: Any) -> bool:
    """Whether it is an int or a tuple of ints."""
    return (
        type(value) is int or type(value) in (tuple, torch.Size) and set(map(type, value)) <= {int}
    )


# what torch does to a condition or a size that may have symbols
SAME_NUMBER = ("expect_true", "guard_int", "guard_or_false", "statically_known_true")
SYMBOLS = "torch.fx.experimental.symbolic_shapes"
DYNAMO = "torch._dynamo"
SETTINGS = f"{DYNAMO}.config"
SOURCES = f"{DYNAMO}.source"
TORCH = ModuleView(
    lambda: torch,
    _dynamo=ModuleView(
        partial(importlib.import_module, DYNAMO),
        config=UnimportedModule(
            SETTINGS,
            fake_tensor_cache_enabled=True,
            fake_tensor_cache_crosscheck_enabled=False,
            _custom_ops_profile=None,
        ),
    ),
)
SYMPY = ModuleView(partial(importlib.import_module, "sympy"))


def without_dynamo(function: Any) -> Any:
    """A copy of a Python function that reads TorchDynamo's settings without importing them, and
    imports functions for symbols, and SymPy, at their first use."""
    views = {"torch": TORCH, SYMBOLS: UnimportedFunctions(SYMBOLS), "sympy": SYMPY}
    return with_views(function, views, SETTINGS)


def without_dynamo_sources(function: Any) -> Any:
    """The same of a function that makes sources of TorchDynamo, which nothing reads."""
    sources = UnreadSources(SOURCES)
    dynamo = ModuleView(partial(importlib.import_module, DYNAMO), source=sources)
    views = {
        "torch": ModuleView(lambda: torch, _dynamo=dynamo),
        SYMBOLS: UnimportedFunctions(SYMBOLS),
        SOURCES: sources,
    }
    return with_views(function, views, SETTINGS)


def for_numbers(function: Any) -> Any:
    """The same of a function that checks its arguments, and is called with numbers, tensors and
    torch's symbols, but not with expressions of SymPy."""
    views = {
        "torch": ModuleView(lambda: torch, _check=CHECK),
        SYMBOLS: UnimportedFunctions(SYMBOLS),
        "sympy": ModuleView(SYMPY._load, Basic=()),
    }
    return with_views(function, views, SETTINGS)


def with_views(function: Any, views: Mapping[str, Any], skipped: str) -> Any:
    """A copy of a Python function that has views instead of modules, as globals and from its import
    statements, and that does not import the module `skipped`, nor the modules of functions."""

    def import_module(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if name == skipped:
            return views[name if fromlist else name.partition(".")[0]]
        if isinstance(views.get(name), UnimportedFunctions if fromlist else ModuleView):
            return views[name]
        module = builtins.__import__(name, globals, locals, fromlist, level)
        return views.get(module.__name__, module)

    names = {
        **function.__globals__,
        **{name: views[name] for name in views.keys() & function.__globals__.keys()},
        "__builtins__": {**vars(builtins), "__import__": import_module},
    }
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


CHECK = with_views(torch._check, {"_check_with": without_dynamo(torch._check_with)}, SETTINGS)
