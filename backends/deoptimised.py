"""A compiled graph that raises where the captured one does not is given up: from then on the captured one runs."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint

from ..errors import RequirementError
from ..generated import file_name, keep

# What a graph raises without anything starting over: by who watches it, caught by the same; for the user.
PASSED_ON = (checkpoint._StopRecomputationError, RequirementError)

TEXT = """\
def call({given}):
    try:
        return run({given})
    except PASSED_ON:
        raise
    except Exception as error:
        return instead(error, globals(), {given})
"""


def deoptimising(compiled: Callable[..., Any], forward: Callable[..., Any], inputs: int, backend: str) -> Callable[..., Any]:
    """`compiled` until it raises where `forward` does not, then `forward`. For graphs that change nothing but what they return."""

    def instead(error: Exception, names: dict[str, Any], *args: Any) -> Any:
        if isinstance(error, torch.OutOfMemoryError):
            raise error
        try:
            result = forward(*args)
        except Exception:  # it is the user's: the frame starts over, and raises where Python would
            raise error from None
        names["run"] = forward
        tell(backend, error)
        return result

    given = ", ".join(f"a{number}" for number in range(inputs))  # a call with all arguments by position costs least
    names: dict[str, Any] = {"run": compiled, "instead": instead, "PASSED_ON": PASSED_ON}
    text, name = TEXT.format(given=given), file_name("graph")
    exec(compile(text, name, "exec"), names)
    call: Callable[..., Any] = names.pop("call")  # it would keep itself
    keep(name, text, call)
    return call


def tell(backend: str, error: BaseException | None) -> None:
    warnings.warn(
        f"framejit: a graph compiled by backend '{backend}' raised {type(error).__name__}: {error}; torch's own operators do not, "
        "and run it from now on",
        RuntimeWarning,
        stacklevel=4,
    )
