"""Registries of the frontend: how to wrap a type, what a callable does, what a builtin type's
method does.

Each entry is a module-level function under a decorator; a second one for the same key raises and
names both definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any

from ...errors import GraphBreak


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


class Registry:
    """Handlers by key. Callables are compared by identity, so that equal ones stay separate."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.handlers: dict[Hashable, Callable[..., Any]] = {}

    def register(self, *keys: Hashable) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def decorate(handler: Callable[..., Any]) -> Callable[..., Any]:
            for key in keys:
                old = self.handlers.setdefault(key, handler)
                if old is not handler:
                    raise ValueError(
                        f"two {self.what} for {key!r}: {_place(old)} and {_place(handler)}"
                    )
            return handler

        return decorate

    def get(self, key: Hashable) -> Callable[..., Any] | None:
        return self.handlers.get(key)


_wraps = Registry("wrap rules")
_subclasses = Registry("wrap rules of subclasses")
_models = Registry("models")
_methods = Registry("methods")

wraps = _wraps.register  # @wraps(range): (tx, obj, source) -> Value
wraps_subclasses = _subclasses.register  # the same for a class and all below it
# @models(math.hypot): (tx, *args, **kwargs) -> Value, all Values; by module and name what loads
# late
models = _models.register


REGISTRIES = (_wraps, _subclasses, _models, _methods)


def keys_so_far() -> tuple[frozenset[Hashable], ...]:
    """The keys of each registry so far."""
    return tuple(frozenset(kind.handlers) for kind in REGISTRIES)


def forget_since(before: tuple[frozenset[Hashable], ...]) -> None:
    """Removes everything that was registered since `keys_so_far()` returned `before`."""
    for kind, keys in zip(REGISTRIES, before, strict=True):
        for key in kind.handlers.keys() - keys:
            del kind.handlers[key]


def wrap_rule(cls: type) -> Callable[..., Any] | None:
    """The rule of a type: its own, or that of the nearest base class with a rule for subclasses."""
    try:
        found = _wraps.get(cls)
    except TypeError:  # its metaclass has no hash
        found = None
    if found is not None:
        return found
    for base in cls.__mro__:
        if type(base).__hash__ is type.__hash__ and (rule := _subclasses.get(base)) is not None:
            return rule
    return None


def method(
    classes: type | tuple[type, ...], *names: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`@method(dict, "setdefault")`: (tx, self, *args, **kwargs) -> Value. Of several classes,
    `@method((list, tuple), "index")`."""
    several = classes if isinstance(classes, tuple) else (classes,)
    return _methods.register(*((cls, name) for cls in several for name in names))


NAMED = (FunctionType, type)  # found by module and name, where their modules load late


def model_of(function: Any) -> Callable[..., Any] | None:
    """The model of a callable, if it has one."""
    try:
        found = _models.get(function)
        if found is None and type(function) in NAMED:
            found = _models.get((function.__module__, function.__qualname__))
        return found
    except TypeError:  # unhashable callable
        return None


def call_model(tx: Any, callee: Any, model: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls the model of a callable; breaks where it does not take these arguments."""
    if not accepts(model, len(args) + 1, kwargs):
        raise GraphBreak("unknown-call", f"{callee.describe()} with these arguments")
    return model(tx, *args, **kwargs)


def method_of(cls: type, name: str) -> Callable[..., Any] | None:
    """The handler of a builtin type's method, or of a base class's."""
    for base in cls.__mro__:
        if (
            type(base).__hash__ is type.__hash__
            and (handler := _methods.get((base, name))) is not None
        ):
            return handler
    return None


def accepts(handler: Callable[..., Any], given: int, names: Any) -> bool:
    """Whether a handler takes `given` positional arguments (the context among them) and keywords
    `names`."""
    code = handler.__code__
    defaults = len(handler.__defaults__ or ())
    takes_any = code.co_flags & 0x08  # **kwargs
    if not takes_any and any(
        name not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] for name in names
    ):
        return False
    positional = code.co_argcount
    if any(name in code.co_varnames[: code.co_posonlyargcount] for name in names):
        return False
    if any(name in code.co_varnames[: min(given, positional)] for name in names):
        return False  # given twice, or the caller's `self` is not ours
    by_name = sum(name in code.co_varnames[:positional] for name in names)
    most = math.inf if code.co_flags & 0x04 else positional  # *args
    return positional - defaults <= given + by_name <= most
