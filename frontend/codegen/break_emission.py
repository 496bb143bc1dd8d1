"""Emits one frame of a break: restores its slots and its stack, runs the breaking instruction
group, and returns the continuation for each way out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Protocol

from bytecode import Label

from ...records import record
from ..pycode.code_builder import CodeBuilder
from ..pycode.instr import Handler, Instr, Op
from ..pycode.resume import ResumePoint, SuspendedFrame
from ..tracing.interpreter.outcome import BrokenFrame
from ..values.base import Null, Value
from ..values.constant import Constant
from ..values.functions.cell import CellValue
from ..values.objects.current_exception import HandledException, LastInstruction
from ..values.tensor.tensor import TensorMethod
from .break_tail import break_tail, is_return
from .reconstruct import Reconstructor
from .stack_effect import GroupEffect, awaited_effect, effect_of_groups, group_effect

Makers = Callable[[tuple[SuspendedFrame, ...]], Any]


class TimingMarks(Protocol):
    """Functions that generated code calls where time is measured."""

    def begin(self) -> None: ...  # a unit begins

    def leave(self) -> None: ...  # the group that breaks begins

    def resume(self) -> None: ...  # it is done

    def end(self) -> None: ...  # the unit is the last one, and returns


@dataclass(frozen=True)
class InnerStub:
    """What a frame calls instead of its own call instruction: the stub of the next frame, with that
    stub's state."""

    stub: FunctionType
    state: Value


@record
class BreakCode:
    """What the code of all frames of one break has in common. frames_unseen: no code can read a
    frame while the group runs, so temporaries may hold anything."""

    makers: Makers
    frames_unseen: bool
    marks: TimingMarks | None


def bound_slots(frame: BrokenFrame, index: int) -> list[int]:
    """The bound slots that the instruction at `index`, or code after it, reads."""
    live = frame.decoded.live_in[index]
    return [slot for slot, value in enumerate(frame.slots) if value is not None and slot in live]


def stack_kinds(stack: tuple[Value, ...], open_: frozenset[int]) -> tuple[str, ...]:
    """The kinds of stack items, as in ResumePoint.stack."""
    return tuple(stack_kind(value, position in open_) for position, value in enumerate(stack))


def stack_kind(value: Value, is_open: bool) -> str:
    if isinstance(value, Null):
        return "null"
    if is_open:
        return "exc"
    return "lasti" if isinstance(value, LastInstruction) else "value"


