"""UncapturedCode: what the captures of one handle leave to Python from now on."""

from __future__ import annotations

import types
from enum import Enum, auto

from ..pycode.code_place import CodePlace


class FirstRun(Enum):
    """Why Python runs a call first. HERE: the call does what an object does once. LIKELY: it is
    likely to come to that."""

    HERE = auto()
    LIKELY = auto()


class UncapturedCode:
    """Loops, instructions and first runs. Code objects and other objects are kept by their ids, as
    comparing code objects would compare their contents; a loop is named by the index of its
    start."""

    def __init__(self) -> None:
        self._loops: set[tuple[int, int]] = set()
        self._varying_loops: set[tuple[int, int]] = set()  # those whose length varies
        self._varying_comprehensions: set[int] = set()
        # branches whose expected side was not taken, and operations of whose numbers an
        # assumption was wrong
        self._instructions: set[tuple[int, int]] = set()
        self._first_runs: set[tuple[int, FirstRun]] = set()

    @property
    def has_loops(self) -> bool:
        return bool(self._loops)

    def add_loop(self, code: types.CodeType, start: int, varies: bool = False) -> None:
        """Leaves a loop to Python. varies: because its length does."""
        self._loops.add((id(code), start))
        if varies:
            self._varying_loops.add((id(code), start))

    def has_loop(self, code: types.CodeType, start: int) -> bool:
        return (id(code), start) in self._loops

    def has_varying_loop(self, code: types.CodeType, start: int) -> bool:
        return (id(code), start) in self._varying_loops

    def add_varying_comprehension(self, code: types.CodeType) -> None:
        self._varying_comprehensions.add(id(code))

    def has_varying_comprehension(self, code: types.CodeType) -> bool:
        return id(code) in self._varying_comprehensions

    def add_instruction(self, place: CodePlace) -> None:
        self._instructions.add(place.key)

    def has_instruction(self, place: CodePlace) -> bool:
        return place.key in self._instructions

    def add_first_run(self, obj: object, when: FirstRun) -> bool:
        """Whether Python has not run it yet; it is left to Python now."""
        is_new = (id(obj), when) not in self._first_runs
        self._first_runs.add((id(obj), when))
        return is_new
