"""Which slots are read later: backward dataflow over canonical instructions, exception edges
included.

In: instructions and handlers. Out: `Liveness`, a sequence of slot sets computed at its first use,
since most inlined frames never break. Knows no versions.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import overload

from .instr import DecodedCode, Handler, Instr, Op

READS = frozenset(
    {
        Op.LOAD_FAST,
        Op.LOAD_FAST_AND_CLEAR,
        Op.DELETE_FAST,
        Op.LOAD_CLOSURE,
        Op.LOAD_DEREF,
        Op.DELETE_DEREF,
    }
)
KILLS = frozenset({Op.STORE_FAST})
ENDS = frozenset({Op.JUMP, Op.RETURN_VALUE, Op.RAISE, Op.RERAISE})
# Names by which code may inspect a frame or its lifetime: code that uses one keeps all its
# variables.
FRAME_READERS = frozenset({
    "locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe", "f_locals", "weakref",
    "proxy", "ref", "finalize",
})  # fmt: skip


def keeps_its_frame(code: CodeType) -> bool:
    """Whether code takes its own frame and may later read variables from it: from 3.13 on these are
    the frame's current ones."""
    names = set(code.co_names)
    return "f_locals" in names and not names.isdisjoint({"_getframe", "currentframe"})


def is_comprehension(code: CodeType) -> bool:
    """Whether code is the body of a list, set or dict comprehension, given its iterator: up to 3.11
    these are functions of their own."""
    return code.co_varnames[:1] == (".0",) and not code.co_flags & inspect.CO_GENERATOR


class Liveness(Sequence[frozenset[int]]):
    """The slots read at or after each instruction, `always` included."""

    def __init__(
        self,
        instrs: tuple[Instr, ...],
        handlers: tuple[Handler | None, ...],
        always: frozenset[int],
    ) -> None:
        self._instrs, self._handlers, self._always = instrs, handlers, always
        self._masks: list[int] | None = None
        self._sets: dict[int, frozenset[int]] = {}

    def __len__(self) -> int:
        return len(self._instrs)

    @overload
    def __getitem__(self, index: int) -> frozenset[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[frozenset[int]]: ...
    def __getitem__(self, index: int | slice) -> frozenset[int] | list[frozenset[int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if self._masks is None:
            self._masks = solve(self._instrs, self._handlers)
        mask = self._masks[index]
        found = self._sets.get(mask)
        if found is None:
            slots = frozenset(slot for slot in range(mask.bit_length()) if mask >> slot & 1)
            found = self._sets[mask] = slots | self._always
        return found

    def __iter__(self) -> Iterator[frozenset[int]]:
        return (self[i] for i in range(len(self)))


def solve(instrs: Sequence[Instr], handlers: Sequence[Handler | None]) -> list[int]:
    """The least fixed point, one bit mask of slots an instruction."""
    live = [0] * (len(instrs) + 1)
    changed = True
    while changed:
        changed = False
        for i in range(len(instrs) - 1, -1, -1):
            instr, handler = instrs[i], handlers[i]
            mask = 0 if instr.op in ENDS else live[i + 1]
            if instr.target >= 0:
                mask |= live[instr.target]
            if instr.op in KILLS:
                mask &= ~(1 << instr.arg)
            elif instr.op in READS:
                mask |= 1 << instr.arg
            if handler is not None:
                mask |= live[handler.target]
            if mask != live[i]:
                live[i], changed = mask, True
    return live


def loop_around(decoded: DecodedCode, index: int) -> frozenset[int]:
    """The instructions that can be reached from one and lead back to it; empty if it is in no
    loop."""
    if not has_loop(decoded, index):
        return frozenset()
    following = [successors(decoded, i) for i in range(len(decoded.instrs))]
    leading: list[list[int]] = [[] for _ in following]
    for i, nexts in enumerate(following):
        for j in nexts:
            leading[j].append(i)
    ahead = reachable_from(index, following)
    return frozenset(ahead & reachable_from(index, leading)) if index in ahead else frozenset()


def has_loop(decoded: DecodedCode, index: int) -> bool:
    """Whether a jump may lead from an instruction, or a later one, back to it or an earlier one:
    where none does, no loop is around it."""
    targets = (
        (instr.target, handler.target if handler is not None else -1)
        for instr, handler in zip(decoded.instrs[index:], decoded.handlers[index:], strict=True)
    )
    return any(0 <= target <= index for pair in targets for target in pair)


def successors(decoded: DecodedCode, index: int) -> list[int]:
    instr, handler = decoded.instrs[index], decoded.handlers[index]
    found = [] if instr.op in ENDS or index + 1 == len(decoded.instrs) else [index + 1]
    found += [instr.target] if instr.target >= 0 else []
    return found if handler is None else [*found, handler.target]


def reachable_from(index: int, edges: Sequence[Sequence[int]]) -> set[int]:
    """The indices that edges lead to from an index, by one edge or more."""
    found: set[int] = set()
    todo = [index]
    while todo:
        for following in edges[todo.pop()]:
            if following not in found:
                found.add(following)
                todo.append(following)
    return found
