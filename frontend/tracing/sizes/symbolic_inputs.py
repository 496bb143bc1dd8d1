"""SymbolicInputs: decides which numbers of the program become symbols, and holds the symbols."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ....clock import Clock
from ....guards.source import SequenceItem, Source
from ....options import Options
from ...values.base import Value
from ...values.tensor.symbolic_number import can_be_symbol
from ..fake_tensors.fake_execution import CaptureFakeMode
from .variation import Variation

if TYPE_CHECKING:
    from ..interpreter.frame_stack import FrameStack
    from .shapes import Shapes

SPECIALISED_VALUES = 2  # of a number, after the first, for which code is compiled


class SymbolicInputs:
    """One symbol per path. `numbers`: every int and float that the program was given, symbolic or
    not."""

    def __init__(
        self,
        options: Options,
        clock: Clock,
        fake_mode: CaptureFakeMode,
        variation: Variation,
        frames: FrameStack,
    ) -> None:
        self.options, self.clock, self.fake_mode, self._frames = options, clock, fake_mode, frames
        self.variation = variation
        self.numbers: dict[Source, Any] = {}
        self._inputs: dict[Source, Value] = {}
        self._shapes: Shapes | None = None

    @property
    def exist(self) -> bool:
        """Whether there is any symbol so far."""
        return self._shapes is not None

    @property
    def shapes(self) -> Shapes:
        """The symbols of this capture; their module is loaded by the first capture that has any."""
        return self._shapes or self.load()

    def load(self) -> Shapes:
        """Makes the symbols of this capture, if it has none yet."""
        if self._shapes is not None:
            return self._shapes
        with self.clock.phase("imports"):
            module = importlib.import_module(".shapes", __package__)
        self._shapes = module.Shapes(
            self.options, self.fake_mode, self._frames.where, self.stays_open
        )
        return self._shapes

    def stays_open(self, source: Source) -> bool:
        """Whether a number has taken so many values that code for one more would serve few calls:
        what needs its value is left to Python."""
        varied = self.variation
        many = varied.takes_many(source) or varied.changes(source) >= SPECIALISED_VALUES
        return many and self._frames.can_break and not self.options.fullgraph

    def is_symbolic(self, source: Source, number: int | float) -> bool:
        """Whether a number that the program is given is to be a symbol."""
        options = self.options
        self.numbers[source] = number
        specialized = options.specialize_int if type(number) is int else options.specialize_float
        if (
            specialized
            or not can_be_symbol(number)
            or options.dynamic is False
            or not options.automatic_dynamic_shapes
        ):
            return False
        return self.variation.varies(source, number)

    def text_varies(self, source: Source, text: str) -> bool:
        """Whether a text that the program is given was another one in an earlier call."""
        self.numbers[source] = text
        adapts = self.options.dynamic is not False and self.options.automatic_dynamic_shapes
        return adapts and self.variation.varies(source, text)

    def tuple_varies(self, source: Source, items: tuple[Any, ...]) -> bool:
        """Whether a tuple of literals had other numbers in an earlier call. The numbers that
        differ are expected to differ from now on."""
        if not any(type(item) in (int, float) for item in items):
            return False
        known = self.variation.numbers.get(source, items)
        self.numbers[source] = items
        if not self.variation.varies(source, items):
            return False
        if type(known) is tuple and len(known) == len(items):
            for index, (old, new) in enumerate(zip(known, items, strict=True)):
                if type(old) is type(new) and type(new) in (int, float) and old != new:
                    self.variation.expect_number(SequenceItem(source, index))
        return True

    def input(self, number: int | float, source: Source) -> Value:
        """The symbol of the number at a path."""
        if source not in self._inputs:
            self._inputs[source] = self.shapes.input(number, source)
        return self._inputs[source]
