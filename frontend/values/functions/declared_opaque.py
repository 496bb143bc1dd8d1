"""framejit.opaque: functions that graphs call as they are."""

from __future__ import annotations

from typing import Any

from ....backends.graph.opaque_call import OpaqueCall, OpaqueNode
from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Args, Kwargs, Value
from ..context import TraceContext
from ..emitter import Emitter
from ..registry import wraps


class DeclaredOpaque(Value):
    """What framejit.opaque returned; a call of it is one node."""

    __slots__ = ("real",)
    cls = OpaqueCall

    def __init__(self, real: OpaqueCall, source: Source | None) -> None:
        super().__init__(source)
        self.real = real

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        return tx.graph.function(OpaqueNode(self.real), *args, **kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_literal(self.real)


@wraps(OpaqueCall)
def wrap_opaque(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is not None:
        tx.guards.add(source, Kind.IS, obj)
    return tx.objects.remember(obj, DeclaredOpaque(obj, source))
