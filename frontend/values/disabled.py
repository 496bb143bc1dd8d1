"""Functions that the program keeps from being compiled: framejit.disable, torch.compiler.disable
and torch._dynamo.disable."""

from __future__ import annotations

import functools
import types
from typing import Any

# Names in torch: the function that torch.compiler.disable puts around another, whose calls run with
# compilation off altogether; the same for recursive=False, whose inner function alone is left to
# Python.
WRAPPER = "DisableContext.__call__.<locals>._fn"
SHALLOW_WRAPPER = "get_nonrecursive_disable_wrapper.<locals>.nonrecursive_disable_wrapper"


def leave_alone(function: Any) -> types.FunctionType:
    """Returns a function around another one whose own frames are left to Python; functions that it
    calls are still captured."""
    if isinstance(function, types.FunctionType):
        # also where it is called directly
        function._framejit_skip = True  # type: ignore[attr-defined]

    @functools.wraps(function)
    def left_alone(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    assert isinstance(left_alone, types.FunctionType)
    return left_alone


def is_disabled(function: Any) -> bool:
    """Whether a function is marked as disabled by framejit or torch. functools.wraps copies torch's
    mark to wrappers, so torch stores the function that was marked."""
    if not isinstance(function, types.FunctionType):
        return False
    if getattr(function, "_framejit_disable", False) or getattr(function, "_framejit_skip", False):
        return True
    own = getattr(function, "_torchdynamo_wrapper_id", id(function)) == id(function)
    return own and getattr(function, "_torchdynamo_disable", False) is True


def disabled_reason(function: types.FunctionType, name: str) -> str:
    """The function's name, and what the program gave as the reason to disable it."""
    message = getattr(function, "_torchdynamo_disable_msg", None)
    return f"{name} ({message})" if message else name


def is_wrapper(code: types.CodeType, torch_folder: str) -> bool:
    """Whether a code object is that of torch.compiler.disable's function around another."""
    return code.co_qualname == WRAPPER and code.co_filename.startswith(torch_folder)


def is_shallow_wrapper(code: types.CodeType, torch_folder: str) -> bool:
    """Whether a code object is that of torch.compiler.disable(recursive=False), or of
    framejit's."""
    return (
        code is LEFT_ALONE
        or code.co_qualname == SHALLOW_WRAPPER
        and code.co_filename.startswith(torch_folder)
    )


LEFT_ALONE = leave_alone(lambda: None).__code__