class BreakEmission:
    """Emits one frame of a break."""

    def __init__(
        self,
        emit: Reconstructor,
        frame: BrokenFrame,
        open_: frozenset[int],
        outer: tuple[SuspendedFrame, ...],
        inner: InnerStub | None,
        shared: BreakCode,
    ) -> None:
        self.emit, self.builder, self.shared = emit, emit.builder, shared
        self.frame, self.open, self.outer, self.inner = frame, open_, outer, inner
        self.decoded, self.marks = frame.decoded, shared.marks if inner is None else None
        self.instr = self.decoded.instrs[frame.index]
        alone = inner is None and not outer and not shared.frames_unseen
        self.tail = break_tail(frame) if alone else None
        self.effect = self._effect()
        depth = len(frame.stack) - self.effect.operands
        self.below, self.operands = frame.stack[:depth], frame.stack[depth:]
        # whether code after the group that only returns from the frame is emitted with it
        self.may_return = (
            alone
            and self.marks is None
            and not self.below
            and self.decoded.handlers[frame.index] is None
        )
        # the callee's upper stack item is NULL, and stays NULL
        if inner is None and self.instr.op is Op.DICT_MERGE:
            self.effect = replace(self.effect, left=stack_kinds(self.operands[:-1], frozenset()))
        self.open_handlers = [
            value
            for position, value in enumerate(self.below)
            if position in self.open and isinstance(value, HandledException)
        ]
        self.below_objects = [value for value in self.below if not isinstance(value, Null)]
        # The number of items under the operands: one for each open handler, one for the tuple of
        # the other items below.
        self.pushed = 0
        self.below_temps: list[int] | None = None  # temporaries that hold the items below instead

    def run(self) -> None:
        """Emits the state of the frame, the instructions that break, and each way out of them."""
        b = self.builder
        self._make_values_first()
        self._emit_slots()
        self._emit_stack()
        self._drop_temporaries()
        handler = self.decoded.handlers[self.frame.index]
        jumped = b.label()
        failures: list[tuple[Instr, Label]] = []  # where the exceptions of which group go
        if self.marks is not None:
            b.notify(self.marks.leave)
        for starts in self._protected_parts(handler):
            if handler is None:
                self._emit_groups(starts, jumped)
                continue
            failures.append((self.decoded.instrs[starts[0]], b.label()))
            with b.protect(failures[-1][1], self.pushed, False):
                self._emit_groups(starts, jumped)
        if self.effect.next >= 0:
            self._emit_exit(self.effect.next, self.effect.left)
        if self.effect.target >= 0:
            b.place_label(jumped)
            self._emit_exit(self.effect.target, self.effect.jumped)
        for instr, failed in failures:
            assert handler is not None
            b.place_label(failed)
            self._emit_handler_exit(instr, handler)

    def _protected_parts(self, handler: Handler | None) -> list[tuple[int, ...]]:
        """The groups, divided where the handler has to know which one has raised."""
        starts = self.effect.starts
        if handler is None or not handler.lasti or self.tail is None:
            return [starts]
        return [(start,) for start in starts]

    def _effect(self) -> GroupEffect:
        index = self.frame.index
        if self.inner is not None:
            return awaited_effect(self.decoded, index)
        if self.tail is None:
            return group_effect(self.decoded, index)
        return effect_of_groups(self.decoded, self.tail.starts, self.tail.end)

    # before the group

    def _is_in_slot(self, slot: int, value: Value) -> bool:
        """Whether a slot already holds its value."""
        if isinstance(value, CellValue):
            return value.slot == slot or (
                not self.builder.takes_state and slot in self.decoded.frees
            )
        source = value.source
        return (
            not self.builder.takes_state
            and source is not None
            and getattr(source, "index", None) == slot
            and source.base is None
        )

    def _slots_to_store(self) -> Iterator[tuple[int, Value]]:
        for slot in bound_slots(self.frame, self.frame.index):
            value = self.frame.slots[slot]
            assert value is not None
            if not self._is_in_slot(slot, value):
                yield slot, value

    def _make_values_first(self) -> None:
        """Makes every value before any store, since stores overwrite the argument slots that values
        are loaded from."""
        if self.builder.takes_state:
            return
        for _, value in self._slots_to_store():
            self._make_value(value)
        method = self._called_tensor_method()
        for value in (*self.below, *self.operands):
            self._make_value(method.receiver if method is not None and value is method else value)
        if self.inner is not None:
            self._make_value(self.inner.state)

    def _make_value(self, value: Value) -> None:
        if isinstance(value, HandledException):
            value = value.current
        if not isinstance(value, Null) and (value.varies() or not value.is_constant()):
            self.emit.push(value)
            self.builder.pop_top()

    def _emit_slots(self) -> None:
        b, live = self.builder, self.decoded.live_in[self.frame.index]
        for slot, value in self._slots_to_store():
            self.emit.push(value)
            b.store_slot(slot)
        if not self.builder.takes_state:
            for slot in range(self.decoded.nargs):
                if self.frame.slots[slot] is None and slot in live:
                    b.delete_slot(slot)

    def _emit_stack(self) -> None:
        """Enters the open handlers again, pushes the items below the operands (as one tuple, the
        last item first), then the operands."""
        b = self.builder
        for handled in self.open_handlers:
            self.emit.push(handled.current)
            b.push_exc_info()
            b.pop_top()
        if (
            self.shared.frames_unseen
            and not self.open_handlers
            and self.decoded.handlers[self.frame.index] is None
        ):
            self._store_below_in_temporaries()
        else:
            for position in reversed(range(len(self.below))):
                self._push_below(position)
            b.build_tuple(len(self.below_objects))
            self.pushed = len(self.open_handlers) + 1
        method = self._called_tensor_method()
        for value in self.operands:
            if method is not None and value is method:
                self.emit.push_method(method)
            elif method is None or not isinstance(value, Null):
                self.emit.push(value)
        if self.inner is not None:
            b.load_callee(self.inner.stub)
            self.emit.push(self.inner.state)
        elif self.instr.op is Op.WITH_EXCEPT_START:
            self._push_exit_call()

    def _called_tensor_method(self) -> TensorMethod | None:
        """The tensor method that the group only calls, if it does so: then no bound method is
        made."""
        if self.inner is not None or self.instr.op is not Op.CALL:
            return None
        operands = self.operands[-self.instr.arg[0] - 2 :]  # a tail may take others under them
        callee = [value for value in operands[:2] if not isinstance(value, Null)]
        return (
            callee[0]
            if len(callee) == 1
            and type(callee[0]) is TensorMethod
            and id(callee[0]) not in self.emit.temps
            else None
        )

    def _store_below_in_temporaries(self) -> None:
        self.below_temps = []
        for position, value in enumerate(self.below):
            if not isinstance(value, Null):
                self._push_below(position)
                self.below_temps.append(self.builder.temp())
                self.builder.store_slot(self.below_temps[-1])

    def _push_below(self, position: int) -> None:
        value = self.below[position]
        if isinstance(value, HandledException):
            self.emit.push(value.current if position in self.open else Constant(None))
        elif not isinstance(value, Null):
            self.emit.push(value)

    def _push_exit_call(self) -> None:
        """Pushes exit, type(error), error, error.__traceback__, ready to be called.
        WITH_EXCEPT_START would look for them deep in the stack, where generated code has other
        items."""
        b, emit = self.builder, self.emit
        leave, error = self.frame.stack[-4], self.frame.stack[-1]
        b.push_null_before_callee()
        emit.push(leave)
        b.push_null_after_callee()
        emit.call(type, [error])
        emit.push(error)
        emit.push(error)
        b.load_attr("__traceback__")

    def _drop_temporaries(self) -> None:
        """Deletes the temporaries of generated code, before the user's code runs."""
        if self.shared.frames_unseen:
            return
        for temp in {
            *self.emit.temps.values(),
            *self.emit.results,
            self.builder.state_slot,
            self.builder.lifted_slot,
        }:
            if temp is not None:
                self.builder.delete_slot(temp)

    def _emit_groups(self, starts: tuple[int, ...], jumped: Label) -> None:
        """Emits the instruction groups that start there: as they were, but for a call of the next
        frame's stub. jumped: where their jump goes."""
        if self.inner is not None:
            self.builder.at(self.instr)
            self.builder.call(1)
            return
        if self.effect.only_attribute:
            self.builder.line(self.instr.line)
            self.builder.load_attr(self.instr.arg)
            return
        for start in starts:
            instr = self.decoded.instrs[start]
            emit_anew = EMITTED_ANEW.get(instr.op)
            if emit_anew is not None:
                self.builder.line(instr.line)
                emit_anew(self.builder)
                continue
            jumps = any(
                i.target >= 0 for i in self.decoded.instrs[start : self.decoded.group_end(start)]
            )
            self.builder.raw(instr, jumped if jumps else None)

    # after it

    def _emit_exit(self, index: int, left: tuple[str, ...]) -> None:
        """Goes on with the instruction at `index`, above which the group has left these items."""
        if self.may_return and not left and is_return(self.frame, index):
            self._emit_return(self.decoded.instrs[index])
        else:
            self._emit_normal_exit(index, left)

    def _emit_normal_exit(self, index: int, left: tuple[str, ...]) -> None:
        """Builds the state for the instruction at `index` from the results of the group and the
        items below, and returns the continuation."""
        b = self.builder
        self._notify_resumed()
        results: list[int] = []
        physical = [k for k in left if k != "null"] if self.effect.only_attribute else list(left)
        for kind in reversed(physical):
            if kind == "null":
                b.pop_null()
                continue
            temp = b.temp()
            b.store_slot(temp)
            results.insert(0, temp)
        slots = (
            self._bound_after_group(index)
            if self.inner is None
            else bound_slots(self.frame, self.frame.index)
        )

        def state() -> None:
            self._load_slots(slots)
            self._load_below(below_temp)
            for temp in results:
                b.load_slot(temp)
                if self.inner is not None:
                    self._subscript(1)
            b.build_tuple(len(slots) + len(self.below_objects) + len(results))

        below_temp: int | None = None
        if self.below_temps is None:
            below_temp = b.temp()
            b.store_slot(below_temp)
        if self.inner is None:
            point = ResumePoint(
                index, (*stack_kinds(self.below, self.open), *left), frozenset(slots)
            )
            self._return_continuation(lambda: self._load_maker(point), state)
        else:
            self._return_continuation(lambda: self._load_inner_maker(results[0]), state)

    def _emit_return(self, load: Instr) -> None:
        """Returns a variable or a constant from the frame."""
        b = self.builder
        b.line(load.line)
        b.pop_top()  # the tuple of the items below
        (b.load_slot if load.op is Op.LOAD_FAST else b.load_const)(load.arg)
        b.return_value()

    def _bound_after_group(self, index: int) -> list[int]:
        """The bound slots at `index`, after the stores and deletions of the group."""
        held = {slot for slot, value in enumerate(self.frame.slots) if value is not None}
        operands = list(self.operands)
        for start in self.effect.starts:
            for instr in self.decoded.instrs[start : self.decoded.group_end(start)]:
                # an inlined comprehension ends by storing NULL
                if instr.op is Op.STORE_FAST and not isinstance(operands.pop(), Null):
                    held.add(instr.arg)
                elif instr.op in (Op.STORE_FAST, Op.DELETE_FAST):
                    held.discard(instr.arg)
        return sorted(held & self.decoded.live_in[index])

    def _notify_resumed(self) -> None:
        if self.marks is not None:
            self.builder.notify(self.marks.resume)

    def _load_below(self, below_temp: int | None) -> None:
        b = self.builder
        if below_temp is None:
            for temp in self.below_temps or ():
                b.load_slot(temp)
            return
        b.load_slot(below_temp)
        b.unpack_sequence(len(self.below_objects)) if self.below_objects else b.pop_top()

    def _subscript(self, index: int) -> None:
        self.builder.load_const(index)
        self.builder.subscr()

    def _load_inner_maker(self, result: int) -> None:
        self.builder.load_slot(result)
        self._subscript(0)

    def _load_maker(self, point: ResumePoint) -> None:
        frame = self.frame
        here = SuspendedFrame(
            self.decoded, frame.globals, point, frame.passthroughs, frame.completion
        )
        self.builder.load_const(self.shared.makers((*self.outer, here)))

    def _emit_handler_exit(self, instr: Instr, handler: Handler) -> None:
        """Returns the continuation for one of the user's exception handlers; the exception that the
        instruction raised is on the stack."""
        b, index, lasti = self.builder, handler.target, handler.lasti
        self._notify_resumed()
        error, below_temp = b.temp(), b.temp()
        b.store_slot(error)
        b.store_slot(below_temp)
        slots = bound_slots(self.frame, index)
        below = self.below[: handler.depth]
        below_count = sum(not isinstance(value, Null) for value in below)

        def state() -> None:
            self._load_slots(slots)
            for position in range(below_count):
                b.load_slot(below_temp)
                self._subscript(len(self.below_objects) - 1 - position)
            if lasti:
                b.load_const(instr.offset // 2)
            b.load_slot(error)
            b.delete_slot(error)  # its traceback refers to this frame
            b.build_tuple(len(slots) + below_count + lasti + 1)

        stack = (*stack_kinds(below, self.open), *(("lasti",) if lasti else ()), "value")
        self._return_continuation(
            lambda: self._load_maker(ResumePoint(index, stack, frozenset(slots))), state
        )

    def _load_slots(self, slots: list[int]) -> None:
        cells = self.decoded.cells | set(self.decoded.frees)
        for slot in slots:
            (self.builder.load_cell if slot in cells else self.builder.load_slot)(slot)

    def _return_continuation(
        self, push_maker: Callable[[], None], push_state: Callable[[], None]
    ) -> None:
        """Closes the open handlers, whose items are on top of the stack, then returns the
        continuation; in an inlined frame, its maker and state."""
        b = self.builder
        for _ in self.open_handlers:
            b.pop_except()
        if self.outer:
            push_maker()
            push_state()
            b.build_tuple(2)
        else:
            b.push_null_before_callee()
            push_maker()
            b.push_null_after_callee()
            push_state()
            b.call(1)
        b.return_value()


# Instructions that read items deep in the stack, where generated code has other ones.
EMITTED_ANEW: dict[Op, Callable[[CodeBuilder], None]] = {
    Op.WITH_EXCEPT_START: lambda b: b.call(3),
    Op.RERAISE: lambda b: b.reraise(),
}
