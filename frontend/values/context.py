"""TraceContext: all that values know of the capture they live in."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...guards.guard import Kind
from ...guards.source import Source
from .base import Value

if TYPE_CHECKING:
    from ...options import Options
    from ..interpret.effects import EffectLog
    from ..interpret.graph import GraphBuilder


class TraceContext(Protocol):
    """One capture, as values see it."""

    options: Options
    graph: GraphBuilder
    effects: EffectLog

    def guard(self, source: Source | None, kind: Kind, expected: Any) -> None:
        """Relies on a fact about what lies at `source` (nothing to rely on when it is None)."""

    def wrap(self, obj: Any, source: Source | None) -> Value:
        """The value of an object: guarded when it has a source, a literal of the program when it has none."""

    def look(self, value: Value) -> Value:
        """The value itself, or what a Lazy stands for."""

    def same(self, left: Value, right: Value) -> bool:
        """`left is right`, relied on either way."""

    def inline(self, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Interprets a call of a FunctionValue."""

    def throw(self, cls: type[BaseException], *args: Any) -> Exception:
        """The exception to raise when the traced program raises `cls(*args)`."""

    def remember(self, obj: Any, value: Value) -> Value:
        """Ties a mutable object to its value, so that every path to it meets the same one."""
