"""Iterators over dictionaries and their views."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ....guards.iterators import advance
from ..base import CannotReconstruct, Value
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import Iterator
from .dict_contents import DictContents
from .sequence import TupleValue


class DictIterator(Iterator):
    """An iterator over a dictionary, forward or reversed. Values are read when they are needed; a
    change of the dictionary's size is an error."""

    __slots__ = ("of", "what", "start", "keys", "index", "deletions", "created_at")
    state = ("index",)

    def __init__(
        self, of: DictContents, what: str, tx: TraceContext, start: Callable[[Any], Any] = iter
    ) -> None:
        super().__init__()
        self.of = of
        self.what = what
        self.start = start
        self.keys = list(start(of.all_entries(tx)))
        self.index = 0
        self.deletions, self.created_at = of.deletions, tx.frames.break_position()

    def python_type(self) -> type:
        made: dict[Any, Any] = OrderedDict() if self.of.cls is OrderedDict else {}
        return type(self.start(getattr(made, self.what)()))

    def rest(self, tx: TraceContext) -> list[Value]:
        """The items that are left, if nothing changes."""
        return [self._item(tx, key) for key in self.keys[self.index :]]

    def _item(self, tx: TraceContext, hashed: Any) -> Value:
        key, value = self.of.all_entries(tx)[hashed]
        if self.what == "keys":
            return key
        value = tx.look(value)
        return value if self.what == "values" else TupleValue([key, value])

    def next(self, tx: TraceContext) -> Value | None:
        """The next item. Raises RuntimeError where Python does: the dictionary has another size
        than when the iterator was made. Breaks where keys have changed otherwise."""
        now = self.of.all_entries(tx)
        if self.index > len(self.keys):
            return None
        if len(now) != len(self.keys):
            text = (
                "OrderedDict mutated" if self.of.cls is OrderedDict else "dictionary changed size"
            )
            raise tx.exceptions.new(RuntimeError, f"{text} during iteration")
        if list(self.start(now)) != self.keys or self.of.deletions != self.deletions:
            raise self.unsupported_use("next() after keys have changed")
        tx.effects.change(self)
        if self.index == len(self.keys):
            self.index += 1
            return None
        self.index += 1
        return self._item(tx, self.keys[self.index - 1])

    def reconstruct(self, emit: Emitter) -> None:
        if (
            self.index > len(self.keys)
            or list(self.start(self.of.entries or {})) != self.keys
            or self.deletions != self.of.deletions
        ):
            raise CannotReconstruct(self)
        view = getattr(self.of.cls, self.what)
        emit.call(self.start, [lambda: emit.call(view, [self.of])])
        emit.run_on_top(advance, self.index, False)
