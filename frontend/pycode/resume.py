"""The eager meaning of a continuation: the original code object, entered in its middle.

In: DecodedCode and a ResumePoint. Out: a code object whose one argument is the state tuple. The
original instructions, names and positions follow a generated prologue unchanged, so handlers, lines
and depths are the original's own. State tuple: what the bound slots hold, in ascending slot order
(cell and free slots: the cell), then the stack's items that carry a value, bottom first; of a frame
that waits for a call's result, the state of the frame called follows.
"""

from __future__ import annotations

import opcode
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from bytecode import ConcreteBytecode, ConcreteInstr
from bytecode.concrete import ExceptionTableEntry

from ...records import record
from .call_completion import AS_IS, CallCompletion
from .code_builder import GENERATORS, VARARGS, VARKEYWORDS, dummy_closure
from .code_object import TAKES_ARGUMENT, Position, Signature, location, set_signature
from .decode import Region, raw_instructions, regions
from .dialect import current
from .instr import DecodedCode, Instr, Op
from .passthrough import PassthroughFrame, make_passthrough

OPTIMIZED = 0x1
GENERATOR = 0x20  # CO_GENERATOR
PLAIN = {"value", "null"}


class Unresumable(Exception):
    """This code object, or this place in it, cannot be entered."""


@record
class ResumePoint:
    """Where to enter, and what the state holds.

    stack: the kind of each item, bottom first. "value": anything. "null": a NULL, not in the state.
    "lasti": a raising instruction's index, in code units of the original (its byte offset // 2).
    "exc": where an open handler keeps the previously handled exception; the state holds the
    exception that is being handled there. Where COPY has copied that item (a handler's cleanup),
    the copy is the "exc", which POP_EXCEPT takes, and the original a "value". bound: the slots that
    hold something, and hold it as given: a cell's or free variable's slot a cell (but where an
    inlined comprehension keeps its variable raw there). At `decoded.start` arguments are all raw,
    free variables' slots hold their cells, and the prologue makes this frame's cells. awaits: the
    call at `index`, whose operands are no more on the stack, is running: its result is pushed, then
    the frame goes on after it.
    """

    index: int
    stack: tuple[str, ...]
    bound: frozenset[int]
    awaits: bool = False


@dataclass(frozen=True, eq=False)
class SuspendedFrame:
    """A frame that continues after a break: its code and globals, where, what is between its caller
    and it, and what the caller's instruction makes of its return."""

    decoded: DecodedCode
    globals: dict[str, Any]
    point: ResumePoint
    passthroughs: tuple[PassthroughFrame, ...] = ()
    completion: CallCompletion = AS_IS

    @property
    def key(self) -> tuple[Any, ...]:
        passthroughs = tuple(
            (id(between.function), between.call_index) for between in self.passthroughs
        )
        return id(self.decoded.code), id(self.globals), self.point, passthroughs, self.completion


def make_resume_function(
    frames: tuple[SuspendedFrame, ...], error: BaseException | None = None
) -> FunctionType:
    """A function that takes the state tuple of the outermost of the frames and goes on in the
    innermost one; with an error, by raising it there, once."""
    function, completion = None, AS_IS
    for frame in reversed(frames):
        code = resume_code(
            frame.decoded, frame.point, function, completion, error if frame is frames[-1] else None
        )
        completion = frame.completion
        function = FunctionType(code, frame.globals, code.co_name, None, dummy_closure(code))
        # it is no frame of the user's to compile
        function._framejit_skip = True  # type: ignore[attr-defined]
        for between in reversed(frame.passthroughs):
            function = make_passthrough(between, function)
    assert function is not None
    return function


def resume_code(
    decoded: DecodedCode,
    point: ResumePoint,
    inner: FunctionType | None = None,
    completion: CallCompletion = AS_IS,
    error: BaseException | None = None,
) -> CodeType:
    """A code object that takes the state tuple and goes on at `point`, if it awaits a result with
    what `completion` makes of that of `inner`; with an error, by raising it there, once. Raises
    Unresumable."""
    check_resumable(decoded, point)
    assert point.awaits == (inner is not None)
    first: AwaitedCall | RaisedError | None = None
    if inner is not None:
        first = AwaitedCall(inner, completion)
    elif error is not None:
        first = RaisedError(error)
    return splice_prologue(decoded, Prologue(decoded, point, first))


