"""Replaces a compiled graph by the captured one after it raised an error that the captured one does
not raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint

from ...errors import RequirementError, Rerun, warn_user

# What a graph raises without anything starting over: by who watches it, caught by the same; for the
# user.
PASSED_ON = (checkpoint._StopRecomputationError, RequirementError)
STARTS_OVER = (*PASSED_ON, Rerun)


def fall_back_to_eager(
    compiled: Callable[..., Any], forward: Callable[..., Any], backend: str
) -> Callable[..., Any]:
    """`compiled` until it raises where `forward` does not, then `forward`. For graphs that change
    nothing but what they return."""
    run = compiled

    # by a tuple: frames of a hundred arguments, one inside another, cost microseconds
    def call(*args: Any) -> Any:
        try:
            return run(*args)
        except STARTS_OVER:
            raise
        except Exception as error:
            return instead(error, args)

    def instead(error: Exception, args: tuple[Any, ...]) -> Any:
        nonlocal run
        if isinstance(error, torch.OutOfMemoryError):
            raise error
        try:
            result = forward(*args)
        except Exception:  # it is the user's: the frame starts over, and raises where Python would
            raise error from None
        run = forward
        warn_of_fallback(backend, error)
        return result

    return call


def warn_of_fallback(backend: str, error: BaseException | None) -> None:
    warn_user(
        f"a graph compiled by backend '{backend}' raised {type(error).__name__}: {error}; torch's "
        "own operators do not, "
        "and run it from now on",
        stacklevel=4,
    )
