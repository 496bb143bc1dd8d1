"""Regular expressions and their matches. Both are immutable: what they give for literals is
calculated while tracing."""

from __future__ import annotations

import re
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Args, Kwargs, Value
from ..constant import fold
from ..context import TraceContext
from ..registry import wraps
from .frozen_object import FrozenObject
from .user_object import wrap_object

# those whose results are text, numbers, matches or tuples of text
PURE = frozenset("match fullmatch search sub subn group groups start end span expand".split())
READ = frozenset("pattern flags groups string pos endpos lastindex lastgroup re".split())
TEXT = (str, bytes, int)


class RegularExpression(FrozenObject):
    """A re.Pattern or a re.Match."""

    __slots__ = ()

    def attribute(self, tx: TraceContext, name: str) -> Value:
        found = getattr(self.real, name, None)
        if name in PURE and callable(found):
            return PureMethod(found)
        if name in READ and not callable(found):
            return tx.wrap(found, None)
        raise self.unsupported_use(f"attribute {name}")


class PureMethod(FrozenObject):
    """A bound method of a pattern or a match."""

    __slots__ = ()

    def describe(self) -> str:
        return f"{type(self.real.__self__).__name__}.{self.real.__name__}"

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        given = [*args, *kwargs.values()]
        if any(arg.python_type() not in TEXT or arg.varies() for arg in given):
            raise GraphBreak("unknown-call", self.describe())
        return fold(tx, self.real, args, kwargs)


@wraps(re.Pattern)
def wrap_pattern(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    tx.guards.add(source, Kind.IS, obj)
    return RegularExpression(obj)


@wraps(re.Match)
def wrap_match(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    """A match from before the frame will be another one in the next call."""
    return RegularExpression(obj) if source is None else wrap_object(tx, obj, source)
