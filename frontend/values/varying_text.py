"""Texts that the program was given and that vary between calls: names, tags, messages.

Such a text seldom decides which operations run. Code that formats, stores or passes it on relies on
its type only; where tracing needs the text itself, it is specialised.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...guards.guard import Kind
from ...guards.source import CalculatedNumber, Source
from .base import Args, Kwargs, Value
from .constant import Constant, ConstantMethod, GivenLiteral, wrap_literal
from .context import TraceContext
from .operation import Operation
from .registry import wraps

PREDICATES = ("startswith", "endswith")


class VaryingText(GivenLiteral):
    """An existing str."""

    __slots__ = ()

    # questions whose answers are guarded, not the text

    def _answer(self, function: Callable[..., Any], *literals: Any) -> Any:
        path = CalculatedNumber(self.known_source, function, (), literals)
        answer = function(self.now, *literals)
        self.guards.add(path, Kind.EQUALS, answer)
        return answer

    def truth(self, tx: TraceContext) -> bool:
        return bool(self._answer(bool))

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if not (op.is_equality and isinstance(other, Constant) and type(other.object) is str):
            return None
        return Constant(self._answer(op.function, other.object))

    def compare_reflected(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        return self.compare(tx, op, other) if op.is_equality else None

    def contains(self, tx: TraceContext, item: Value) -> Value:
        if not (isinstance(item, Constant) and type(item.object) is str):
            return super().contains(tx, item)
        return Constant(self._answer(operator.contains, item.object))

    def attribute(self, tx: TraceContext, name: str) -> Value:
        return ConstantMethod(self, name) if name in PREDICATES else super().attribute(tx, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        known = all(isinstance(arg, Constant) and type(arg.object) is str for arg in args)
        if name in PREDICATES and len(args) == 1 and known and not kwargs:
            return Constant(self._answer(getattr(str, name), args[0].constant()))
        return super().method(tx, name, args, kwargs)


@wraps(str)
def wrap_text(tx: TraceContext, obj: str, source: Source | None) -> Value:
    if source is None or not tx.symbols.text_varies(source, obj):
        return wrap_literal(tx, obj, source)
    tx.guards.add(source, Kind.TYPE, str)
    return VaryingText(obj, source, tx.guards)
