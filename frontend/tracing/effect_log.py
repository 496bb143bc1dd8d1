"""The log of what the traced program changed: which values, in which order, and how to undo
changes.

A capture proceeds in epochs, one a statement-sized step of the root frame. A break restores the
values changed in its epoch; no value is copied twice in one epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch.fx

from ...errors import GraphBreak
from ...records import record
from ..pycode.code_place import CodePlace
from ..values.base import Value
from ..values.context import Namespace
from ..values.mutable import Mutable
from ..values.random_state import RandomState


@record
class ProgramOutput:
    """function(*args), to be called once, after the graph has run. `position`: where a break before
    it would be made (tracing/interpreter/outcome.py). `listed`: whether the output may be appended
    to a list of the program's."""

    function: Callable[..., None]
    args: tuple[Value, ...]
    position: int
    listed: bool


@record
class Expectation:
    """A tensor that has to be true; if it is not, the frame starts over in eager before anything
    has happened. `position`: where a break could be made instead. `branch`: the branch that is left
    to Python once the expectation has failed, if there is one. `stop`: the reason of that break."""

    fact: torch.fx.Node
    position: int
    branch: CodePlace | None = None
    stop: GraphBreak | None = None


class SavedState(NamedTuple):
    """The state of a value before its first change, or look at its parts, in an epoch."""

    value: Mutable
    epoch: int  # of the value's state before that one
    state: Any
    was_changed: bool  # in an earlier epoch


def was_there(value: Mutable) -> bool:
    """Whether a value stands for an object that existed before the frame."""
    return (
        value.source is not None
        or getattr(value, "real", None) is not None
        or isinstance(value, RandomState)
    )


class EffectLog:
    """Changes of one capture. `changed` holds the values changed so far, in the order of their
    first change."""

    def __init__(self) -> None:
        self.epoch = 1
        self.version = 0  # grows with each change that a rollback would have to undo
        self.changes_of_existing = 0  # how often an object from before the frame was changed
        self.changed: dict[Mutable, None] = {}
        # (id, name): (namespace or class, value)
        self.globals: dict[tuple[int, str], tuple[Namespace, Value]] = {}
        self.outputs: list[ProgramOutput] = []
        self._kept_outputs = 0  # of those, how many will not be taken back
        self.expected: list[Expectation] = []
        self._kept_expected = 0
        self._saved: list[SavedState] = []
        self._saved_globals: dict[tuple[int, str], tuple[Namespace, Value]] | None = None

    def change(self, value: Mutable) -> None:
        """Saves a value's state. To be called before the state is changed."""
        self.changes_of_existing += was_there(value)
        self._save(value)
        self.changed.setdefault(value, None)

    def read(self, value: Mutable) -> None:
        """Saves a value's state before it looks at one of its parts for the first time. A break
        removes the guards of that look, so it has to undo the look as well; not where generated
        code loads the whole value by its path."""
        if value.source is None or value in self.changed:
            self._save(value)

    def _save(self, value: Mutable) -> None:
        if value.epoch != self.epoch:
            state = value.snapshot()
            self._saved.append(SavedState(value, value.epoch, state, value in self.changed))
            value.epoch = self.epoch
        self.version += 1

    def may_be_seen(self) -> bool:
        """Whether a function that runs now, before side effects are applied, could see a change
        that the program has made."""
        return bool(self.globals) or any(map(was_there, self.changed))

    @contextmanager
    def allow_new_objects_only(self, stop: GraphBreak, output: bool = False) -> Generator[None]:
        """Raises this break at the end of the context if the program has changed anything but
        objects that it made itself, or has written output where that is not allowed."""
        self.epoch += 1
        saved = len(self._saved)
        globals_ = {where: id(value) for where, (_, value) in self.globals.items()}
        outputs, expected = len(self.outputs), len(self.expected)
        yield
        changed = any(
            item.value in self.changed and (item.epoch > 0 or was_there(item.value))
            for item in self._saved[saved:]
        )
        set_ = globals_ != {where: id(value) for where, (_, value) in self.globals.items()}
        written = len(self.outputs) > outputs and not output
        if changed or set_ or written or len(self.expected) > expected:
            raise stop

    def set_global(self, where: Namespace, name: str, value: Value) -> None:
        """Binds a global variable or an attribute of a class."""
        self.changes_of_existing += 1
        self.version += 1
        if self._saved_globals is None:
            self._saved_globals = dict(self.globals)
        self.globals[id(where), name] = (where, value)

    def output(
        self,
        function: Callable[..., None],
        args: tuple[Value, ...],
        position: int,
        listed: bool = False,
    ) -> None:
        """Records output of the program (see ProgramOutput)."""
        self.version += 1
        self.outputs.append(ProgramOutput(function, args, position, listed))

    def take_outputs(self, since: int) -> bool:
        """Removes the output that is recorded after the first `since`; whether there is any."""
        taken = len(self.outputs) > since
        del self.outputs[since:]
        return taken

    def expect(
        self,
        fact: torch.fx.Node,
        position: int,
        branch: CodePlace | None = None,
        stop: GraphBreak | None = None,
    ) -> None:
        """Records that the following capture holds only if a tensor in the graph is true."""
        self.version += 1
        self.expected.append(Expectation(fact, position, branch, stop))

    def release_objects(self) -> None:
        """Drops the program's objects."""
        self.changed.clear()
        self.outputs.clear()
        self.expected.clear()
        self.globals.clear()
        self._saved.clear()

    def next_epoch(self) -> None:
        """Begins an epoch: a rollback no longer undoes the changes so far."""
        self._kept_outputs = len(self.outputs)
        self._kept_expected = len(self.expected)
        if self._saved or self._saved_globals is not None:
            self.epoch += 1
            self._saved.clear()
            self._saved_globals = None

    def rollback(self) -> None:
        """Undoes the changes of this epoch."""
        del self.outputs[self._kept_outputs :]
        del self.expected[self._kept_expected :]
        for item in reversed(self._saved):
            item.value.restore(item.state)
            item.value.epoch = item.epoch
            if not item.was_changed:
                self.changed.pop(item.value, None)
        self._saved.clear()
        if self._saved_globals is not None:
            self.globals, self._saved_globals = self._saved_globals, None
