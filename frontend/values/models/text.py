"""What makes text of objects: str(), repr(), format(), and the methods of str that take values."""

from __future__ import annotations

import torch

from ....errors import GraphBreak
from ..base import Value, check_result_type
from ..constant import Constant, fold
from ..containers.list import ListValue
from ..containers.mapping import DictValue
from ..containers.sequence import Sequence, TupleValue
from ..context import TraceContext
from ..deferred_literal import (
    DeferredLiteral,
    fill_fields,
    format_number,
    is_dynamic,
    join_with,
    text_of,
)
from ..objects.user_object import UserObject
from ..registry import method, models
from ..tensor.read_number import can_be_node
from ..tensor.tensor import TensorValue


@models(str)
def builtin_str(tx: TraceContext, obj: Value | None = None, *rest: Value) -> Value:
    if obj is None:
        return Constant("")
    if isinstance(obj, UserObject):
        return check_result_type(
            obj._call_special(tx, "__str__", [], "has no str()"), str, "__str__"
        )
    if isinstance(obj, Sequence | DictValue) and not rest:
        return builtin_repr(tx, obj)
    return fold(tx, str, [obj, *rest], {}) if rest else text_of(tx, str, obj)


@method(torch.Tensor, "__str__")
def tensor_str(tx: TraceContext, self: TensorValue) -> Value:
    return builtin_str(tx, self)


@models(repr)
def builtin_repr(tx: TraceContext, obj: Value) -> Value:
    """The text of literals, of containers of them, and of objects with a __repr__ in Python."""
    if isinstance(obj, UserObject):
        return check_result_type(
            obj._call_special(tx, "__repr__", [], "has no repr()"), str, "__repr__"
        )
    if isinstance(obj, Sequence) and obj.cls in (list, tuple) and not obj.is_constant():
        left, right = ("[", "]") if obj.cls is list else ("(", ",)" if len(obj.items) == 1 else ")")
        return Constant(
            left + ", ".join(builtin_repr(tx, item).constant() for item in obj.all(tx)) + right
        )
    if isinstance(obj, DictValue) and obj.cls is dict:
        texts = [
            f"{builtin_repr(tx, key).constant()}: {builtin_repr(tx, value).constant()}"
            for key, value in obj.pairs(tx)
        ]
        return Constant("{" + ", ".join(texts) + "}")
    return text_of(tx, repr, obj)


@models(format)
def builtin_format(tx: TraceContext, obj: Value, spec: Value | None = None) -> Value:
    spec = spec or Constant("")
    if isinstance(obj, TensorValue):
        if obj.cls is not torch.Tensor or obj.fake.dim() != 0 or not can_be_node(tx, obj):
            raise GraphBreak("data-dependent-value", f"the text of {obj.describe()}")
        read = obj.method(tx, "detach", [], {}) if obj.fake.requires_grad else obj
        return format_number(tx, read.method(tx, "item", [], {}), spec.constant())
    if isinstance(obj, UserObject):
        return check_result_type(
            obj._call_special(tx, "__format__", [spec], "has no format()"), str, "__format__"
        )
    if isinstance(obj, ListValue | DictValue) and spec.constant() == "":
        return builtin_repr(tx, obj)
    return format_number(tx, obj, spec.constant())


@method(torch.Tensor, "__format__")
def tensor_format(tx: TraceContext, self: TensorValue, spec: Value) -> Value:
    return builtin_format(tx, self, spec)


@method(str, "format")
def str_format(tx: TraceContext, self: Value, *args: Value, **kwargs: Value) -> Value:
    if not kwargs and isinstance(self, Constant):
        deferred = fill_fields(self.object, [tx.look(arg) for arg in args])
        if deferred is not None:
            return deferred
    return fold(tx, self.constant().format, list(args), kwargs)


@method(str, "join")
def str_join(tx: TraceContext, self: Value, items: Value) -> Value:
    parts = [tx.look(item) for item in items.unpack(tx)]
    if any(map(is_dynamic, (self, *parts))) and all(part.python_type() is str for part in parts):
        return DeferredLiteral(join_with, (self, *parts), str)
    return fold(tx, self.constant().join, [TupleValue(parts)], {})


def _defers(name: str, counts: tuple[int, ...]) -> None:
    function = getattr(str, name)

    @method(str, name)
    def changed_text(tx: TraceContext, self: Value, *args: Value) -> Value:
        operands = (self, *map(tx.look, args))
        texts = all(operand.python_type() is str for operand in operands)
        if texts and len(args) in counts and any(map(is_dynamic, operands)):
            return DeferredLiteral(function, operands, str)
        return fold(tx, getattr(self.constant(), name), list(args), {})


# methods that give a text and raise for no texts, with their numbers of arguments
METHODS_OF_TEXTS = {
    **dict.fromkeys(("capitalize", "casefold", "lower", "swapcase", "title", "upper"), (0,)),
    **dict.fromkeys(("lstrip", "rstrip", "strip"), (0, 1)),
    **dict.fromkeys(("removeprefix", "removesuffix"), (1,)),
    "replace": (2,),
}
for _name, _counts in METHODS_OF_TEXTS.items():
    _defers(_name, _counts)
