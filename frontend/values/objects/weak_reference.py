"""Weak references, of which a call gives the referent: those that existed before the frame, and new
ones to objects that existed before it."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Referent, Source
from ..base import Args, Kwargs, Value, require_path
from ..context import TraceContext
from ..emitter import Emitter
from ..operation import Operation
from ..registry import models, wraps


class WeakReference(Value):
    """A weakref.ref. `referent` is the object's value, of a reference made in the frame."""

    __slots__ = ("real", "referent")
    cls = weakref.ReferenceType

    def __init__(
        self,
        real: weakref.ReferenceType[Any],
        source: Source | None,
        referent: Value | None = None,
    ) -> None:
        super().__init__(source)
        self.real, self.referent = real, referent

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        if args or kwargs:
            return super().call(tx, args, kwargs)
        referent = self.real()
        if referent is not None and tx.objects.may_be_gone(referent):
            raise self.unsupported_use("called where its object may be gone")
        if self.referent is not None:
            return self.referent
        return tx.wrap(referent, Referent(self.known_source))

    def reconstruct(self, emit: Emitter) -> None:
        assert self.referent is not None
        emit.call(weakref.ref, [self.referent])

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """Compares the referents, while both are alive."""
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


@models(weakref.ref)
def new_reference(tx: TraceContext, obj: Value) -> Value:
    """weakref.ref(obj), which is one object for each referent as long as it lives."""
    real = None if obj.source is None else tx.objects.real_object(obj)
    if real is None or isinstance(real, torch.Tensor) or tx.objects.may_be_gone(real):
        raise GraphBreak("unknown-call", f"weakref.ref() of {obj.describe()}")
    try:
        made = weakref.ref(real)
    except TypeError as error:
        raise tx.exceptions.new(TypeError, *error.args) from None
    known = tx.objects.find(made)
    return known or tx.objects.remember(made, WeakReference(made, None, obj))
