"""The eager meaning of a continuation: the original code object, entered in its middle.

In: DecodedCode and a ResumePoint. Out: a code object whose one argument is the state tuple. The original instructions,
names and positions follow a generated prologue unchanged, so handlers, lines and depths are the original's own.
State tuple: what the bound slots hold, in ascending slot order (cell and free slots: the cell), then the stack's items
that carry a value, bottom first.
"""
from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Any

from .assemble import GENERATORS, NOWHERE, VARARGS, VARKEYWORDS, Encoder, Unit, exception_entry, line_table
from .decode import raw_instructions, regions
from .dialect import current
from .instr import DecodedCode

OPTIMIZED = 0x1
PLAIN = {"value", "null"}


class Unresumable(Exception):
    """This code object, or this place in it, cannot be entered."""


@dataclass(frozen=True)
class ResumePoint:
    """Where to enter, and what the state holds.

    stack: the kind of each item, bottom first. "value": anything. "null": a NULL, not in the state. "lasti": a raising
    instruction's index, in code units of the original (its byte offset // 2). "exc": where an open handler keeps the
    previously handled exception; the state holds the exception that is being handled there.
    Where COPY has copied that item (a handler's cleanup), the copy is the "exc", which POP_EXCEPT takes, and the
    original a "value".
    bound: the slots that hold something, and hold it as given: a cell's or free variable's slot a cell (but where an
    inlined comprehension keeps its variable raw there). At `decoded.start` arguments are all raw, free variables'
    slots hold their cells, and the prologue makes this frame's cells.
    """

    index: int
    stack: tuple[str, ...]
    bound: frozenset[int]


def resume_code(decoded: DecodedCode, point: ResumePoint) -> CodeType:
    """A code object that takes the state tuple and goes on at `point`. Raises Unresumable."""
    code = decoded.code
    _check(decoded, point)
    shift = 0 if code.co_nlocals else 1  # the state needs a local to arrive in
    prologue = Prologue(decoded, point, shift)
    head, length = prologue.code, len(prologue.code) // 2
    table = b"".join(
        exception_entry(start // 2 + length, (end - start) // 2, target // 2 + length, depth, lasti)
        for start, end, target, depth, lasti in regions(code.co_exceptiontable)
    )
    first = code.co_firstlineno
    varnames = code.co_varnames or (".state",)
    return code.replace(
        co_argcount=1,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_nlocals=len(varnames),
        co_varnames=varnames,
        co_stacksize=max(code.co_stacksize, prologue.depth),
        co_flags=code.co_flags & ~(VARARGS | VARKEYWORDS),
        co_code=head + (_shifted(code) if shift else code.co_code),
        co_consts=(*code.co_consts, *prologue.consts),
        co_linetable=line_table([(length, (first, None, None, None))], first) + code.co_linetable,
        co_exceptiontable=table,
    )


def _check(decoded: DecodedCode, point: ResumePoint) -> None:
    code = decoded.code
    if code.co_flags & GENERATORS:
        raise Unresumable(f"{code.co_qualname} is a generator or coroutine")
    if not code.co_flags & OPTIMIZED:
        raise Unresumable(f"{code.co_qualname} is not a function body")
    if point.index < decoded.start or not decoded.instrs[point.index].starts_group:
        raise Unresumable(f"instruction {point.index} of {code.co_qualname} does not start a group")
    if point.index == decoded.start and point.stack:
        raise Unresumable("the stack is empty at a function's start")


def _shifted(code: CodeType) -> bytes:
    """co_code with every slot one further."""
    dialect, out = current(), bytearray(code.co_code)
    for raw in raw_instructions(code.co_code, dialect.caches):
        if raw.op in dialect.slot_ops:
            at = raw.end - 2 * dialect.caches[raw.op] - 1
            if out[at] == 255:
                raise Unresumable(f"{code.co_qualname} has no local and too many cells")
            out[at] += 1
    return bytes(out)


class Prologue:
    """Restores slots and stack from the state tuple, then jumps."""

    def __init__(self, decoded: DecodedCode, point: ResumePoint, shift: int) -> None:
        self._units: list[Unit] = []
        self.consts: list[Any] = []
        self._base = len(decoded.code.co_consts)
        instr = decoded.instrs[point.index]
        carried = [kind for kind in point.stack if kind != "null"]
        self.depth = max(len(point.bound) + len(carried), len(point.stack) + 4)
        slots = [slot + shift for slot in sorted(point.bound)]
        self._emit("RESUME", 2)  # 2: no check for signals, which the original's handlers could not see here
        self._emit("LOAD_FAST", 0)
        if 0 not in slots:
            self._emit("DELETE_FAST", 0)
        self._emit("UNPACK_SEQUENCE", len(slots) + len(carried))
        for slot in slots:
            self._emit("STORE_FAST", slot)
        self._stack(point.stack, len(carried))
        if point.index == decoded.start:
            for slot in sorted(decoded.cells):
                self._emit("MAKE_CELL", slot + shift)
        self._truth(decoded, instr.offset, instr.end, point.stack)
        self._emit("JUMP_FORWARD", instr.offset // 2)
        self.code = Encoder(self._units).code
        self.consts = [len(self.code) // 2 if const is None else const for const in self.consts]

    def _emit(self, op: str, arg: int = 0) -> None:
        self._units.append(Unit(op, arg, (), None, NOWHERE, None))

    def _const(self, value: int | None) -> None:
        """Push a number; None stands for the prologue's length."""
        if value not in self.consts:
            self.consts.append(value)
        self._emit("LOAD_CONST", self._base + self.consts.index(value))

    def _stack(self, kinds: tuple[str, ...], carried: int) -> None:
        """The stack holds the carried items, the first on top; turn them over and do what their kinds ask."""
        if PLAIN.issuperset(kinds) and "null" not in kinds[:-1]:
            if carried > 1:
                self._emit("BUILD_TUPLE", carried)
                self._emit("UNPACK_SEQUENCE", carried)
            if "null" in kinds:
                self._emit("PUSH_NULL")
            return
        self._emit("BUILD_TUPLE", carried)  # it stays on top, last item first, until all are out
        left = carried
        for kind in kinds:
            if kind == "null":
                self._emit("PUSH_NULL")
            else:
                left -= 1
                self._emit("COPY", 1)
                self._const(left)
                self._emit("BINARY_SUBSCR")
            if kind == "lasti":
                self._const(None)
                self._emit("BINARY_OP", 0)  # +
            elif kind == "exc":
                self._emit("PUSH_EXC_INFO")
                self._emit("POP_TOP")
            self._emit("SWAP", 2)
        self._emit("POP_TOP")

    def _truth(self, decoded: DecodedCode, start: int, end: int, stack: tuple[str, ...]) -> None:
        """Where the original knows that it tests a bool, make it one."""
        dialect = current()
        first = next(raw_instructions(decoded.code.co_code, dialect.caches, start, end))
        if dialect.truth and first.op in dialect.bool_ops and stack[-1:] == ("value",):
            self._emit(dialect.truth)
