"""Tensors that existed before the frame: an input of the graph, an instance of a subclass, or
opaque."""

from __future__ import annotations

import torch

from ....guards.source import Source
from ....guards.source.tensors import without_class
from ..base import Value, require_path
from ..context import TraceContext
from ..registry import wraps_subclasses
from .opaque_tensor import PLAIN_TENSORS, why_opaque, wrap_opaque
from .tensor_subclass import is_captured, wrap_subclass
from .wrapper_subclass import is_captured_wrapper, wrap_wrapper


@wraps_subclasses(torch.Tensor, torch._C._TensorBase)
def wrap_tensor(tx: TraceContext, obj: torch.Tensor, source: Source | None) -> Value:
    source = require_path(obj, source, "tensor")
    if is_captured_wrapper(type(obj)):
        return wrap_wrapper(tx, obj, source)
    why = why_opaque(obj)
    if (
        why is not None
        and type(obj) not in PLAIN_TENSORS
        and is_captured(type(obj))
        and why_opaque(without_class(obj)) is None
    ):
        return wrap_subclass(tx, obj, source)
    return tx.graph.input(tx, obj, source) if why is None else wrap_opaque(tx, obj, source, why)
