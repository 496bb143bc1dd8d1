"""The log of what the traced program changed: which values, in which order, and how to take changes back.

A capture proceeds in epochs, one a statement-sized step of the root frame. A break restores the values changed in its
epoch; nothing is ever copied twice in one.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.fx

from ..values.base import Value
from ..values.mutable import Mutable
from ..values.output import Output

Namespace = dict[str, Any] | type


@dataclass(frozen=True)
class Expectation:
    """A tensor that has to be true, or nothing has happened and the frame starts over; `place`: where a break could be made instead."""

    fact: torch.fx.Node
    place: int


class EffectLog:
    """Changes of one capture. `changed` holds the values changed so far, in the order of their first change."""

    def __init__(self) -> None:
        self.epoch = 1
        self.changed: dict[Mutable, None] = {}
        self.globals: dict[tuple[int, str], tuple[Namespace, Value | None]] = {}  # (id, name): (namespace or class, value or deleted)
        self.outputs: list[Output] = []
        self._kept_outputs = 0  # of those, how many will not be taken back
        self.expected: list[Expectation] = []
        self._kept_expected = 0
        self._saved: list[tuple[Mutable, int, Any]] = []
        self._saved_globals: dict[tuple[int, str], tuple[Namespace, Value | None]] | None = None

    def change(self, value: Mutable) -> None:
        """To be called before a change of `value`'s state."""
        if value.epoch != self.epoch:
            self._saved.append((value, value.epoch, value.snapshot()))
            value.epoch = self.epoch
            self.changed.setdefault(value, None)

    def set_global(self, where: Namespace, name: str, value: Value | None) -> None:
        """A global variable, or an attribute of a class, is bound, or deleted (None)."""
        if self._saved_globals is None:
            self._saved_globals = dict(self.globals)
        self.globals[id(where), name] = (where, value)

    def output(self, output: Output) -> None:
        """The program tells the outside world something."""
        self.outputs.append(output)

    def expect(self, fact: torch.fx.Node, place: int) -> None:
        """What follows holds only if a tensor that the graph makes is true."""
        self.expected.append(Expectation(fact, place))

    def next_epoch(self) -> None:
        """What has happened so far will not be taken back."""
        self._kept_outputs = len(self.outputs)
        self._kept_expected = len(self.expected)
        if self._saved or self._saved_globals is not None:
            self.epoch += 1
            self._saved.clear()
            self._saved_globals = None

    def rollback(self) -> None:
        """Takes back the changes of this epoch."""
        del self.outputs[self._kept_outputs :]
        del self.expected[self._kept_expected :]
        for value, epoch, state in reversed(self._saved):
            value.restore(state)
            value.epoch = epoch
            if epoch == 0:
                self.changed.pop(value, None)
        self._saved.clear()
        if self._saved_globals is not None:
            self.globals, self._saved_globals = self._saved_globals, None
