"""functools.cmp_to_key(function), and the keys that it makes, which a function of two objects
compares."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..base import Value

if TYPE_CHECKING:
    from ..context import TraceContext

KEY = functools.cmp_to_key(lambda a, b: 0)


class KeyMaker(Value):
    """What functools.cmp_to_key returns."""

    __slots__ = ("function",)

    def __init__(self, function: Value) -> None:
        super().__init__()
        self.function = function

    def python_type(self) -> type:
        return type(KEY)

    def truth(self, tx: TraceContext) -> bool:
        return True

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            return super().call(tx, args, kwargs)
        return ComparisonKey(self.function, args[0])


class ComparisonKey(Value):
    """The key of one object."""

    __slots__ = ("function", "of")

    def __init__(self, function: Value, of: Value) -> None:
        super().__init__()
        self.function, self.of = function, of

    def python_type(self) -> type:
        return type(KEY(0))
