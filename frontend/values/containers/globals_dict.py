"""A dictionary of global variables as an object: the result of `globals()` and `vars(module)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import DictItem, Source
from ..base import Lazy, Value
from ..constant import Constant
from ..registry import wraps
from .mapping import DictValue, wrap_dict

if TYPE_CHECKING:
    from ..context import TraceContext
    from ..emitter import Emitter


def holds_globals(obj: dict[Any, Any]) -> bool:
    """Whether a dictionary belongs to a module, or code was run in it."""
    return "__builtins__" in obj or ("__spec__" in obj and "__loader__" in obj)


class GlobalsDict(DictValue):
    """A dictionary whose items are variables. Functions and attributes of the module read and write
    the same variables."""

    __slots__ = ()

    def __init__(self, real: dict[Any, Any], source: Source) -> None:
        super().__init__(None, source, real)

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        pass

    def _stored_here(self, tx: TraceContext) -> dict[str, Value | None]:
        """The variables that this frame bound or deleted (None), in the order of the first time."""
        return {
            name: value
            for (where, name), (_, value) in tx.effects.globals.items()
            if where == id(self.real)
        }

    def _name(self, key: Value) -> str:
        name = key.constant()
        if type(name) is not str:
            raise self.unsupported("a key that is no string")
        return name

    def whole(self, tx: TraceContext) -> dict[Any, tuple[Value, Value]]:
        assert self.real is not None
        if not all(type(name) is str for name in self.real):
            raise self.unsupported("a key that is no string")
        tx.guards.add(self.source, Kind.KEYS, tuple(self.real))
        self.entries = {}
        for name, obj in self.real.items():
            self.entries[name] = (
                Constant(name),
                self.seen.get(name) or Lazy(obj, DictItem(self.known_source, name)),
            )
        for name, value in self._stored_here(tx).items():
            if value is None:
                raise self.unsupported("all of its items, some of which are deleted")
            self.entries[name] = (Constant(name), value)
        return self.entries

    def get(self, tx: TraceContext, key: Value) -> Value | None:
        name, stored = self._name(key), self._stored_here(tx)
        if name in stored:
            return stored[name]
        self.entries = None
        return super().get(tx, key)

    def put(self, tx: TraceContext, key: Value, value: Value) -> None:
        assert self.real is not None
        tx.effects.set_global(self.real, self._name(key), value)

    def drop(self, tx: TraceContext, key: Value) -> Value | None:
        value = self.get(tx, key)
        assert self.real is not None
        if value is not None:
            tx.guards.add(self.source, Kind.PRESENT, self._name(key))
            tx.effects.set_global(self.real, self._name(key), None)
            self.deletions += 1
        return value

    def clear(self, tx: TraceContext) -> None:
        raise GraphBreak("unsupported-mutation", "of all global variables")

    def length(self, tx: TraceContext) -> Value:
        return Constant(len(self.whole(tx)))

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return Constant(self.get(tx, item) is not None)

    def emit_changes(self, emit: Emitter) -> None:
        """Does nothing: its stores are logged as those of global variables."""


@wraps(dict)
def wrap_plain_dict(tx: TraceContext, obj: dict[Any, Any], source: Source | None) -> Value:
    if source is not None and holds_globals(obj):
        return wrap_globals(tx, obj, source)
    return wrap_dict(tx, obj, source)


def wrap_globals(tx: TraceContext, obj: dict[Any, Any], source: Source) -> Value:
    path = tx.objects.globals_path(obj)
    if path is None:
        raise GraphBreak("unsupported-value", "global variables that no path leads to")
    if source != path:
        tx.guards.add(source, Kind.SAME, path)
    return tx.objects.remember(obj, GlobalsDict(obj, path))
