"""Nested tuples, lists and dictionaries with tensors as leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....errors import GraphBreak
from ....records import record
from ..base import Value
from ..constant import Constant
from ..containers.list import ListValue
from ..containers.mapping import DictValue
from ..containers.sequence import TupleValue, is_namedtuple_class
from ..context import TraceContext
from .tensor import TensorValue


@record
class Container:
    """A tuple, list or dictionary without its leaves. parts: for each item what it contains, None
    for a tensor. keys: those of a dictionary."""

    cls: type
    parts: tuple[Container | None, ...]
    keys: tuple[Any, ...] = ()

    def fill(self, tx: TraceContext, leaves: Iterator[Value]) -> Value:
        items = [next(leaves) if part is None else part.fill(tx, leaves) for part in self.parts]
        if self.cls is dict:
            return tx.make.dict_of(list(zip(map(Constant, self.keys), items, strict=True)))
        return ListValue(items) if self.cls is list else TupleValue(items, None, self.cls)


class TensorTree:
    """A value taken apart. `leaves`: its tensors, in the order of torch.utils._pytree. `structure`:
    the rest. Raises GraphBreak for a value with anything else in it."""

    def __init__(self, tx: TraceContext, value: Value) -> None:
        self.leaves: list[TensorValue] = []
        self.structure = self._take_apart(tx, value)

    def rebuild(self, tx: TraceContext, leaves: list[Value]) -> Value:
        """A new value of the same structure."""
        return leaves[0] if self.structure is None else self.structure.fill(tx, iter(leaves))

    def _take_apart(self, tx: TraceContext, value: Value) -> Container | None:
        value = tx.look(value)
        if isinstance(value, TensorValue):
            value.require_own_data()
            self.leaves.append(value)
            return None
        items, keys = items_of(tx, value)
        return Container(
            value.python_type(), tuple(self._take_apart(tx, item) for item in items), keys
        )


def items_of(tx: TraceContext, value: Value) -> tuple[list[Value], tuple[Any, ...]]:
    """The items of a container that torch.utils._pytree takes apart, and the keys of a
    dictionary."""
    cls = value.python_type()
    if isinstance(value, TupleValue) and (cls is tuple or is_namedtuple_class(cls)):
        return value.all(tx), ()
    if isinstance(value, ListValue) and cls is list:
        return value.all(tx), ()
    if isinstance(value, DictValue) and cls is dict:
        pairs = value.pairs(tx)
        return [item for _, item in pairs], tuple(key.constant() for key, _ in pairs)
    raise GraphBreak("unsupported-value", f"{value.describe()} where a tensor is needed")
