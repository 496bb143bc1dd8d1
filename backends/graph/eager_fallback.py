"""Replaces a compiled graph by the captured one, once it has raised an error that the captured one
does not raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint

from ...errors import RequirementError, Rerun, warn_user
from ...factory_call import record_factory

# Errors of a graph that do not start the frame over: some are for whoever watches the graph, some
# for the user.
PASSED_ON = (checkpoint._StopRecomputationError, RequirementError)
STARTS_OVER = (*PASSED_ON, Rerun)


def fall_back_to_eager(
    compiled: Callable[..., Any], forward: Callable[..., Any], backend: str
) -> Callable[..., Any]:
    """Runs `compiled` until it raises where `forward` does not, then `forward`. Only for graphs
    without side effects."""
    run = compiled

    # one tuple: nested frames of a hundred arguments cost microseconds
    def call(*args: Any) -> Any:
        try:
            return run(*args)
        except STARTS_OVER:
            raise
        except Exception as error:
            return run_captured_graph(error, args)

    def run_captured_graph(error: Exception, args: tuple[Any, ...]) -> Any:
        nonlocal run
        if isinstance(error, torch.OutOfMemoryError):
            raise error
        try:
            result = forward(*args)
        except Exception:  # the user's own error: the frame starts over and raises in Python
            raise error from None
        run = forward
        warn_of_fallback(backend, error)
        return result

    return record_factory(call, fall_back_to_eager, compiled, forward, backend)


def warn_of_fallback(backend: str, error: BaseException | None) -> None:
    warn_user(
        f"a graph compiled by backend '{backend}' raised {type(error).__name__}: {error}; torch's "
        "own operators do not, "
        "and run it from now on",
        stacklevel=4,
    )