def splice_prologue(decoded: DecodedCode, prologue: Prologue) -> CodeType:
    """The original with a prologue in front. Its instructions and the depths of its exception table
    are copied as they are: where the library recomputes depths they come out otherwise for a few
    functions in a thousand."""
    code = decoded.code
    head, length = prologue.code, prologue.length
    head.exception_table = [
        *prologue.protection(),
        *(
            ExceptionTableEntry(
                start // 2 + length, end // 2 + length - 1, target // 2 + length, depth, lasti
            )
            for start, end, target, depth, lasti in regions(code.co_exceptiontable)
        ),
    ]
    varnames = code.co_varnames or (".state",)
    head.varnames = list(varnames)
    set_signature(head, code, Signature(1, varnames, code.co_flags & ~(VARARGS | VARKEYWORDS)))
    made = head.to_code(
        stacksize=max(code.co_stacksize, prologue.depth), compute_exception_stack_depths=False
    )
    return made.replace(
        co_code=made.co_code + (shift_slots(code) if prologue.shift else code.co_code),
        co_consts=(*code.co_consts, *prologue.consts),
        co_names=code.co_names,
        co_linetable=made.co_linetable + code.co_linetable,
    )


def generator_code(decoded: DecodedCode, point: ResumePoint, started: bool) -> CodeType:
    """A generator's code that takes the state tuple. One that has started waits, after its first
    next(), where the original waits in the yield before `point`; the other one begins there. Raises
    Unresumable."""
    code = decoded.code
    if code.co_flags & GENERATORS != GENERATOR:
        raise Unresumable(f"{code.co_qualname} is no plain generator")
    return splice_prologue(decoded, Prologue(decoded, point, GeneratorStart(started)))


def check_resumable(decoded: DecodedCode, point: ResumePoint) -> None:
    code = decoded.code
    if code.co_flags & GENERATORS:
        raise Unresumable(f"{code.co_qualname} is a generator or coroutine")
    if not code.co_flags & OPTIMIZED:
        raise Unresumable(f"{code.co_qualname} is not a function body")
    if point.index < decoded.start or not decoded.instrs[point.index].starts_group:
        raise Unresumable(f"instruction {point.index} of {code.co_qualname} does not start a group")
    if point.index == decoded.start and point.stack:
        raise Unresumable("the stack is empty at a function's start")


def region_at(code: CodeType, offset: int) -> Region | None:
    """The exception-table entry that protects a byte offset."""
    return next(
        (
            region
            for region in regions(code.co_exceptiontable)
            if region.start <= offset < region.end
        ),
        None,
    )


def shift_slots(code: CodeType) -> bytes:
    """co_code with every slot one further."""
    dialect, out = current(), bytearray(code.co_code)
    for raw in raw_instructions(code.co_code, dialect.caches):
        if raw.op in dialect.slot_ops:
            at = raw.end - 2 * dialect.caches[raw.op] - 1
            if out[at] == 255:
                raise Unresumable(f"{code.co_qualname} has no local and too many cells")
            out[at] += 1
    return bytes(out)


