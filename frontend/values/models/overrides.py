"""__torch_function__: torch's own, the switches that disable it, and the functions by which torch's
Python calls it."""

from __future__ import annotations

from typing import Any

import torch
import torch.overrides

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..objects.class_value import ClassValue
from ..registry import method, models
from ..tensor.tensor import TensorValue
from ..tensor.tensor_subclass import (
    TensorObject,
    by_default,
    call_torch_function,
    found_in,
    is_captured,
)

TORCH_FUNCTION: Any = torch.Tensor.__torch_function__


@models(TORCH_FUNCTION.__func__)
def default(
    tx: TraceContext,
    cls: Value,
    function: Value,
    types: Value,
    args: Value | None = None,
    kwargs: Value | None = None,
) -> Value:
    assert isinstance(cls, ClassValue)
    if not all(issubclass(cls.cls, of.constant()) for of in types.unpack(tx)):
        return Constant(NotImplemented)
    return by_default(
        tx, cls.cls, function, [args or TupleValue([]), *([] if kwargs is None else [kwargs])]
    )


@models(
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
)
def has_torch_function(tx: TraceContext, *args: Value) -> Value:
    return Constant(bool(found_in(tx, args)) and not tx.modes.subclasses_off)


@models(torch.overrides.handle_torch_function)
def handle_torch_function(
    tx: TraceContext, api: Value, relevant: Value, *args: Value, **kwargs: Value
) -> Value:
    named = tx.make.dict_of([(Constant(name), value) for name, value in kwargs.items()])
    return call_torch_function(tx, api, found_in(tx, [relevant]), [TupleValue(list(args)), named])


@method(torch.Tensor, "as_subclass")
def as_subclass(tx: TraceContext, self: TensorValue, cls: Value) -> Value:
    made = cls.constant()
    if made is not torch.Tensor and not is_captured(made):
        raise GraphBreak("subclass", made.__name__)
    alias = tx.graph.function(torch.ops.aten.alias.default, self)
    assert isinstance(alias, TensorValue)
    return alias if made is torch.Tensor else TensorObject(made, alias)
