"""New code objects for the running version. In: method calls, one an instruction. Out: CodeType.

A `CodeBuilder` makes rebuilt code for one original: its names, slots and flags, glue in between, and copies of the
original's raw instructions with their positions. Slots are given by their original index; `temp()` makes new ones
(negative until `finish`). It knows no symbolic values.
"""
from __future__ import annotations

import dis
import opcode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CellType, CodeType
from typing import Any, Literal, NamedTuple

from .decode import raw_instructions
from .dialect import current
from .instr import DecodedCode, Instr
from .py311 import BINARY, FUNCTION_PARTS
from .tidy import labels, tidy

VARARGS, VARKEYWORDS, GENERATORS = 0x4, 0x8, 0x2A0
TERMINAL = frozenset({"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"})
UNCONDITIONAL = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})

Position = tuple[int | None, int | None, int | None, int | None]  # line, end line, column, end column
NOWHERE: Position = (None, None, None, None)
POP_NULL = "POP_NULL"  # a STORE_FAST that `tidy` must not take for an idle one


class Label:
    """A place in the code under construction."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: int | None = None  # index of the unit it stands before


class Region(NamedTuple):
    """What a stretch of code is protected by."""

    handler: Label
    depth: int
    lasti: bool


class Unit:
    """One raw instruction to be: its oparg is a number, slots (1 or 2), or a label's distance."""

    __slots__ = ("op", "arg", "slots", "label", "position", "region")

    def __init__(
        self, op: str, arg: int, slots: tuple[int, ...], label: Label | None, position: Position, region: Region | None
    ) -> None:
        self.op, self.arg, self.slots, self.label = op, arg, slots, label
        self.position, self.region = position, region


def dummy_closure(code: CodeType) -> tuple[CellType, ...] | None:
    """Empty cells for a function of state-entered code, whose free slots are stored by its prologue."""
    return tuple(CellType() for _ in code.co_freevars) or None


