"""Iterators over lists and tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....guards.source import Source
from ..base import Value
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import Iterator, set_index

if TYPE_CHECKING:
    from .sequence import Sequence


class SequenceIterator(Iterator):
    """iter() or reversed() of a list or tuple. Reads the current items of the sequence, as CPython
    does."""

    __slots__ = ("sequence", "index", "step")
    state = ("index",)

    def __init__(
        self, sequence: Sequence, index: int = 0, step: int = 1, source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.sequence, self.index, self.step = sequence, index, step

    def python_type(self) -> type:
        empty: Any = [] if issubclass(self.sequence.cls, list) else ()
        return type(iter(empty)) if self.step == 1 else type(reversed(empty))

    def next(self, tx: TraceContext) -> Value | None:
        if not 0 <= self.index < len(self.sequence.items):
            if self.index >= 0:  # from now on it is exhausted, whatever the sequence gets
                tx.effects.change(self)
                self.index = -1
            return None
        tx.effects.change(self)
        item = self.sequence.at(tx, self.index)
        self.index += self.step
        return item

    def reconstruct(self, emit: Emitter) -> None:
        if self.step != 1:
            emit.call(reversed, [self.sequence])
        else:
            if self.index >= 0:
                emit.push(self.sequence)
            elif self.sequence.cls is tuple:
                emit.builder.load_const(())
            else:
                emit.builder.build_list(0)
            emit.builder.get_iter()
        self.move_to_index(emit)

    def move_to_index(self, emit: Emitter) -> None:
        """Emits code that moves the new iterator on top of the stack to where this one is."""
        emit.run_on_top(set_index, self.index)
