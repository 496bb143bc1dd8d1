"""torch.autograd."""
from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import BackwardHook

from ....errors import GraphBreak
from .. import autograd_function
from ..base import Value
from ..klass import ClassValue
from ..registry import models

if TYPE_CHECKING:
    from ..context import TraceContext


@models(torch.autograd.Function.apply.__func__)
def apply(tx: TraceContext, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if kwargs or not isinstance(cls, ClassValue):
        raise GraphBreak("unknown-call", "torch.autograd.Function.apply() with keyword arguments")
    if cls.cls is BackwardHookFunction:  # torch.utils.hooks looks for its node by name
        raise GraphBreak("unknown-call", "a backward hook being set up")
    return autograd_function.apply(tx, cls, list(args))


@models(BackwardHook.setup_input_hook, BackwardHook.setup_output_hook)
def setup_hook(tx: TraceContext, *args: Value) -> Value:
    raise GraphBreak("unknown-call", "a backward hook being set up")


@models(torch.autograd.grad)
def grad(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
    return tx.graph.call("call_function", torch.autograd.grad, list(args), kwargs)
