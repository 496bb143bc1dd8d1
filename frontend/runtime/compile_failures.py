"""An exception that ended a compile: it is raised to the user, or reported, and the frame runs in
eager."""

from __future__ import annotations

from ...errors import BackendError, FramejitError, InternalError, SkipFrame, warn_once, warn_user
from ...events import Sink, Skipped
from ...options import Options
from .compile_unit import CompileUnit


def raise_or_report(unit: CompileUnit, error: Exception, options: Options, send: Sink) -> None:
    """Raises what the user asked to see, within the handler of `error`; reports the rest, after
    which the unit runs in Python."""
    if isinstance(error, SkipFrame):
        send(Skipped(unit.name, unit.where, str(error)))
        if options.fullgraph:
            raise InternalError(f"{unit.name} cannot be captured in one graph: {error}") from None
    elif isinstance(error, BackendError):
        if not options.suppresses_errors:
            raise error
        warn_user(f"{error}; {unit.name} runs in eager", stacklevel=2)
    elif isinstance(error, FramejitError):
        if options.strict or not isinstance(error, InternalError):
            raise error
        report_internal_failure(unit, error)
    else:
        if options.strict:
            raise InternalError(
                f"framejit failed on {unit.name}: {type(error).__name__}: {error}"
            ) from error
        report_internal_failure(unit, error)


def report_internal_failure(unit: CompileUnit, error: Exception) -> None:
    """Warns once for each cause: the line of framejit that raised, and the exception."""
    cause = type(error).__name__, *raising_line(error)
    warn_once(
        f"internal failure on {unit.name} ({type(error).__name__}: {error}). It runs in eager; the "
        "same failure elsewhere gives no second warning. Please report what FRAMEJIT_STRICT=1 "
        "prints; to silence this, decorate the function with @framejit.disable.",
        key=cause,
        stacklevel=2,
    )


def raising_line(error: BaseException) -> tuple[str, int]:
    """The innermost file and line that an exception went through."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return ("", 0) if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
