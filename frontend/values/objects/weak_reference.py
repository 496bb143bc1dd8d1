"""Weak references that existed before the frame; a call gives the referent."""

from __future__ import annotations

import weakref
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Referent, Source
from ..base import Value, require_path
from ..context import TraceContext
from ..operation import Operation
from ..registry import wraps


class WeakReference(Value):
    """An existing weakref.ref."""

    __slots__ = ("real",)
    cls = weakref.ReferenceType

    def __init__(self, real: weakref.ReferenceType[Any], source: Source) -> None:
        super().__init__(source)
        self.real = real

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs or self.source is None:
            return super().call(tx, args, kwargs)
        referent = self.real()
        if referent is not None and tx.objects.may_be_gone(referent):
            raise self.unsupported_use("called where its object may be gone")
        return tx.wrap(referent, Referent(self.source))

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """By the referents, while both are alive."""
        if not op.is_equality or not isinstance(other, WeakReference):
            return None
        ends = self.call(tx, [], {}), other.call(tx, [], {})
        return None if any(end.is_none() for end in ends) else tx.objects.compare(op.sign, *ends)


@wraps(weakref.ProxyType, weakref.CallableProxyType)
def wrap_proxy(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    raise GraphBreak("unsupported-value", "a weak proxy")


@wraps(weakref.ReferenceType)
def wrap_reference(
    tx: TraceContext, obj: weakref.ReferenceType[Any], source: Source | None
) -> Value:
    source = require_path(obj, source, "weak reference")
    tx.guards.add(source, Kind.TYPE, weakref.ReferenceType)
    return tx.objects.remember(obj, WeakReference(obj, source))
