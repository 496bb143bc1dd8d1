"""Read-only views of dictionaries (types.MappingProxyType), such as the parameters of a
Signature."""

from __future__ import annotations

import gc
import types
from collections import OrderedDict
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import ProxiedMapping, Source
from ..base import Args, Kwargs, Value, require_path
from ..context import TraceContext
from ..emitter import Emitter
from ..operation import Operation
from ..registry import wraps
from .mapping import DictValue

READS = frozenset(
    "get keys values items copy __getitem__ __contains__ __iter__ __len__ __reversed__".split()
)


class MappingProxyValue(Value):
    """A mappingproxy. Every operation is forwarded to the dictionary as it is at that time."""

    __slots__ = ("mapping",)
    cls = types.MappingProxyType

    def __init__(self, mapping: DictValue, source: Source | None = None) -> None:
        super().__init__(source)
        self.mapping = mapping

    def truth(self, tx: TraceContext) -> bool:
        return self.mapping.truth(tx)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in READS:
            return tx.make.bound_method(self, name)
        if not hasattr(types.MappingProxyType, name):
            raise tx.exceptions.no_attribute("mappingproxy", name)
        return super().attribute(tx, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if name in READS:
            return self.mapping.method(tx, name, args, kwargs)
        return super().method(tx, name, args, kwargs)

    def iterator(self, tx: TraceContext) -> Value:
        return self.mapping.iterator(tx)

    def mapping_pairs(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        return self.mapping.pairs(tx)

    def length(self, tx: TraceContext) -> Value:
        return self.mapping.length(tx)

    def item(self, tx: TraceContext, key: Value) -> Value:
        return self.mapping.item(tx, key)

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        raise tx.exceptions.new(TypeError, "'mappingproxy' object does not support item assignment")

    def del_item(self, tx: TraceContext, key: Value) -> None:
        raise tx.exceptions.new(TypeError, "'mappingproxy' object does not support item deletion")

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return self.mapping.contains(tx, item)

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(types.MappingProxyType, [self.mapping])

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        return tx.objects.compare(op.sign, self.mapping, other) if op.is_equality else None

    def compare_reflected(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        return tx.objects.compare(op.sign, other, self.mapping) if op.is_equality else None


@wraps(types.MappingProxyType)
def wrap_mapping_proxy(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    path, mapping = require_path(obj, source), gc.get_referents(obj)[0]
    if type(mapping) not in (dict, OrderedDict):
        raise GraphBreak("unsupported-value", f"a mappingproxy of {type(mapping).__name__}")
    tx.guards.add(path, Kind.TYPE, types.MappingProxyType)
    shown = tx.wrap(mapping, ProxiedMapping(path))
    assert isinstance(shown, DictValue)
    return tx.objects.remember(obj, MappingProxyValue(shown, path))
