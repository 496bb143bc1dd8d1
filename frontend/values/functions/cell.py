"""Closure cells."""

from __future__ import annotations

import types

from ....guards.guard import Kind
from ....guards.source import CellContents, Source
from ..base import CannotReconstruct, LazyValue, Value
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..mutable import Mutable
from ..registry import wraps


class CellValue(Mutable):
    """A closure cell. `contents` is None while unbound, LazyValue until it is realised."""

    __slots__ = ("contents", "real", "slot")
    state = ("contents",)
    cls = types.CellType

    def __init__(
        self,
        contents: Value | None,
        source: Source | None = None,
        real: types.CellType | None = None,
    ) -> None:
        super().__init__(source)
        self.contents, self.real = contents, real
        self.slot: int | None = None  # the frame's own slot, for a cell that the root frame makes

    def get(self, tx: TraceContext) -> Value | None:
        if type(self.contents) is LazyValue:
            tx.effects.read(self)
            self.contents = tx.look(self.contents)
        return self.contents

    def set(self, tx: TraceContext, value: Value | None) -> None:
        tx.effects.change(self)
        self.contents = value

    def reconstruct(self, emit: Emitter) -> None:
        if self.slot is not None:
            emit.builder.load_cell(self.slot)
            return
        emit.call(types.CellType, [])
        emit.keep(self)  # before its contents, which may be a function that closes over it
        if self.contents is not None:
            emit.store_on_top("cell_contents", self.contents)

    def is_real(self) -> bool:
        return self.source is not None or self.slot is not None

    def stored_items(self) -> list[tuple[Source, Value]]:
        if self.source is None or self.contents is None:
            return []
        return [(CellContents(self.source), self.contents)]

    def emit_changes(self, emit: Emitter) -> None:
        if self.slot is None:
            self._emit_contents(emit)
        elif self.contents is None:  # storing first: deleting does not take a cell that is unbound
            emit.builder.load_const(None)
            emit.builder.store_deref(self.slot)
            emit.builder.delete_deref(self.slot)
        else:
            emit.push(self.contents)
            emit.builder.store_deref(self.slot)

    def _emit_contents(self, emit: Emitter) -> None:
        if self.contents is None:
            raise CannotReconstruct(Constant(None))
        emit.push(self.contents)
        emit.push(self)
        emit.builder.store_attr("cell_contents")


def existing_cell(tx: TraceContext, real: types.CellType, source: Source | None) -> CellValue:
    """The value of a cell that existed before the frame. All functions that close over it share the
    value."""
    known = tx.objects.find(real)
    if known is not None:
        guard_same_object(tx, known, source)
        return known
    try:
        contents: Value | None = LazyValue(real.cell_contents, source and CellContents(source))
    except ValueError:
        contents = None
    return tx.objects.remember(real, CellValue(contents, source, real))


def guard_same_object(tx: TraceContext, known: Value, source: Source | None) -> None:
    """Guards that a second path leads to the same object as the first."""
    if source is not None and known.source is not None and known.source != source:
        tx.guards.add(source, Kind.SAME, known.source)


@wraps(types.CellType)
def wrap_cell(tx: TraceContext, obj: types.CellType, source: Source | None) -> Value:
    return existing_cell(tx, obj, source)
