"""Slices."""

from __future__ import annotations

from typing import Any

from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Args, Kwargs, Value
from ..constant import fold
from ..context import TraceContext
from ..emitter import Emitter
from ..operation import Operation
from ..registry import wraps
from .builtin_container import BoundBuiltin


class SliceValue(Value):
    """slice(start, stop, step)."""

    __slots__ = ("parts",)
    cls = slice

    def __init__(self, parts: list[Value], source: Source | None = None) -> None:
        super().__init__(source)
        self.parts = parts

    def is_constant(self) -> bool:
        return all(part.is_constant() for part in self.parts)

    def constant(self) -> Any:
        return slice(*(part.constant() for part in self.parts))

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        pairs = [tx.graph.argument(part) for part in self.parts]
        return slice(*(node for node, _ in pairs)), slice(*(fake for _, fake in pairs))

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return tx.look(self.parts[("start", "stop", "step").index(name)])
        if name == "indices":
            return BoundBuiltin(self, name)
        return super().attribute(tx, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if name == "indices" and self.is_constant():
            return fold(tx, self.constant().indices, args, kwargs)
        return super().method(tx, name, args, kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_all(self.parts)
        emit.builder.build_slice(3)

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        raise self.unsupported_use(f"{op.sign} of slices")


@wraps(slice)
def wrap_slice(tx: TraceContext, obj: slice, source: Source | None) -> Value:
    tx.guards.add(source, Kind.TYPE, slice)
    return SliceValue(
        [
            tx.wrap(getattr(obj, n), source and AttrSource(source, n))
            for n in ("start", "stop", "step")
        ],
        source,
    )
