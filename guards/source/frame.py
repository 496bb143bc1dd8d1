"""Roots: what a frame has, and cells."""

from __future__ import annotations

import sys
from types import CellType
from typing import Any

from ..encoded import Encoded
from ..native import UNBOUND
from .path import FrameView, PathEnds, Source, path


@path
class SlotSource(Source):
    """The object in an argument slot of the frame. A continuation has one slot, 0, with its state
    tuple."""

    cost = 1
    written = "{0.label}"
    index: int
    label: str

    def read(self, of: FrameView) -> Any:
        if not 0 <= self.index < len(of.slots) or of.slots[self.index] is UNBOUND:
            raise PathEnds(self.name)
        return of.slots[self.index]

    def encode(self) -> Encoded:
        return Encoded("SLOT", number=self.index)


@path
class ClosureSource(Source):
    """Cell number `index` of the closure of the frame's function: the cell, not its contents."""

    cost = 1
    written = "<cell {0.label}>"
    index: int
    label: str

    def read(self, of: FrameView) -> CellType:
        return (of.function.__closure__ or ())[self.index]

    def encode(self) -> Encoded:
        return Encoded("CLOSURE", number=self.index)


@path
class GlobalsSource(Source):
    """The globals dictionary of the frame's function."""

    cost = 1
    written = "globals()"
    operation = "GLOBALS"

    def read(self, of: FrameView) -> dict[Any, Any]:
        return of.function.__globals__


@path
class BuiltinsSource(Source):
    """The builtins dictionary of the frame's function."""

    cost = 1
    written = "builtins"
    operation = "BUILTINS"

    def read(self, of: FrameView) -> dict[Any, Any]:
        function: Any = of.function
        return function.__builtins__


@path
class ModuleSource(Source):
    """sys.modules[module], looked up when the program is built, not at every call."""

    cost = 1
    written = "{0.module}"
    module: str

    def read(self, of: FrameView) -> Any:
        return sys.modules[self.module]

    def encode(self) -> Encoded:
        return Encoded("CONSTANT", sys.modules[self.module])


@path
class CellContents(Source):
    """The contents of the cell `of`."""

    cost = 1
    operation = "CELL"
    of: Source

    @property
    def name(self) -> str:
        if isinstance(self.of, ClosureSource):
            return self.of.label
        return f"{self.of.name}.cell_contents"

    def read(self, of: CellType) -> Any:
        if type(of) is not CellType:
            raise PathEnds(self.name)
        return of.cell_contents
