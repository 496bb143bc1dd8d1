"""Output through warnings and loggers: the calls are recorded and made in order after the graph has
run.

They are recorded only where the delay cannot be observed: where the standard library's own code, or
a stream in C, writes the output.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

# warnings


def warn_from(
    text: str, category: type[Warning], filename: str, line: int, namespace: dict[str, Any]
) -> None:
    """warnings.warn(text, category) in a frame at that line, with those globals."""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        text, category, filename, line, namespace.get("__name__") or "<string>", registry
    )


def warning_receiver() -> str:
    """Where warnings are written: "python" (the standard library), "list" (one that records them),
    or "others"."""
    original = warnings._showwarning_orig  # type: ignore[attr-defined]
    if warnings.showwarning is not original or not written_in_c(sys.stderr):
        return "others"
    show = warnings._showwarnmsg_impl  # type: ignore[attr-defined]
    if isinstance(show, types.FunctionType) and show.__globals__ is vars(warnings):
        return "python"
    return "list" if type(getattr(show, "__self__", None)) is list else "others"


def raises(text: str, category: type[Warning], module: str, line: int) -> bool:
    """Whether the filters turn a warning into an exception."""
    for action, message, of, where, at in warnings.filters:
        fits = issubclass(category, of) and at in (0, line)
        if (
            fits
            and (message is None or matches(message, text))
            and (where is None or matches(where, module))
        ):
            return action == "error"
    return warnings.defaultaction == "error"  # type: ignore[attr-defined]


def matches(pattern: Any, text: str) -> bool:
    return bool(pattern == text if isinstance(pattern, str) else pattern.match(text))


# loggers


def write_record(
    logger: logging.Logger,
    level: int,
    filename: str,
    line: int,
    function: str,
    message: Any,
    *args: Any,
) -> None:
    """logger.log(level, message, *args) in a function at that line."""
    logger.handle(
        logger.makeRecord(logger.name, level, filename, line, message, args, None, function)
    )


def write_by_cached(function: Callable[..., None], *args: Any) -> None:
    """A call of a function under functools.lru_cache that writes the same output once."""
    function(*args)


# modules whose handlers do nothing but write, and keep records for a test
HANDLERS = ("logging", "_pytest.logging")


def written_by_handlers(logger: logging.Logger) -> bool:
    """Whether a logger's output passes only through the standard library's own code, to streams in
    C."""
    if (
        type(logger) not in (logging.Logger, logging.RootLogger)
        or logging.getLogRecordFactory() is not logging.LogRecord
    ):
        return False
    at: logging.Logger | None = logger
    handlers: list[logging.Handler] = []
    while at is not None:
        if at.filters:
            return False
        handlers += at.handlers
        at = at.parent if at.propagate else None
    if not handlers and logging.lastResort is not None:
        handlers = [logging.lastResort]
    return all(map(_plain_handler, handlers))


def _plain_handler(handler: logging.Handler) -> bool:
    plain = (
        type(handler).__module__ in HANDLERS
        and not handler.filters
        and not {"emit", "handle", "format"} & vars(handler).keys()
    )
    formatter = handler.formatter
    known = formatter is None or type(formatter).__module__ in HANDLERS
    return plain and known and written_in_c(getattr(handler, "stream", None))


def written_in_c(stream: Any) -> bool:
    """Whether writing to a stream runs no Python."""
    return stream is None or not isinstance(
        getattr(type(stream), "write", None), types.FunctionType
    )