def _units(arg: int) -> int:
    """The length of an instruction with this oparg, in code units."""
    return max(1, (arg.bit_length() + 7) // 8)


@dataclass(frozen=True)
class AwaitedCall:
    """The call whose result the frame awaits, and what its instruction does with the result."""

    function: FunctionType
    completion: CallCompletion


@record
class RaisedError:
    """An error that is raised in place of the next instruction."""

    error: BaseException


@record
class GeneratorStart:
    """A generator is made; it waits in a yield if the original had started."""

    started: bool


class Prologue:
    """Restores slots and stack from the state tuple, does what comes `first`, then jumps into the
    original code."""

    def __init__(
        self,
        decoded: DecodedCode,
        point: ResumePoint,
        first: AwaitedCall | RaisedError | GeneratorStart | None,
    ) -> None:
        shift = self.shift = 0 if decoded.code.co_nlocals else 1  # the state arrives in a local
        self.code = ConcreteBytecode()
        self.length = 0  # in code units, as all distances here
        self.consts: list[Any] = []
        self._code = decoded.code
        self._base = len(decoded.code.co_consts)
        self._position: Position = (decoded.code.co_firstlineno, None, None, None)
        # where what may raise begins, and the original's instruction
        self._called: tuple[int, Instr] | None = None
        self._landing: int | None = None  # where the last jump goes, if not to the point
        instr = decoded.instrs[point.index]
        kinds = (*point.stack, "value") if point.awaits else point.stack
        carried = [kind for kind in kinds if kind != "null"]
        self.depth = max(len(point.bound) + len(carried), len(kinds) + 4)
        slots = [slot + shift for slot in sorted(point.bound)]
        generator = isinstance(first, GeneratorStart)
        self._begin(generator)
        self._unpack_state(slots, len(carried))
        self._stack(kinds, len(carried))
        if point.index == decoded.start and not point.awaits and not generator:
            for slot in sorted(decoded.cells):
                self.emit("MAKE_CELL", slot + shift)
        match first:
            case AwaitedCall(function, completion):
                self._call(function, instr, completion)
            case RaisedError(error):
                self._raise(error, instr)
            case GeneratorStart(started):
                if started:
                    self._wait_in_yield(decoded, point)
            case None:
                self._truth(decoded, instr.offset, instr.end, point.stack)
        self._end = self.length  # of what is protected: the jump aside
        target = instr.end if isinstance(first, AwaitedCall) else instr.offset
        self.emit("JUMP_FORWARD", (target if self._landing is None else self._landing) // 2)
        self.consts = [self.length if const is None else const for const in self.consts]

    def _begin(self, generator: bool) -> None:
        if generator:
            self.emit("RETURN_GENERATOR")
            self.emit("POP_TOP")
        # 2: no check for signals, which the original's handlers could not see here
        self.emit("RESUME", 0 if generator else 2)

    def _unpack_state(self, slots: list[int], carried: int) -> None:
        """Stores the first items of the state tuple in slots, and leaves the others on the
        stack."""
        self.emit("LOAD_FAST", 0)
        if 0 not in slots:
            self.emit("DELETE_FAST", 0)
        self.emit("UNPACK_SEQUENCE", len(slots) + carried)
        for slot in slots:
            self.emit("STORE_FAST", slot)

    def emit(self, op: str, arg: int = 0) -> None:
        takes_argument = opcode.opmap[op] in TAKES_ARGUMENT
        where = location(self._position)
        instr = (
            ConcreteInstr(op, arg, location=where)
            if takes_argument
            else ConcreteInstr(op, location=where)
        )
        caches = instr.use_cache_opcodes()
        self.code += [instr, *(ConcreteInstr("CACHE", 0, location=where) for _ in range(caches))]
        self.length += instr.size // 2 + caches

    def _call(self, inner: FunctionType, instr: Instr, completion: CallCompletion) -> None:
        """Emits the call of an inner function, whose argument (a state) is on top. The call has the
        position of the original one."""
        dialect, first = current(), self._position
        self._callee(inner)
        *_, raw = raw_instructions(self._code.co_code, dialect.caches, instr.offset, instr.end)
        self._position = list(self._code.co_positions())[raw.start // 2]
        self._called = (self.length, instr)
        self.emit("NOP")  # see CodeBuilder.protect
        dialect.call(self, 1, ())
        if completion.function is not None:
            self.emit("BUILD_TUPLE", completion.takes + 1)
            self._callee(completion.function)
            dialect.call(self, 1, ())
            if dialect.null_below:
                self.emit("PUSH_NULL")
                self.emit("SWAP", 2)
            self.emit("UNPACK_SEQUENCE", 2)
            if not dialect.null_below:
                self.emit("PUSH_NULL")
                self.emit("SWAP", 2)
            self.emit("CALL_FUNCTION_EX", 0)
        if not completion.leaves:
            self.emit("POP_TOP")
        self._position = first

    def _callee(self, function: Any) -> None:
        """Puts a constant under the argument that is on top, for a call of it."""
        dialect = current()
        if dialect.null_below:
            self.emit("PUSH_NULL")
            self.emit("SWAP", 2)
        self._const(function)
        self.emit("SWAP", 2)
        if not dialect.null_below:
            self.emit("PUSH_NULL")
            self.emit("SWAP", 2)

    def _raise(self, error: BaseException, instr: Instr) -> None:
        """Raises in place of the original instruction; after one that begins a handler, since the
        end of the handler assumes that it has begun. The error's traceback will name this code,
        which the garbage collector does not search: so the code must not keep the error."""
        dialect, first = current(), self._position
        self._position = list(self._code.co_positions())[instr.offset // 2]
        if instr.op is Op.PUSH_EXC_INFO:
            self.emit("PUSH_EXC_INFO")
        self._called = (self.length, instr)
        self.emit("NOP")
        if dialect.null_below:
            self.emit("PUSH_NULL")
        self._const([error].pop)
        if not dialect.null_below:
            self.emit("PUSH_NULL")
        dialect.call(self, 0, ())
        self.emit("RAISE_VARARGS", 1)
        self._position = first

    def _wait_in_yield(self, decoded: DecodedCode, point: ResumePoint) -> None:
        """Waits as the original does in its yield, RESUME included: gen.throw() looks at it to see
        whether it delegates."""
        instr, first, caches = decoded.instrs[point.index - 1], self._position, current().caches
        waiting, after = list(raw_instructions(self._code.co_code, caches, instr.offset))[:2]
        names = opcode.opname[waiting.op], opcode.opname[after.op]
        if names != ("YIELD_VALUE", "RESUME"):
            raise Unresumable(f"{self._code.co_qualname} waits in {names[0]}")
        self._const(Ellipsis)  # what the first next() gives
        self._position = list(self._code.co_positions())[waiting.start // 2]
        sender = decoded.instrs[point.index - 2]
        # no instruction pairs with SEND's jump: gen.throw() itself makes it
        throws = sender.op is Op.SEND and not current().exits["SEND"]
        to_send = decoded.instrs[point.index].offset // 2
        to_landing = decoded.instrs[sender.target].offset
        back = to_send + _units(to_landing // 2)  # over the landing
        if throws:
            self.emit("JUMP_FORWARD", 1)
            self.emit("SEND", 2 + _units(back))
        self._called = (self.length, instr)
        self.emit("YIELD_VALUE", waiting.arg)
        self.emit("RESUME", after.arg)
        if throws:
            self.emit("JUMP_FORWARD", back)
            self._landing = to_landing
        self._position = first

    def protection(self) -> list[ExceptionTableEntry]:
        """The exception-table entry for the awaited call, the error or the yield, if the original
        is protected."""
        region = self._called and region_at(self._code, self._called[1].offset)
        if not region or self._called is None:
            return []
        return [
            ExceptionTableEntry(
                self._called[0],
                self._end - 1,
                region.target // 2 + self.length,
                region.depth,
                region.lasti,
            )
        ]

    def _const(self, value: Any) -> None:
        """Push a constant; None stands for the prologue's length."""
        if value not in self.consts:
            self.consts.append(value)
        self.emit("LOAD_CONST", self._base + self.consts.index(value))

    def _stack(self, kinds: tuple[str, ...], carried: int) -> None:
        """The stack holds the carried items, the first on top; turn them over and do what their
        kinds ask."""
        if PLAIN.issuperset(kinds) and "null" not in kinds[:-1]:
            if carried > 1:
                self.emit("BUILD_TUPLE", carried)
                self.emit("UNPACK_SEQUENCE", carried)
            if "null" in kinds:
                self.emit("PUSH_NULL")
            return
        self.emit("BUILD_TUPLE", carried)  # it stays on top, last item first, until all are out
        left = carried
        for kind in kinds:
            if kind == "null":
                self.emit("PUSH_NULL")
            else:
                left -= 1
                self.emit("COPY", 1)
                self._const(left)
                self.emit("BINARY_SUBSCR")
            if kind == "lasti":
                self._const(None)
                self.emit("BINARY_OP", 0)  # +
            elif kind == "exc":
                self.emit("PUSH_EXC_INFO")
                self.emit("POP_TOP")
            self.emit("SWAP", 2)
        self.emit("POP_TOP")

    def _truth(self, decoded: DecodedCode, start: int, end: int, stack: tuple[str, ...]) -> None:
        """Where the original knows that it tests a bool, make it one."""
        dialect = current()
        first = next(raw_instructions(decoded.code.co_code, dialect.caches, start, end))
        if dialect.truth and first.op in dialect.bool_ops and stack[-1:] == ("value",):
            self.emit(dialect.truth)
