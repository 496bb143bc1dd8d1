"""Backends by name: functions (gm: fx.GraphModule, example_inputs: list of tensors) -> callable, as for torch.compile."""
from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Callable, Collection
from typing import Any

ENTRY_POINTS = "framejit.backends"
# name: module here, imported when first used
SHIPPED = {"eager": "eager", "aot_eager": "training", "inductor": "inductor", "native": "native"}

Backend = Callable[..., Any]

_backends: dict[str, Backend] = {}
_options: dict[str, Callable[[], Collection[str]]] = {}


def register_backend(
    name: str | Backend | None = None, fn: Backend | None = None, *, options: Callable[[], Collection[str]] | None = None
) -> Any:
    """Registers a backend; usable as `register_backend("x", fn)`, `@register_backend("x")` and `@register_backend`.

    options: gives the names of the options that it takes, for a backend with one parameter `options`; those of another one
        are its further parameters. A parameter `mode` gets compile()'s mode.

    Raises ValueError for a name that is taken by another function, TypeError for what is not callable.
    """
    if callable(name):
        return register_backend(getattr(name, "__name__", "backend"), name, options=options)
    if fn is None:
        return lambda function: register_backend(name or function.__name__, function, options=options)
    if not callable(fn):
        raise TypeError(f"register_backend: `fn` must be callable, not {type(fn).__name__}")
    assert isinstance(name, str)
    if name in SHIPPED and fn.__module__ != f"{__package__}.{SHIPPED[name]}":
        raise ValueError(f"'{name}' is a backend that framejit ships; choose another name")
    if _backends.setdefault(name, fn) is not fn:
        raise ValueError(f"a backend named '{name}' is registered already: {_place(_backends[name])}; choose another name")
    if options is not None:
        _options[name] = options
    return fn


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def list_backends() -> list[str]:
    """Names of all backends: the shipped ones, the registered ones, and those of installed plugins."""
    return sorted({*SHIPPED, *_backends, *(point.name for point in importlib.metadata.entry_points(group=ENTRY_POINTS))})


def lookup(backend: str | Backend) -> Backend:
    """The function of a backend. Raises ValueError, listing the known ones, for an unknown name."""
    if callable(backend):
        return backend
    if backend not in _backends and backend in SHIPPED:
        importlib.import_module(f".{SHIPPED[backend]}", __package__)
    if backend in _backends:
        return _backends[backend]
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if point.name == backend:
            return register_backend(backend, point.load())
    check(backend)
    raise AssertionError(backend)


def check(backend: str | Backend) -> None:
    """Raises ValueError for a name that `lookup` would not find; imports nothing."""
    if not callable(backend) and backend not in list_backends():
        raise ValueError(f"unknown backend {backend!r}; known ones: {', '.join(list_backends())}")


def name_of(backend: str | Backend) -> str:
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def check_options(backend: str | Backend, asked: Collection[str]) -> None:
    """Raises ValueError, listing the known ones, for an option that the backend does not take."""
    if not asked:
        return
    parameters = list(inspect.signature(lookup(backend)).parameters.values())[2:]
    known: Collection[str] = [parameter.name for parameter in parameters if parameter.name != "mode"]
    if isinstance(backend, str) and backend in _options:
        known = _options[backend]()
    elif "options" in known or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return  # only the backend knows
    unknown = sorted(set(asked) - set(known))
    if unknown:
        takes = f"it has: {', '.join(sorted(known))}" if known else "it takes none"
        raise ValueError(f"unknown options {', '.join(map(repr, unknown))} for backend {name_of(backend)!r}; {takes}")
