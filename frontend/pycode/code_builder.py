"""New code objects for the running version. In: method calls, one an instruction. Out: CodeType.

A `CodeBuilder` makes generated code for one original: its names, slots and flags, glue in between,
and copies of the original's raw instructions with their positions. Slots are given by their
original index; `temp()` makes new ones (negative until `finish`). It knows no symbolic values.
"""

from __future__ import annotations

import opcode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CellType, CodeType
from typing import Any

from bytecode import Instr as Raw
from bytecode import Label, TryBegin, TryEnd
from bytecode.instr import UNSET, InstrLocation

from .code_object import (
    ConstantObject,
    Position,
    Signature,
    location,
    make_code,
    raw_slot,
    symbolic,
    variable,
)
from .decode import raw_instructions
from .dialect import current
from .instr import DecodedCode, Instr
from .peephole import drop_idle_temporaries
from .py311 import FUNCTION_PARTS

VARARGS, VARKEYWORDS, GENERATORS = 0x4, 0x8, 0x2A0


def dummy_closure(code: CodeType) -> tuple[CellType, ...] | None:
    """Empty cells for a function whose code takes a state tuple: its prologue stores them into
    the free slots."""
    return tuple(CellType() for _ in code.co_freevars) or None


class CodeBuilder:
    """Assembles one code object; methods named as canonical ops emit what they mean on the running
    version.

    The code takes the original's arguments, all positional, in slots 0..nargs-1; cells are made and
    free variables copied. With takes_state, it takes one argument instead, a state tuple
    (`state_slot`); all original slots are unbound, and the caller stores cells into cell and free
    slots with `store_slot`. Original slot 0 stays slot 0, since super() looks there. The tuple of
    lifted objects is the last argument of code that loads it.
    """

    def __init__(self, decoded: DecodedCode, takes_state: bool = False) -> None:
        self.decoded, self.takes_state = decoded, takes_state
        self.dialect = current()
        self._code = decoded.code
        # instructions, labels, and where protected stretches begin and end
        self._raw: list[Any] = []
        # the targets of `unpack_into`, by the id of what stands for it
        self._unpacked: dict[int, list[int]] = {}
        self._region: TryBegin | None = None
        self._constants: dict[int, ConstantObject] = {
            id(const): ConstantObject(const) for const in self._code.co_consts
        }
        self._temps = 0
        self._nulls: set[int] = set()  # temporaries that a NULL was taken off the stack into
        self._raw_positions: list[Position] | None = None
        self._start = location((self._code.co_firstlineno, None, None, None))
        self._position: InstrLocation | None = self._start
        self.state_slot = self.temp() if takes_state else None
        self.lifted_slot: int | None = None  # once it is loaded

    # Prologues, which are made last.

    def _prologue(self) -> None:
        self._position = self._start
        if self.state_slot is None:
            self._args_prologue()
        else:
            self._state_prologue(self.state_slot)

    def _args_prologue(self) -> None:
        if self.decoded.frees:
            self.emit("COPY_FREE_VARS", len(self.decoded.frees))
        for slot in sorted(self.decoded.cells):
            self.make_cell(slot)
        self.emit("RESUME", 0)

    def _state_prologue(self, state_slot: int) -> None:
        """Emits the start of a continuation: moves its arguments (the state, lifted objects) from
        the slots of the frame's own locals to temporaries."""
        # never run: a frame's locals() takes a cell for a value unless MAKE_CELL is after it
        if self.decoded.cells:
            behind = self.label()
            self.jump(behind)
            for slot in sorted(self.decoded.cells):
                self.make_cell(slot)
            self.place_label(behind)
        # 2: no check for signals, which the original's handlers could not see here
        self.emit("RESUME", 2)
        arrived = zip(range(self._code.co_nlocals), (state_slot, self.lifted_slot), strict=False)
        for slot, kept in arrived:
            if kept is not None:
                self._emit_local("LOAD_FAST", slot)
                self._emit_local("STORE_FAST", kept)
                self._emit_local("DELETE_FAST", slot)

    # Slots, constants, names.

    def slot(self, index: int) -> int:
        """The handle of an original slot: its index; `finish` maps it to where the slot is
        then."""
        if not 0 <= index < len(self.decoded.slots):
            raise IndexError(f"no slot {index} in {self._code.co_qualname}")
        return index

    @property
    def size(self) -> int:
        """How many instructions there are so far."""
        return len(self._raw)

    def temp(self) -> int:
        """A new local, unbound."""
        self._temps += 1
        return -self._temps

    def constant(self, value: Any) -> ConstantObject:
        """Adds `value` to the constants, once; equal objects stay separate."""
        return self._constants.setdefault(id(value), ConstantObject(value))

    # Emission.

    def emit(self, op: str, arg: Any = UNSET) -> None:
        """Append an instruction of the running version by name; its argument is as the `bytecode`
        library has it."""
        self._raw.append(Raw(op, arg, location=self._position))

    def _emit_local(self, op: str, slot: int) -> None:
        """Append an instruction that takes what is in a slot, of a cell or free variable the
        cell."""
        self.emit(op, self._local(slot))

    def _emit_variable(self, op: str, slot: int) -> None:
        """Append an instruction on a cell or free variable."""
        self.emit(op, variable(self.decoded.slots[slot], self._code))

    def _local(self, slot: int) -> str:
        if slot < 0:
            return f".{-slot}"
        name = self.decoded.slots[slot]
        return name if slot < self._code.co_nlocals else raw_slot(name)

    def line(self, line: int | None) -> None:
        """What follows belongs to this line."""
        self._position = location((line, None, None, None))

    def at(self, instr: Instr) -> None:
        """What follows belongs where the last raw instruction of a group does."""
        *_, raw = raw_instructions(self._code.co_code, self.dialect.caches, instr.offset, instr.end)
        self._position = location(self._positions()[raw.start // 2])

    def _positions(self) -> list[Position]:
        if self._raw_positions is None:
            self._raw_positions = list(self._code.co_positions())
        return self._raw_positions

    def label(self) -> Label:
        """A new label, not placed yet."""
        return Label()

    def place_label(self, label: Label) -> None:
        """Place `label` here."""
        self._raw.append(label)

    @contextmanager
    def protect(self, handler: Label, depth: int, lasti: bool) -> Iterator[None]:
        """An exception inside cuts the stack to `depth`, pushes the raising index if `lasti`, and
        goes to `handler`."""
        with self._in_region(TryBegin(handler, lasti, depth)):
            self.emit(
                "NOP"
                # 3.13 looks an exception that leaves a callee run in the same loop up at the unit
                # before the call
            )
            yield

    @contextmanager
    def _in_region(self, region: TryBegin | None) -> Iterator[None]:
        """Code inside is in one region, or in none, and in no other."""
        outer = self._region
        self._enter(region)
        try:
            yield
        finally:
            self._enter(outer and TryBegin(outer.target, outer.push_lasti, outer.stack_depth))

    def _enter(self, region: TryBegin | None) -> None:
        if self._region is not None:
            self._raw.append(TryEnd(self._region))
        if region is not None:
            self._raw.append(region)
        self._region = region

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
        temp = self.temp()
        self._nulls.add(temp)
        self._emit_local("STORE_FAST", temp)

    # Names and constants.

    def load_const(self, value: Any) -> None:
        """Push any object. CPython interns strings that look like names, in tuples and frozensets
        too."""
        self.emit("LOAD_CONST", self.constant(value))

    def load_slot(self, slot: int) -> None:
        """Push what a slot holds; UnboundLocalError if it is unbound."""
        self._emit_local(self.dialect.checked_load, slot)

    def load_state(self) -> None:
        """Pushes the state tuple, in code that takes one."""
        assert self.state_slot is not None
        self.load_slot(self.state_slot)

    def load_lifted(self) -> None:
        """Push the tuple of lifted objects."""
        if self.lifted_slot is None:
            self.lifted_slot = self.temp()
        self.load_slot(self.lifted_slot)

    def store_slot(self, slot: int) -> None:
        """Store into any slot; into a cell's or free variable's slot: the cell itself."""
        self._emit_local("STORE_FAST", slot)

    def delete_slot(self, slot: int) -> None:
        self._emit_local("DELETE_FAST", slot)

    def make_cell(self, slot: int) -> None:
        self._emit_variable("MAKE_CELL", slot)

    def load_cell(self, slot: int) -> None:
        """Push the cell in a cell's or free variable's slot."""
        self.load_slot(slot)

    def load_deref(self, slot: int) -> None:
        self._emit_variable("LOAD_DEREF", slot)

    def store_deref(self, slot: int) -> None:
        self._emit_variable("STORE_DEREF", slot)

    def delete_deref(self, slot: int) -> None:
        self._emit_variable("DELETE_DEREF", slot)

    def load_attr(self, name: str) -> None:
        self.emit("LOAD_ATTR", self.dialect.plain_attribute(name))

    def load_method(self, name: str) -> None:
        """obj -> the two slots that CALL finds under its arguments: the function and `obj`, or what
        getattr gives and NULL"""
        self.dialect.load_method(self, name)

    def store_attr(self, name: str) -> None:
        """value, obj ->"""
        self.emit("STORE_ATTR", name)

    def subscr(self) -> None:
        self.emit("BINARY_SUBSCR")

    def store_subscr(self) -> None:
        """value, container, key ->"""
        self.emit("STORE_SUBSCR")

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

    def build_slice(self, n: int) -> None:
        self.emit("BUILD_SLICE", n)

    def unpack_sequence(self, n: int) -> None:
        """The first item ends on top."""
        self.emit("UNPACK_SEQUENCE", n)

    def unpack_into(self, slots: list[int]) -> None:
        """sequence -> ; its items go into `slots`, which may still grow until `finish`. None: it is
        dropped."""
        self.emit("POP_TOP")
        self._unpacked[id(self._raw[-1])] = slots

    # Calls.

    def push_null_before_callee(self) -> None:
        """Emits the NULL of a plain call where it belongs below the callee. A call of this precedes
        the push of the callee, and one of `push_null_after_callee` follows it."""
        if self.dialect.null_below:
            self.emit("PUSH_NULL")

    def push_null_after_callee(self) -> None:
        if not self.dialect.null_below:
            self.emit("PUSH_NULL")

    def load_callee(self, function: Any) -> None:
        """Pushes any callable, for a plain call of it."""
        self.push_null_before_callee()
        self.load_const(function)
        self.push_null_after_callee()

    def call(self, n: int, names: Sequence[str] = ()) -> None:
        """`n` arguments in all, the last len(names) of them by keyword."""
        self.dialect.call(self, n, tuple(names))

    def notify(self, callee: Any) -> None:
        """Calls a constant, for what it does."""
        self.load_callee(callee)
        self.call(0)
        self.pop_top()

    def make_function(self, parts: Sequence[str] = ()) -> None:
        """`parts` name what is under the code object, bottom first, as in Instr.arg of
        MAKE_FUNCTION."""
        self.dialect.make_function(
            self, sum(bit for bit, part in FUNCTION_PARTS.items() if part in parts)
        )

    # Control.

    def jump(self, label: Label) -> None:
        self.emit("JUMP_FORWARD", label)

    def jump_if(self, when: bool, label: Label) -> None:
        """Pop a value of any type; jump when bool() of it is `when`."""
        if self.dialect.truth:
            self.emit(self.dialect.truth)
        self.emit(self.dialect.jump_if[when], label)

    def get_iter(self) -> None:
        self.emit("GET_ITER")

    def return_value(self) -> None:
        self.emit("RETURN_VALUE")

    # Exceptions.

    def reraise(self, n: int = 0) -> None:
        self.emit("RERAISE", n)

    def push_exc_info(self) -> None:
        self.emit("PUSH_EXC_INFO")

    def pop_except(self) -> None:
        self.emit("POP_EXCEPT")

    def check_exc_match(self) -> None:
        self.emit("CHECK_EXC_MATCH")

    # Copies.

    def raw(self, instr: Instr, jump: Label | None = None) -> None:
        """The whole raw group of `instr` with its own positions; if it jumps, to `jump`."""
        positions = self._positions()
        before, previous = self._position, ""
        dialect = self.dialect
        for raw in raw_instructions(self._code.co_code, dialect.caches, instr.offset, instr.end):
            op = opcode.opname[raw.op]
            self._position = location(positions[raw.start // 2])
            # the original knew that it is a bool
            if op in dialect.needs_truth and previous not in dialect.truths:
                self.emit(dialect.truth or "NOP")
            if op in dialect.pairs:  # after an inserted slot its slots may not fit any more
                for one, slot in zip(dialect.pairs[op], (raw.arg >> 4, raw.arg & 15), strict=True):
                    self._emit_local(one, slot)
            elif raw.op in opcode.haslocal:
                self._emit_local(op, raw.arg)
            elif raw.op in opcode.hasfree:
                self._emit_variable(op, raw.arg)
            elif raw.op in dialect.jumps:
                assert jump is not None, f"{op} needs a label"
                self.emit(dialect.forward.get(op, op), jump)
            else:
                self._raw.append(symbolic(op, raw.arg, self._code, self._position))
            previous = op
        self._position = before

    # The code object.

    def finish(self) -> CodeType:
        """The code object. The builder is used up."""
        self._unpack()
        body, self._raw = self._raw, []
        self._prologue()
        self._raw += body
        varnames = self._varnames()
        temporaries = {self._local(-1 - n) for n in range(self._temps) if -1 - n not in self._nulls}
        self._raw = drop_idle_temporaries(self._raw, temporaries)
        self._redirect_jumps()
        flags = self._code.co_flags & ~(VARARGS | VARKEYWORDS | GENERATORS)
        own = self.decoded.nargs if self.state_slot is None else 1
        argcount = own + (self.lifted_slot is not None)
        return make_code(self._raw, self._code, Signature(argcount, varnames, flags))

    def _varnames(self) -> tuple[str, ...]:
        """The names of locals in order: the original's, with the lifted objects after the
        arguments, then temporaries, first those in whose places the state and the lifted objects
        arrive."""
        names = list(self._code.co_varnames)
        arriving = [self.state_slot, self.lifted_slot][len(names) :]
        if self.state_slot is None and self.lifted_slot is not None:
            names.insert(self.decoded.nargs, self._local(self.lifted_slot))
        first = [self._local(slot) for slot in arriving if slot is not None]
        temps = (self._local(-1 - n) for n in range(self._temps))
        return tuple(dict.fromkeys((*names, *first, *temps)))

    def _unpack(self) -> None:
        """Spell `unpack_into` out."""
        instructions, self._raw = self._raw, []
        for instr in instructions:
            targets = self._unpacked.get(id(instr))
            if not targets:
                self._raw.append(instr)
                continue
            self._position = instr.location
            self.emit("UNPACK_SEQUENCE", len(targets))
            for slot in targets:
                self._emit_local("STORE_FAST", slot)

    def _redirect_jumps(self) -> None:
        """Send jumps that need something at their target, or cannot go back, through a landing
        after the code."""
        dialect = self.dialect
        placed = {
            id(item): index for index, item in enumerate(self._raw) if isinstance(item, Label)
        }
        for index, instr in enumerate(list(self._raw)):
            if not isinstance(instr, Raw) or not isinstance(instr.arg, Label):
                continue
            target = instr.arg
            back = placed[id(target)] <= index
            exits = dialect.exits.get(instr.name, ())
            if back and instr.name in dialect.backward:
                instr.name = dialect.backward[instr.name]
            elif back or exits:
                self._position = instr.location
                instr.arg = self.label()
                self.place_label(instr.arg)
                for op in exits:
                    self.emit(op)
                self.emit("JUMP_BACKWARD_NO_INTERRUPT", target)
