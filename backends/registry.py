"""Backends by name: functions (gm: fx.GraphModule, example_inputs: list of tensors) -> callable, as for torch.compile."""
from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Callable
from typing import Any

ENTRY_POINTS = "framejit.backends"
SHIPPED = {"eager": "eager", "aot_eager": "training", "inductor": "inductor"}  # name: module here, imported when first used

Backend = Callable[..., Any]

_backends: dict[str, Backend] = {}


def register_backend(name: str | Backend | None = None, fn: Backend | None = None) -> Any:
    """Registers a backend; usable as `register_backend("x", fn)`, `@register_backend("x")` and `@register_backend`.

    Raises ValueError for a name that is taken by another function, TypeError for what is not callable.
    """
    if callable(name):
        return register_backend(getattr(name, "__name__", "backend"), name)
    if fn is None:
        return lambda function: register_backend(name or function.__name__, function)
    if not callable(fn):
        raise TypeError(f"register_backend: `fn` must be callable, not {type(fn).__name__}")
    assert isinstance(name, str)
    if name in SHIPPED and fn.__module__ != f"{__package__}.{SHIPPED[name]}":
        raise ValueError(f"'{name}' is a backend that framejit ships; choose another name")
    if _backends.setdefault(name, fn) is not fn:
        raise ValueError(f"a backend named '{name}' is registered already: {_place(_backends[name])}; choose another name")
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


def takes_options(backend: str | Backend) -> bool:
    """Whether a backend has parameters beside the graph and the example inputs."""
    parameters = inspect.signature(lookup(backend)).parameters
    return len(parameters) > 2 or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
