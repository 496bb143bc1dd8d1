"""operator.itemgetter, attrgetter and methodcaller."""

from __future__ import annotations

import functools
import operator
from typing import Any

from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Value
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import IdentityKey
from ..registry import wraps


class GetterValue(Value):
    """cls(*args, **kwargs) of one of the three."""

    __slots__ = ("cls", "args", "kwargs")

    def __init__(
        self, cls: type, args: list[Value], kwargs: dict[str, Value], source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.cls, self.args, self.kwargs = cls, args, kwargs

    def key(self, tx: TraceContext) -> Any:
        return IdentityKey(self)

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            raise tx.exceptions.new(
                TypeError, f"{self.cls.__name__} expected 1 argument, got {len(args)}"
            )
        if self.cls is operator.methodcaller:
            if args[0].is_constant():
                return (
                    args[0]
                    .attribute(tx, self.args[0].constant())
                    .call(tx, self.args[1:], self.kwargs)
                )
            return args[0].method(tx, self.args[0].constant(), self.args[1:], self.kwargs)
        get = item if self.cls is operator.itemgetter else attribute
        found = [get(tx, args[0], key) for key in self.args]
        return found[0] if len(found) == 1 else tx.make.tuple_of(found)

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(self.cls, [*self.args, *self.kwargs.values()], tuple(self.kwargs))


def item(tx: TraceContext, obj: Value, key: Value) -> Value:
    return obj.item(tx, key)


def attribute(tx: TraceContext, obj: Value, path: Value) -> Value:
    """Follows a path of names joined by dots."""
    for name in path.constant().split("."):
        obj = obj.attribute(tx, name)
    return obj


@wraps(operator.itemgetter, operator.attrgetter, operator.methodcaller)
def wrap_getter(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    tx.guards.add(source, Kind.IS, obj)
    cls, arguments = obj.__reduce__()
    named: dict[str, Any] = {}
    if isinstance(cls, functools.partial):
        cls, arguments, named = type(obj), cls.args, cls.keywords
    return GetterValue(
        cls,
        [tx.wrap(a, None) for a in arguments],
        {k: tx.wrap(v, None) for k, v in named.items()},
        source,
    )
