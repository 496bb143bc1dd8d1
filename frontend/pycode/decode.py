"""A code object into canonical instructions. In: CodeType. Out: DecodedCode. What opcodes mean is
in the dialect."""

from __future__ import annotations

import opcode
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

from .dialect import Dialect, current
from .instr import DecodedCode, Handler, Instr, Op
from .liveness import FRAME_READERS, Liveness

MEMO_SIZE = 4096
_memo: dict[
    int, DecodedCode
] = {}  # by id: equal code objects may differ in lines, and generated ones may not be hashable


class Raw(NamedTuple):
    """One raw instruction."""

    start: int  # byte offset of its first EXTENDED_ARG, or of itself
    op: int
    arg: int
    end: int  # byte offset after its caches


class Region(NamedTuple):
    """One exception-table entry, in byte offsets."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


def decode(code: CodeType) -> DecodedCode:
    """`code` in canonical form. The MEMO_SIZE most recent results are cached, with their code
    objects."""
    known = _memo.get(id(code))
    if known is not None:
        return known
    decoded = _decode(code)
    if len(_memo) >= MEMO_SIZE:
        _memo.pop(next(iter(_memo)), None)
    _memo[id(code)] = decoded
    return decoded


def _decode(code: CodeType) -> DecodedCode:
    """Decodes without a look at the cache."""
    decoder = Decoder(code, current())
    decoder.run()
    instrs, handlers = decoder.finish()
    start = 0
    while instrs[start].op in (Op.NOP, Op.MAKE_CELL):
        start += 1
    slots, cells, frees = decoder.slots, decoder.cells, decoder.frees
    if FRAME_READERS.isdisjoint(code.co_names):
        # super() without arguments reads slot 0 and the cell of __class__ through the frame
        always = cells | set(frees) | ({0} if "__class__" in code.co_freevars else set())
    else:
        always = frozenset(range(len(slots)))
    nargs = (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & 4)
        + bool(code.co_flags & 8)
    )
    return DecodedCode(
        code,
        instrs,
        handlers,
        start,
        slots,
        nargs,
        cells,
        frees,
        Liveness(instrs, handlers, always),
    )


def raw_instructions(
    code: bytes, caches: bytes, start: int = 0, end: int | None = None
) -> Iterator[Raw]:
    """The raw instructions of co_code between two byte offsets, EXTENDED_ARG folded in."""
    at, stop = start, len(code) if end is None else end
    extended_arg = opcode.EXTENDED_ARG
    arg = 0
    while at < stop:
        op = code[at]
        arg = arg << 8 | code[at + 1]
        at += 2
        if op == extended_arg:
            continue
        at += 2 * caches[op]
        yield Raw(start, op, arg, at)
        start, arg = at, 0


def regions(table: bytes) -> Iterator[Region]:
    """The entries of co_exceptiontable (Objects/exception_handling_notes.txt)."""
    values, value = [], 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            values.append(value)
            value = 0
    for i in range(0, len(values), 4):
        start, size, target, depth = values[i : i + 4]
        yield Region(2 * start, 2 * (start + size), 2 * target, depth >> 1, bool(depth & 1))


def slot_names(code: CodeType) -> tuple[str, ...]:
    """Names of the localsplus slots: a cell that is a local too shares its slot."""
    return (
        *code.co_varnames,
        *(c for c in code.co_cellvars if c not in code.co_varnames),
        *code.co_freevars,
    )


class Decoder:
    """A decode rule's view of a code object. A rule emits instructions, or sets `open` to make the
    next raw instruction join its group."""

    def __init__(self, code: CodeType, dialect: Dialect) -> None:
        self.code, self.dialect = code, dialect
        self.consts, self.names = code.co_consts, code.co_names
        self.slots = slot_names(code)
        self.cells = frozenset(self.slots.index(cell) for cell in code.co_cellvars)
        self.frees = tuple(range(len(self.slots) - len(code.co_freevars), len(self.slots)))
        self.raws = list(raw_instructions(code.co_code, dialect.caches))
        self.at = 0  # index of the raw instruction being decoded
        self.end = 0  # byte offset after it
        self.open = False
        self.keywords: tuple[str, ...] = ()
        # op, arg, target offset, own offset, group's number
        self._emitted: list[tuple[Op, Any, int, int, int]] = []
        self._groups: list[tuple[int, int]] = []
        # byte offset of a group, or of what is dropped -> index of what comes next
        self._index: dict[int, int] = {}

    def emit(self, op: Op, arg: Any = None, target: int = -1) -> None:
        """Append one canonical instruction; `target` is a byte offset."""
        self._emitted.append((op, arg, target, self.raws[self.at].start, len(self._groups)))

    def peek(self) -> str:
        """Name of the next raw instruction, "" at the end."""
        following = self.at + 1
        return opcode.opname[self.raws[following].op] if following < len(self.raws) else ""

    def skip(self) -> None:
        """Drop the next raw instruction."""
        self.at += 1

    def run(self) -> None:
        """Apply the rules."""
        table = self.dialect.table
        raws = self.raws
        index = self._index
        emitted = self._emitted
        groups = self._groups
        start, joined = 0, False
        while self.at < len(raws):
            raw = raws[self.at]
            if not joined:
                start = raw.start
                index[start] = len(emitted)
            self.end = raw.end
            rule = table[raw.op]
            if rule is not None:
                rule(self, raw.arg)
            joined, self.open = self.open, False
            if not joined:
                groups.append((start, self.end))
            self.at += 1

    def finish(self) -> tuple[tuple[Instr, ...], tuple[Handler | None, ...]]:
        """Resolve offsets into indices, lines and handlers."""
        index, groups = self._index, self._groups
        beyond = self._bytes_beyond_jump()
        lines = iter(self.code.co_lines())
        line_end, line = -1, None
        table = iter(regions(self.code.co_exceptiontable))
        region, handler = next(table, None), None
        instrs: list[Instr] = []
        handlers: list[Handler | None] = []
        last = -1
        for op, arg, target, at, group in self._emitted:
            start, end = groups[group]
            while at >= line_end:
                _, line_end, line = next(lines)
            if target >= 0:
                target = index[target + beyond.get(op, 0)]
            if (
                group != last
                # a group is in the region of its first instruction: the later ones cannot raise
                # alone
            ):
                while region is not None and start >= region.end:
                    region, handler = next(table, None), None
                if region is not None and handler is None and start >= region.start:
                    handler = Handler(index[region.target], region.depth, region.lasti)
            instrs.append(Instr(op, arg, target, start, end, group != last, line))
            # PUSH_EXC_INFO cannot raise, and the entry it is in counts the item that it has yet
            # to push
            handlers.append(None if op is Op.PUSH_EXC_INFO else handler)
            last = group
        return tuple(instrs), tuple(handlers)

    def _bytes_beyond_jump(self) -> dict[Op, int]:
        """Bytes at a jump's target that belong to the jump, by canonical op."""
        return {op: 2 * len(self.dialect.exits[op.name]) for op in (Op.FOR_ITER, Op.SEND)}


def position_of_group(
    decoded: DecodedCode, index: int
) -> tuple[int | None, int | None, int | None, int | None]:
    """First and last line, first and last column of what the group at `index` was compiled from."""
    instr = decoded.instrs[index]
    units = list(decoded.code.co_positions())[instr.offset // 2 : instr.end // 2]
    whole = [unit for unit in units if None not in unit]
    if not whole:
        return instr.line, instr.line, None, None
    (line, column), (last_line, last_column) = (
        min((unit[0], unit[2]) for unit in whole),
        max((unit[1], unit[3]) for unit in whole),
    )
    return line, last_line, column, last_column
