"""The public functions under a Python or torch that is not supported: everything runs in eager,
nothing fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..backends.backend_info import BackendInfo
from ..errors import ArtifactError, ExportError
from .framejit_attribute import ControlGroup, answer_for, title_of
from .runtime.stats import Stats
from .support import support_statement

if TYPE_CHECKING:
    from .explain.report import Report


def do_nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


def return_function(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Returns the function that it is given; also a decorator with arguments."""
    return (lambda f: f) if function is None else function


graph_break = mark_dynamic = maybe_mark_dynamic = mark_static = reset = uninstall = do_nothing
allow_in_graph = disable = opaque = return_function


def compile(fn_or_module: Any = None, **asked: Any) -> Any:
    """Returns what it is given, whose `framejit.explain()` says why nothing is compiled."""
    return compile if fn_or_module is None else answer_for(fn_or_module, support_statement())


def export(fn_or_module: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Raises ExportError: nothing is captured."""
    raise ExportError(title_of(fn_or_module), [support_statement()])


def save(compiled: Any, path: Any) -> None:
    """Raises ArtifactError: nothing is compiled."""
    raise ArtifactError(f"{title_of(compiled)} is not compiled: {support_statement()}")


def load(path: Any, fn_or_module: Any) -> Any:
    """Returns the second argument, whose `framejit.explain()` says why nothing is compiled."""
    return answer_for(fn_or_module, support_statement())


def explain(fn_or_module: Any, **asked: Any) -> Callable[..., Any]:
    """explain(f)(*args, **kwargs) calls f and returns a report that says why nothing is compiled.

    Raises ValueError for `calls` below 1.
    """
    if asked.get("calls", 1) < 1:
        raise ValueError(f"calls must be at least 1, not {asked['calls']}")

    def call_and_report(*args: Any, **kwargs: Any) -> Report:
        for _ in range(asked.get("calls", 1)):
            result = fn_or_module(*args, **kwargs)
        report = ControlGroup(None, title_of(fn_or_module), support_statement()).explain()
        return replace(report, result=result)

    return call_and_report


def is_compiling() -> bool:
    """False."""
    return False


_registered: dict[str, BackendInfo] = {}  # by name


def list_backends() -> Mapping[str, BackendInfo]:
    """What the program has registered, none of it usable; nothing is compiled, so there are no
    others."""
    return _registered


def register_backend(name: Any = None, fn: Any = None, **facts: Any) -> Any:
    """Returns the backend's function; `list_backends()` says why it is not usable."""
    function = name if callable(name) else fn
    if function is None:
        return lambda later: register_backend(name, later, **facts)
    title = name if isinstance(name, str) else getattr(function, "__name__", "backend")
    devices = facts.get("devices")
    _registered[title] = BackendInfo(
        name=title,
        devices=None if devices is None else tuple(devices),
        training=facts.get("training", True),
        wants=facts.get("wants", "torch"),
        usable=False,
        reason=support_statement(),
        origin="",
    )
    return function


class set_stance:  # a function to its users
    """Does nothing, also as a context manager or decorator."""

    def __init__(self, stance: str) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...

    def __call__(self, function: Any) -> Any:
        return function


class debug(set_stance):  # a function to its users
    """Does nothing, also as a context manager or decorator."""

    def __init__(self) -> None: ...


class install(set_stance):  # a function to its users
    """Does nothing: torch.compile stays torch's."""

    def __init__(self, **defaults: Any) -> None: ...

    def uninstall(self) -> None: ...


def stats() -> Stats:
    """Nothing is compiled, so there is nothing to count."""
    return Stats(())