class CodeBuilder:
    """Assembles one code object; methods named as canonical ops emit what they mean on the running version.

    entry="args": the original's arguments, all positional, in slots 0..nargs-1, then the tuple of lifted objects if
    `lifted`; cells are made and free variables copied. entry="state": one argument (`state_slot`) and the tuple of
    lifted objects if `lifted`; all original slots are unbound, and the caller stores cells into cell and free slots
    with `store_slot`. Original slot 0 stays slot 0, since super() looks there.
    """

    def __init__(
        self, decoded: DecodedCode, entry: Literal["args", "state"] = "args", *, lifted: bool = False
    ) -> None:
        self.decoded, self.entry = decoded, entry
        self.dialect = current()
        self._code = decoded.code
        self._units: list[Unit] = []
        self._unpacked: dict[Unit, list[int]] = {}
        self._region: Region | None = None
        self._consts: list[Any] = list(self._code.co_consts)
        self._const_index = {id(const): i for i, const in reversed(list(enumerate(self._consts)))}
        self._names = list(self._code.co_names)
        self._temps = 0
        self._raw_positions: list[Position] | None = None
        self._position: Position = (self._code.co_firstlineno, None, None, None)
        self._lifted_inside = lifted and entry == "args"
        self.state_slot: int | None = None
        self.lifted_slot: int | None = None
        if entry == "args":
            self._argcount = decoded.nargs + lifted
            if lifted:
                self.lifted_slot = self.temp()
            self._args_prologue()
        else:
            self._argcount = 1 + lifted
            self._state_prologue(lifted)

    # Prologues.

    def _args_prologue(self) -> None:
        if self.decoded.frees:
            self.emit("COPY_FREE_VARS", len(self.decoded.frees))
        for slot in sorted(self.decoded.cells):
            self._emit_slots("MAKE_CELL", slot)
        self.emit("RESUME", 0)

    def _state_prologue(self, lifted: bool) -> None:
        nlocals = self._code.co_nlocals
        if lifted and nlocals == 1:  # the second argument arrives in the first temporary's place
            self.lifted_slot, self.state_slot = self.temp(), self.temp()
        else:
            self.state_slot = self.temp()
            self.lifted_slot = self.temp() if lifted else None
        if self.decoded.cells:  # never run: a frame's locals() takes a cell for a value unless MAKE_CELL lies behind it
            behind = self.label()
            self.jump(behind)
            for slot in sorted(self.decoded.cells):
                self._emit_slots("MAKE_CELL", slot)
            self.mark(behind)
        self.emit("RESUME", 2)  # 2: no check for signals, which the original's handlers could not see here
        arrived = (self.state_slot, self.lifted_slot)
        for slot, kept in enumerate(arrived[: min(nlocals, self._argcount)]):
            assert kept is not None
            self._emit_slots("LOAD_FAST", slot)
            self._emit_slots("STORE_FAST", kept)
            self._emit_slots("DELETE_FAST", slot)

    # Slots, constants, names.

    def slot(self, index: int) -> int:
        """The handle of an original slot: its index; `finish` maps it to where the slot lies then."""
        if not 0 <= index < len(self.decoded.slots):
            raise IndexError(f"no slot {index} in {self._code.co_qualname}")
        return index

    @property
    def size(self) -> int:
        """How many instructions there are so far."""
        return len(self._units)

    def temp(self) -> int:
        """A new local, unbound."""
        self._temps += 1
        return -self._temps

    def constant(self, value: Any) -> int:
        """Index of `value` in co_consts, by identity."""
        index = self._const_index.get(id(value))
        if index is None:
            index = self._const_index[id(value)] = len(self._consts)
            self._consts.append(value)
        return index

    def _name(self, name: str) -> int:
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)

    # Emission.

    def emit(self, op: str, arg: int = 0, label: Label | None = None) -> None:
        """Append a raw instruction of the running version, by name."""
        self._units.append(Unit(op, arg, (), label, self._position, self._region))

    def _emit_slots(self, op: str, *slots: int) -> None:
        self._units.append(Unit(op, 0, slots, None, self._position, self._region))

    def line(self, line: int | None) -> None:
        """What follows belongs to this line."""
        self._position = (line, None, None, None)

    def at(self, instr: Instr) -> None:
        """What follows belongs where the last raw instruction of a group does."""
        *_, raw = raw_instructions(self._code.co_code, self.dialect.caches, instr.offset, instr.end)
        self._position = self._positions()[raw.start // 2]

    def _positions(self) -> list[Position]:
        if self._raw_positions is None:
            self._raw_positions = list(self._code.co_positions())
        return self._raw_positions

    def label(self) -> Label:
        """A new label, not placed yet."""
        return Label()

    def mark(self, label: Label) -> None:
        """Place `label` here."""
        assert label.at is None, "a label is placed once"
        label.at = len(self._units)

    @contextmanager
    def protect(self, handler: Label, depth: int, lasti: bool) -> Iterator[None]:
        """An exception inside cuts the stack to `depth`, pushes the raising index if `lasti`, and goes to `handler`."""
        outer, self._region = self._region, Region(handler, depth, lasti)
        self.emit("NOP")  # 3.13 looks an exception that leaves a callee run in the same loop up at the unit before the call
        try:
            yield
        finally:
            self._region = outer

    @contextmanager
    def unprotected(self) -> Iterator[None]:
        """Code inside lies in no region."""
        outer, self._region = self._region, None
        try:
            yield
        finally:
            self._region = outer

    # Stack.

    def pop_top(self) -> None:
        self.emit("POP_TOP")

    def copy(self, n: int) -> None:
        self.emit("COPY", n)

    def swap(self, n: int) -> None:
        if n != 1:
            self.emit("SWAP", n)

    def push_null(self) -> None:
        self.emit("PUSH_NULL")

    def pop_null(self) -> None:
        """Take a NULL off: into a temporary, which stays unbound, as POP_TOP wants an object."""
        self._emit_slots(POP_NULL, self.temp())

    # Names and constants.

    def load_const(self, value: Any) -> None:
        """Push any object. CPython interns strings that look like names, in tuples and frozensets too."""
        self.emit("LOAD_CONST", self.constant(value))

    def load_slot(self, slot: int) -> None:
        """Push what a slot holds; UnboundLocalError if it is unbound."""
        self._emit_slots(self.dialect.checked_load, slot)

    def store_slot(self, slot: int) -> None:
        """Store into any slot; into a cell's or free variable's slot: the cell itself."""
        self._emit_slots("STORE_FAST", slot)

    def delete_slot(self, slot: int) -> None:
        self._emit_slots("DELETE_FAST", slot)

    def make_cell(self, slot: int) -> None:
        self._emit_slots("MAKE_CELL", slot)

    def load_cell(self, slot: int) -> None:
        """Push the cell in a cell's or free variable's slot."""
        self.load_slot(slot)

    def load_deref(self, slot: int) -> None:
        self._emit_slots("LOAD_DEREF", slot)

    def store_deref(self, slot: int) -> None:
        self._emit_slots("STORE_DEREF", slot)

    def delete_deref(self, slot: int) -> None:
        self._emit_slots("DELETE_DEREF", slot)

    def load_global(self, name: str) -> None:
        self.emit("LOAD_GLOBAL", self._name(name) << 1)

    def store_global(self, name: str) -> None:
        self.emit("STORE_GLOBAL", self._name(name))

    def delete_global(self, name: str) -> None:
        self.emit("DELETE_GLOBAL", self._name(name))

    def load_attr(self, name: str) -> None:
        self.emit("LOAD_ATTR", self._name(name) << self.dialect.attr_shift)

    def load_method(self, name: str) -> None:
        """obj -> the two slots that CALL finds under its arguments: the function and `obj`, or what getattr gives and NULL"""
        self.dialect.load_method(self, self._name(name))

    def store_attr(self, name: str) -> None:
        """value, obj ->"""
        self.emit("STORE_ATTR", self._name(name))

    def delete_attr(self, name: str) -> None:
        self.emit("DELETE_ATTR", self._name(name))

    def import_name(self, name: str) -> None:
        """level, fromlist -> module"""
        self.emit("IMPORT_NAME", self._name(name))

    def import_from(self, name: str) -> None:
        """module -> module, attribute"""
        self.emit("IMPORT_FROM", self._name(name))

    def load_build_class(self) -> None:
        self.emit("LOAD_BUILD_CLASS")

    def load_assertion_error(self) -> None:
        self.emit("LOAD_ASSERTION_ERROR")

    # Operators.

    def unary_not(self) -> None:
        if self.dialect.truth:
            self.emit(self.dialect.truth)
        self.emit("UNARY_NOT")

    def unary_negative(self) -> None:
        self.emit("UNARY_NEGATIVE")

    def unary_invert(self) -> None:
        self.emit("UNARY_INVERT")

    def binary(self, op: str) -> None:
        """`op` as in Instr.arg of BINARY: "+", "+=", ..."""
        self.emit("BINARY_OP", BINARY.index(op))

    def compare(self, op: str) -> None:
        self.emit("COMPARE_OP", self.dialect.compare(opcode.cmp_op.index(op)))

    def is_op(self, invert: bool = False) -> None:
        self.emit("IS_OP", invert)

    def contains(self, invert: bool = False) -> None:
        self.emit("CONTAINS_OP", invert)

    def subscr(self) -> None:
        self.emit("BINARY_SUBSCR")

    def store_subscr(self) -> None:
        """value, container, key ->"""
        self.emit("STORE_SUBSCR")

    def delete_subscr(self) -> None:
        self.emit("DELETE_SUBSCR")

    # Containers.

    def build_tuple(self, n: int) -> None:
        self.emit("BUILD_TUPLE", n)

    def build_list(self, n: int) -> None:
        self.emit("BUILD_LIST", n)

    def build_set(self, n: int) -> None:
        self.emit("BUILD_SET", n)

    def build_map(self, n: int) -> None:
        """n pairs key, value"""
        self.emit("BUILD_MAP", n)

    def build_string(self, n: int) -> None:
        self.emit("BUILD_STRING", n)

    def build_slice(self, n: int) -> None:
        self.emit("BUILD_SLICE", n)

    def list_extend(self, i: int = 1) -> None:
        self.emit("LIST_EXTEND", i)

    def list_append(self, i: int = 1) -> None:
        self.emit("LIST_APPEND", i)

    def set_update(self, i: int = 1) -> None:
        self.emit("SET_UPDATE", i)

    def set_add(self, i: int = 1) -> None:
        self.emit("SET_ADD", i)

    def dict_update(self, i: int = 1) -> None:
        self.emit("DICT_UPDATE", i)

    def map_add(self, i: int = 1) -> None:
        self.emit("MAP_ADD", i)

    def unpack_sequence(self, n: int) -> None:
        """The first item ends on top."""
        self.emit("UNPACK_SEQUENCE", n)

    def unpack_into(self, slots: list[int]) -> None:
        """sequence -> ; its items go into `slots`, which may still grow until `finish`. None: it is dropped."""
        self.emit("POP_TOP")
        self._unpacked[self._units[-1]] = slots

    # Calls.

    def push_null_before_callee(self) -> None:
        """To be said before the callee is pushed, and `push_null_after_callee` after it, for each plain call."""
        if self.dialect.null_below:
            self.emit("PUSH_NULL")

    def push_null_after_callee(self) -> None:
        if not self.dialect.null_below:
            self.emit("PUSH_NULL")

    def call(self, n: int, names: Sequence[str] = ()) -> None:
        """`n` arguments in all, the last len(names) of them by keyword."""
        self.dialect.call(self, n, tuple(names))

    def notify(self, callee: Any) -> None:
        """Calls a constant, for what it does."""
        self.push_null_before_callee()
        self.load_const(callee)
        self.push_null_after_callee()
        self.call(0)
        self.pop_top()

    def call_ex(self, has_kwargs: bool = False) -> None:
        """(NULL and callee), args[, kwargs] -> result"""
        self.emit("CALL_FUNCTION_EX", has_kwargs)

    def make_function(self, parts: Sequence[str] = ()) -> None:
        """`parts` name what lies under the code object, bottom first, as in Instr.arg of MAKE_FUNCTION."""
        self.dialect.make_function(self, sum(bit for bit, part in FUNCTION_PARTS.items() if part in parts))

    # Control.

    def jump(self, label: Label) -> None:
        self.emit("JUMP_FORWARD", label=label)

    def jump_if(self, when: bool, label: Label) -> None:
        """Pop a value of any type; jump when bool() of it is `when`."""
        if self.dialect.truth:
            self.emit(self.dialect.truth)
        self.emit(self.dialect.jump_if[True][when], label=label)

    def jump_if_none(self, when: bool, label: Label) -> None:
        """Pop a value; jump when "it is None" is `when`."""
        self.emit(self.dialect.jump_if[None][when], label=label)

    def get_iter(self) -> None:
        self.emit("GET_ITER")

    def for_iter(self, exhausted: Label) -> None:
        """iter -> iter, item; when exhausted the iterator is popped."""
        self.emit("FOR_ITER", label=exhausted)

    def return_value(self) -> None:
        self.emit("RETURN_VALUE")

    # Exceptions.

    def raise_(self, n: int) -> None:
        """0: again; 1: exc; 2: exc, cause."""
        self.emit("RAISE_VARARGS", n)

    def reraise(self, n: int = 0) -> None:
        self.emit("RERAISE", n)

    def push_exc_info(self) -> None:
        self.emit("PUSH_EXC_INFO")

    def pop_except(self) -> None:
        self.emit("POP_EXCEPT")

    def check_exc_match(self) -> None:
        self.emit("CHECK_EXC_MATCH")

    def before_with(self) -> None:
        """manager -> exit, entered"""
        self.emit("BEFORE_WITH")

    def with_except_start(self) -> None:
        self.emit("WITH_EXCEPT_START")

    # Copies.

    def raw(self, instr: Instr, jump: Label | None = None) -> None:
        """The whole raw group of `instr` with its own positions; if it jumps, to `jump`."""
        positions = self._positions()
        before, previous = self._position, ""
        dialect = self.dialect
        for raw in raw_instructions(self._code.co_code, dialect.caches, instr.offset, instr.end):
            op = opcode.opname[raw.op]
            self._position = positions[raw.start // 2]
            if op in dialect.needs_truth and previous not in dialect.truths:  # the original knew that it is a bool
                self.emit(dialect.truth or "NOP")
            if raw.op in dialect.slot_ops:
                self._emit_slots(op, raw.arg)
            elif op in dialect.pairs:
                self._emit_slots(op, raw.arg >> 4, raw.arg & 15)
            elif raw.op in dialect.jumps:
                assert jump is not None, f"{op} needs a label"
                self.emit(dialect.forward.get(op, op), label=jump)
            else:
                self.emit(op, raw.arg)
            previous = op
        self._position = before

    # The code object.

    def finish(self) -> CodeType:
        """The code object. The builder is used up."""
        self._unpack()
        self._units = tidy(self._units)
        self._expand()
        varnames, where = self._layout()
        units = self._resolve_slots(where)
        encoded = Encoder(units)
        code = self._code
        return code.replace(
            co_argcount=self._argcount,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_nlocals=len(varnames),
            co_stacksize=stack_size(units),
            co_flags=code.co_flags & ~(VARARGS | VARKEYWORDS | GENERATORS),
            co_code=encoded.code,
            co_consts=tuple(self._consts),
            co_names=tuple(self._names),
            co_varnames=varnames,
            co_linetable=line_table(encoded.spans(), code.co_firstlineno),
            co_exceptiontable=encoded.exception_table(),
        )

    def _layout(self) -> tuple[tuple[str, ...], dict[int, int]]:
        """co_varnames, and the final index of each handle."""
        names, where = list(self._code.co_varnames), list(range(self._code.co_nlocals))
        temps = list(range(-1, -self._temps - 1, -1))
        if self._lifted_inside:
            temps.remove(-1)
            where.insert(self.decoded.nargs, -1)
        where += temps
        names = [names[handle] if handle >= 0 else f".{-handle}" for handle in where]
        where += range(self._code.co_nlocals, len(self.decoded.slots))
        return tuple(names), {handle: index for index, handle in enumerate(where)}

    def _resolve_slots(self, where: dict[int, int]) -> list[Unit]:
        """Slot handles into opargs. A pair whose slots no longer fit its 4 bits is split."""
        pairs = self.dialect.pairs
        moved: list[int] = []  # new index of each unit
        units: list[Unit] = []
        for unit in self._units:
            moved.append(len(units))
            slots = [where[handle] for handle in unit.slots]
            unit.op = "STORE_FAST" if unit.op == POP_NULL else unit.op
            if len(slots) == 2 and max(slots) > 15:
                for op, slot in zip(pairs[unit.op], slots, strict=True):
                    units.append(Unit(op, slot, (), None, unit.position, unit.region))
                continue
            if slots:
                unit.arg = slots[0] if len(slots) == 1 else slots[0] << 4 | slots[1]
            units.append(unit)
        moved.append(len(units))
        self._move_labels(units, moved)
        return units

    def _move_labels(self, units: list[Unit], moved: list[int]) -> None:
        """After units were put in; `moved`: the new index of each, and the end."""
        if len(units) != len(self._units):
            for label in labels(units):
                assert label.at is not None, "a label was never placed"
                label.at = moved[label.at]

    def _unpack(self) -> None:
        """Spell `unpack_into` out."""
        units: list[Unit] = []
        moved: list[int] = []
        for unit in self._units:
            moved.append(len(units))
            targets = self._unpacked.get(unit)
            if targets:
                units.append(Unit("UNPACK_SEQUENCE", len(targets), (), None, unit.position, unit.region))
                units += [Unit("STORE_FAST", 0, (slot,), None, unit.position, unit.region) for slot in targets]
            else:
                units.append(unit)
        moved.append(len(units))
        self._move_labels(units, moved)
        self._units = units

    def _expand(self) -> None:
        """Send jumps that need something at their target, or cannot go back, through a landing behind the code."""
        dialect = self.dialect
        for at, unit in enumerate(list(self._units)):
            if unit.label is None:
                continue
            assert unit.label.at is not None, "a label was never placed"
            back = unit.label.at <= at
            exits = dialect.exits.get(unit.op, ())
            if back and unit.op in dialect.backward:
                unit.op = dialect.backward[unit.op]
            elif back or exits:
                self._position, self._region = unit.position, None
                target, unit.label = unit.label, self.label()
                self.mark(unit.label)
                for op in exits:
                    self.emit(op)
                self.emit("JUMP_BACKWARD_NO_INTERRUPT", label=target)


class Encoder:
    """Units into bytes: opargs of any size, caches, distances, exception table."""

    def __init__(self, units: list[Unit]) -> None:
        dialect = current()
        self._units = units
        self._ops = [dis.opmap[unit.op] for unit in units]
        self._caches = [dialect.caches[op] for op in self._ops]
        self._prefixes = [(max(unit.arg.bit_length(), 1) - 1) // 8 for unit in units]
        while self._place():
            pass
        out = bytearray()
        for op, unit, prefixes, caches in zip(self._ops, units, self._prefixes, self._caches, strict=True):
            for shift in range(8 * prefixes, 0, -8):
                out += bytes((opcode.EXTENDED_ARG, unit.arg >> shift & 255))
            out += bytes((op, unit.arg & 255)) + bytes(2 * caches)
        self.code = bytes(out)

    def _place(self) -> bool:
        """Compute offsets (in code units) and distances; whether an oparg outgrew its prefixes."""
        jumps = current().jumps
        offsets = [0]
        for prefixes, caches in zip(self._prefixes, self._caches, strict=True):
            offsets.append(offsets[-1] + prefixes + 1 + caches)
        self.offsets, grown = offsets, False
        for i, unit in enumerate(self._units):
            if unit.label is not None:
                assert unit.label.at is not None
                unit.arg = jumps[self._ops[i]] * (offsets[unit.label.at] - offsets[i + 1])
                assert unit.arg >= 0, f"{unit.op} in the wrong direction"
                needed = (max(unit.arg.bit_length(), 1) - 1) // 8
                if needed > self._prefixes[i]:
                    self._prefixes[i], grown = needed, True
        return grown

    def spans(self) -> list[tuple[int, Position]]:
        """(code units, position) of each unit."""
        offsets = self.offsets
        return [(offsets[i + 1] - offsets[i], unit.position) for i, unit in enumerate(self._units)]

    def exception_table(self) -> bytes:
        """co_exceptiontable: neighbours with the same region share an entry."""
        entries: list[tuple[int, int, Region]] = []
        for i, unit in enumerate(self._units):
            if unit.region is None:
                continue
            start, end = self.offsets[i], self.offsets[i + 1]
            if entries and entries[-1][1] == start and entries[-1][2] == unit.region:
                entries[-1] = (entries[-1][0], end, unit.region)
            else:
                entries.append((start, end, unit.region))
        out = bytearray()
        for start, end, region in entries:
            assert region.handler.at is not None, "a handler's label was never placed"
            out += exception_entry(start, end - start, self.offsets[region.handler.at], region.depth, region.lasti)
        return bytes(out)


def exception_entry(start: int, size: int, target: int, depth: int, lasti: bool) -> bytes:
    """One entry of co_exceptiontable, in code units."""
    out = bytearray()
    for value in (start, size, target, depth << 1 | lasti):
        chunks = [value & 63]
        while value > 63:
            value >>= 6
            chunks.append(value & 63 | 64)
        out += bytes(reversed(chunks))
    out[0] |= 128
    return bytes(out)


def line_table(spans: Sequence[tuple[int, Position]], first_line: int) -> bytes:
    """co_linetable for stretches of (code units, position), in the long forms only (Objects/locations.md)."""
    out, line, i = bytearray(), first_line, 0
    while i < len(spans):
        size, position = spans[i]
        i += 1
        while i < len(spans) and spans[i][1] == position:
            size += spans[i][0]
            i += 1
        start, end, column, end_column = position
        while size > 0:
            length = min(size, 8)
            size -= length
            if start is None:
                out.append(128 | 15 << 3 | length - 1)
                continue
            delta, line = start - line, start
            signed = _varint(-delta << 1 | 1 if delta < 0 else delta << 1)
            if end is None or column is None or end_column is None:
                out.append(128 | 13 << 3 | length - 1)
                out += signed
            else:
                out.append(128 | 14 << 3 | length - 1)
                out += signed + _varint(end - start) + _varint(column + 1) + _varint(end_column + 1)
    return bytes(out)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 63:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)
    return bytes(out)


def stack_size(units: Sequence[Unit]) -> int:
    """The deepest stack over all paths, handlers included."""
    depths: dict[int, int] = {}
    work = [(0, 0)]
    deepest = 1
    while work:
        at, depth = work.pop()
        while depths.get(at, -1) < depth:
            depths[at] = depth
            unit = units[at]
            op = dis.opmap[unit.op]
            arg = unit.arg if op >= dis.HAVE_ARGUMENT else None
            if unit.region is not None:
                handler = unit.region.handler.at
                assert handler is not None
                work.append((handler, unit.region.depth + unit.region.lasti + 1))
                deepest = max(deepest, unit.region.depth + unit.region.lasti + 1)
            if unit.label is not None:
                assert unit.label.at is not None
                there = depth + dis.stack_effect(op, arg, jump=True)
                work.append((unit.label.at, there))
                deepest = max(deepest, there)
            if unit.op in TERMINAL or unit.op in UNCONDITIONAL:
                break
            depth += dis.stack_effect(op, arg, jump=False)
            deepest = max(deepest, depth)
            at += 1
    return deepest
