"""UnservedCall: a call that asks for an entry."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from ...guards.source import FrameView
from ._hook import Site
from .compile_unit import CompileUnit


@dataclass(frozen=True)
class UnservedCall:
    """A call of a site that no entry serves. calls: how often the handle has been called so
    far."""

    site: Site
    function: types.FunctionType
    slots: tuple[Any, ...]
    calls: int

    @property
    def unit(self) -> CompileUnit:
        unit: CompileUnit = self.site.data
        return unit

    @property
    def frame(self) -> FrameView:
        return FrameView(self.slots, self.function)
