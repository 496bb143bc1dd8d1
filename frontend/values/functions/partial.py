"""functools.partial."""

from __future__ import annotations

import functools
from typing import Any

from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, SequenceItem, Source
from ..base import Args, Kwargs, LazyValue, PendingCall, Value, require_path
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..mutable import Mutable
from ..registry import wraps


class PartialValue(Mutable):
    """functools.partial."""

    __slots__ = ("function", "args", "kwargs", "attributes")
    state = ("attributes",)
    cls = functools.partial

    def __init__(
        self,
        function: Value,
        args: list[Value],
        kwargs: dict[str, Value],
        source: Source | None = None,
    ) -> None:
        super().__init__(source)
        self.function, self.args, self.kwargs = function, args, kwargs
        self.attributes: dict[str, Value] = {}  # of one made inside

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if self.source is not None:
            super().set_attribute(tx, name, value)
        tx.effects.change(self)
        self.attributes[name] = value

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "func":
            return self.function
        if name == "args":
            return tx.make.tuple_of(self.args)
        if name == "keywords":
            return tx.make.dict_of([(Constant(k), v) for k, v in self.kwargs.items()])
        if name in self.attributes:
            return self.attributes[name]
        return super().attribute(tx, name)

    def tail_call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> PendingCall:
        named = {**{k: tx.look(v) for k, v in self.kwargs.items()}, **kwargs}
        return PendingCall(self.function, [tx.look(a) for a in self.args] + args, named)

    def reconstruct(self, emit: Emitter) -> None:
        arguments = [self.function, *self.args, *self.kwargs.values()]
        emit.call(functools.partial, arguments, tuple(self.kwargs))
        emit.give_attributes(self, self.attributes)


@wraps(functools.partial)
def wrap_partial(tx: TraceContext, obj: functools.partial[Any], source: Source | None) -> Value:
    source = require_path(obj, source, "functools.partial")
    tx.guards.add(source, Kind.TYPE, functools.partial)
    args = AttrSource(source, "args")
    tx.guards.add(args, Kind.LENGTH, len(obj.args))
    keywords = AttrSource(source, "keywords")
    tx.guards.add(keywords, Kind.KEYS, tuple(obj.keywords))
    return PartialValue(
        tx.wrap(obj.func, AttrSource(source, "func")),
        [LazyValue(arg, SequenceItem(args, i)) for i, arg in enumerate(obj.args)],
        {name: LazyValue(value, DictItem(keywords, name)) for name, value in obj.keywords.items()},
        source,
    )
