"""contextlib."""

from __future__ import annotations

import contextlib

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..functions.function import FunctionValue
from ..modes.context_manager import NullManager
from ..registry import models


@models(("torch.utils._contextlib", "_set_stack_frame_name"))
def set_stack_frame_name(tx: TraceContext, function: Value, name: Value) -> Value:
    """Renames the code of a function that torch.no_grad()(f) and the like return (from torch 2.15
    on)."""
    if not isinstance(function, FunctionValue) or not name.is_constant():
        raise GraphBreak("unknown-call", "torch.utils._contextlib._set_stack_frame_name")
    function.rename_code(tx, name.constant())
    return Constant(None)


@models(contextlib.nullcontext)
def nullcontext(tx: TraceContext, enter_result: Value | None = None) -> Value:
    return NullManager(enter_result or Constant(None))
