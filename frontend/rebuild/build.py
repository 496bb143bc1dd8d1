"""Capture to code: call the graph, replay the effects, then return or run the breaking instruction and hand on the rest.

Out: the code object, the graph's outputs, and the paths whose objects the guards must lift for it.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
import torch.fx

from ...errors import Rerun
from ...guards.source import Source
from ..interpret.capture import Break, Capture, Return
from ..pycode.assemble import CodeBuilder, Label
from ..pycode.instr import DecodedCode, Op
from ..pycode.resume import ResumePoint
from ..values.base import Null, Value
from ..values.constant import Constant
from ..values.context_manager import GRAD_MODES, Modes, enter_for_real, leave_for_real
from ..values.function import CellValue
from ..values.handled import Handled, LastInstruction
from ..values.symbolic_number import SymbolicNumber
from .effect import GroupEffect, group_effect, group_end
from .reload import Reloader
from .replay import replay


class GraphSlot:
    """Stands in the constants of rebuilt code for the compiled graph, until there is one."""


@dataclass(frozen=True)
class Rebuilt:
    """What rebuild hands on. `bind` puts the compiled graph where the code expects it."""

    code: CodeType
    slot: GraphSlot
    inputs: tuple[torch.fx.Node, ...]
    outputs: tuple[torch.fx.Node, ...]
    lifted: tuple[Source, ...]

    def bind(self, compiled: Any) -> CodeType:
        consts = tuple(compiled if const is self.slot else const for const in self.code.co_consts)
        return self.code.replace(co_consts=consts)


@dataclass(frozen=True)
class Continuations:
    """How rebuilt code names what comes next: callables of a state tuple that it returns the result of."""

    resume: Callable[[ResumePoint], Any]  # after a break
    rerun: Callable[[], Any]  # this same frame or continuation in eager, from its start


def rebuild(capture: Capture, continuations: Continuations, globals_: dict[str, Any]) -> Rebuilt:
    """Emits the code of a capture. Raises Unreloadable or Unsupported when Python's state cannot be made."""
    emission = Emission(capture, continuations, globals_, lifted=True)
    rebuilt = emission.run()
    if not rebuilt.lifted:
        rebuilt = Emission(capture, continuations, globals_, lifted=False).run()
    return rebuilt


class Emission:
    """One pass over a capture."""

    def __init__(self, capture: Capture, continuations: Continuations, globals_: dict[str, Any], *, lifted: bool) -> None:
        self.capture, self.continuations = capture, continuations
        self.b = CodeBuilder(capture.decoded, "args" if capture.entry == "args" else "state", lifted=lifted)
        self.r = Reloader(self.b, capture.entry, globals_)
        self.slot = GraphSlot()

    def run(self) -> Rebuilt:
        trace, exit_ = self.capture.trace, self.capture.exit
        if isinstance(exit_, Break):
            self.b.line(self.capture.decoded.instrs[exit_.index].line)
        inputs = self._graph()
        replay(self.r, trace.effects)
        self._modes(trace.modes)
        if isinstance(exit_, Return):
            self.r.reload(exit_.value)
            self.b.return_value()
        else:
            BreakEmission(self, exit_).run()
        return Rebuilt(self.b.finish(), self.slot, inputs, tuple(self.r.outputs), tuple(self.r.lifted))

    def _modes(self, modes: Modes) -> None:
        """The modes that the program leaves behind, as they are under those that it has open."""
        for manager in modes.left:
            if manager.cls not in GRAD_MODES:
                self.r.call(leave_for_real, [self.r.push(manager)])
                self.b.pop_top()
        if modes.lasting_grad is not None:
            self.r.call(torch._C._set_grad_enabled, [self.r.const(modes.lasting_grad)])
            self.b.pop_top()

    def _graph(self) -> tuple[torch.fx.Node, ...]:
        """Calls the graph, if it has anything to do; its results go into a temporary."""
        graph = self.capture.trace.graph
        if not graph.nodes:
            return ()
        used = [item for item in graph.inputs if item.value.node.users]
        b = self.b
        self.r.results = b.temp()
        failed = b.label()
        b.push_null_before_callee()
        b.load_const(self.slot)
        b.push_null_after_callee()
        for item in used:
            self.r.load(item.source)
        with b.protect(failed, 0, False):
            b.call(len(used))
        b.store_slot(self.r.results)
        after = b.label()
        b.jump(after)
        b.mark(failed)
        self._rerun(self.continuations.rerun(), Rerun if any(item.mutated for item in used) else Exception)
        b.mark(after)
        return tuple(item.value.node for item in used)

    def _rerun(self, maker: Any, caught: type[Exception]) -> None:
        """The graph raised `caught`: nothing has happened yet, so the frame starts over in eager and raises where the user expects."""
        b, decoded = self.b, self.capture.decoded
        other = b.label()
        b.push_exc_info()
        b.load_const(caught)
        b.check_exc_match()
        b.jump_if(False, other)
        b.pop_top()
        b.pop_except()
        b.push_null_before_callee()
        b.load_const(maker)
        b.push_null_after_callee()
        if self.capture.entry == "state":
            b.load_slot(b.state_slot)
        else:
            self._arguments(decoded)
        b.call(1)
        b.return_value()
        b.mark(other)
        b.swap(2)
        b.pop_except()
        b.reraise()

    def _arguments(self, decoded: DecodedCode) -> None:
        """The state tuple of a frame at its start: argument slots raw, then the closure's cells."""
        slots = start_slots(decoded)
        for slot in slots:
            if slot in decoded.frees:
                self.b.load_cell(slot)
            elif slot in decoded.cells:
                self.b.load_deref(slot)
            else:
                self.b.load_slot(slot)
        self.b.build_tuple(len(slots))


def start_slots(decoded: DecodedCode) -> list[int]:
    """The slots that hold something when a frame starts."""
    return sorted([*range(decoded.nargs), *decoded.frees])


class BreakEmission:
    """The end of rebuilt code at a break: real slots, real stack, the raw group, and a Continuation for each way out of it."""

    def __init__(self, emission: Emission, exit_: Break) -> None:
        self.e, self.b, self.r, self.exit = emission, emission.b, emission.r, exit_
        self.decoded = emission.capture.decoded
        self.instr = self.decoded.instrs[exit_.index]
        self.effect: GroupEffect = group_effect(self.decoded, exit_.index)
        depth = len(exit_.stack) - self.effect.operands
        self.kept, self.operands = exit_.stack[:depth], exit_.stack[depth:]
        self.open = open_handlers(self.kept, exit_.handled)
        self.handled = [value for position, value in enumerate(self.kept) if position in self.open]
        self.carried = [value for value in self.kept if not isinstance(value, Null)]
        self.pushed = 0  # what lies under the operands: one a handled exception, one for what is kept

    def run(self) -> None:
        b = self.b
        for manager in self.e.capture.trace.modes.open:
            self.r.call(enter_for_real, [self.r.push(manager)])
            b.pop_top()
        self._prepare()
        self._slots()
        self._stack()
        self._drop_temporaries()
        handler = self.decoded.handlers[self.exit.index]
        jumped, failed = b.label(), b.label()
        if handler is not None:
            with b.protect(failed, self.pushed, False):
                self._group(jumped)
        else:
            self._group(jumped)
        if self.effect.next >= 0:
            self._leave(self.effect.next, self.effect.left)
        if self.effect.target >= 0:
            b.mark(jumped)
            self._leave(self.effect.target, self.effect.jumped)
        if handler is not None:
            b.mark(failed)
            self._caught(handler.target, handler.depth, handler.lasti)

    # before the group

    def _wanted(self) -> list[int]:
        """Slots that the group or what follows it reads, and that hold something."""
        live = self.decoded.live_in[self.exit.index]
        return [slot for slot, value in enumerate(self.exit.slots) if value is not None and slot in live]

    def _in_place(self, slot: int, value: Value) -> bool:
        """Whether a slot already holds its value."""
        if isinstance(value, CellValue):
            return value.slot == slot or (self.e.capture.entry == "args" and slot in self.decoded.frees)
        source = value.source
        return self.e.capture.entry == "args" and source is not None and getattr(source, "index", None) == slot and source.base is None

    def _prepare(self) -> None:
        """Makes every value first, where loads read the argument slots, which storing overwrites."""
        if self.e.capture.entry == "state":
            return
        for slot in self._wanted():
            value = self.exit.slots[slot]
            assert value is not None
            if not self._in_place(slot, value):
                self._make(value)
        for value in self.exit.stack:
            self._make(value)

    def _make(self, value: Value) -> None:
        if isinstance(value, Handled):
            value = value.current
        if not isinstance(value, Null) and (isinstance(value, SymbolicNumber) or not value.is_constant()):
            self.r.reload(value)
            self.b.pop_top()

    def _slots(self) -> None:
        b, live = self.b, self.decoded.live_in[self.exit.index]
        for slot in self._wanted():
            value = self.exit.slots[slot]
            assert value is not None
            if not self._in_place(slot, value):
                self.r.reload(value)
                b.store_slot(slot)
        if self.e.capture.entry == "args":
            for slot in range(self.decoded.nargs):
                if self.exit.slots[slot] is None and slot in live:
                    b.delete_slot(slot)

    def _stack(self) -> None:
        """Under the operands: the open handlers, entered again, and one tuple of all that is kept, last item first."""
        b = self.b
        for value in self.handled:
            self.r.reload(value.current)
            b.push_exc_info()
            b.pop_top()
        for position in reversed(range(len(self.kept))):
            self._carry(position)
        b.build_tuple(len(self.carried))
        self.pushed = len(self.handled) + 1
        for value in self.operands:
            self.r.reload(value)
        if self.instr.op is Op.WITH_EXCEPT_START:
            self._exit_call()

    def _carry(self, position: int) -> None:
        value = self.kept[position]
        if isinstance(value, Handled):
            self.r.reload(value.current if position in self.open else Constant(None))
        elif not isinstance(value, Null):
            self.r.reload(value)

    def _exit_call(self) -> None:
        """exit(type(error), error, error.__traceback__), ready to be called: what WITH_EXCEPT_START finds deep in the stack
        lies in the tuple of what is kept, so it is spelled out."""
        b, r = self.b, self.r
        leave, error = self.exit.stack[-4], self.exit.stack[-1]
        b.push_null_before_callee()
        r.reload(leave)
        b.push_null_after_callee()
        r.call(type, [r.push(error)])
        r.reload(error)
        r.reload(error)
        b.load_attr("__traceback__")

    def _drop_temporaries(self) -> None:
        """What rebuilt code held for itself is gone while the user's code runs."""
        for temp in {*self.r.temps.values(), self.r.results, self.b.state_slot, self.b.lifted_slot} - {None}:
            self.b.delete_slot(temp)

    def _group(self, jumped: Label) -> None:
        if self.effect.only_attribute:
            self.b.line(self.instr.line)
            self.b.load_attr(self.instr.arg)
            return
        for start in self.effect.starts:
            instr = self.decoded.instrs[start]
            spelled_out = SPELLED_OUT.get(instr.op)
            if spelled_out is not None:
                self.b.line(instr.line)
                spelled_out(self.b)
                continue
            jumps = any(i.target >= 0 for i in self.decoded.instrs[start : group_end(self.decoded, start)])
            self.b.raw(instr, jumped if jumps else None)

    # after it

    def _leave(self, index: int, kinds: tuple[str, ...]) -> None:
        """Packs what the group left, and what lay under it, for the instruction at `index`."""
        b = self.b
        results: list[int] = []
        physical = [k for k in kinds if k != "null"] if self.effect.only_attribute else list(kinds)
        for kind in reversed(physical):
            temp = b.temp()
            b.store_slot(temp)
            if kind != "null":
                results.insert(0, temp)
        kept = b.temp()
        b.store_slot(kept)
        bound = self._load_bound(index)
        b.load_slot(kept)
        b.unpack_sequence(len(self.carried)) if self.carried else b.pop_top()
        for temp in results:
            b.load_slot(temp)
        b.build_tuple(len(bound) + len(self.carried) + len(results))
        self._return(index, (*self._kinds(len(self.kept)), *kinds), bound)

    def _caught(self, index: int, depth: int, lasti: bool) -> None:
        """The group raised under a handler of the user's: go on there, with the exception on the stack."""
        b = self.b
        error, kept = b.temp(), b.temp()
        b.store_slot(error)
        b.store_slot(kept)
        bound = self._load_bound(index)
        below = self.kept[:depth]
        carried = sum(not isinstance(value, Null) for value in below)
        for position in range(carried):
            b.load_slot(kept)
            b.load_const(len(self.carried) - 1 - position)
            b.subscr()
        if lasti:
            b.load_const(self.instr.offset // 2)
        b.load_slot(error)
        b.build_tuple(len(bound) + carried + lasti + 1)
        kinds = (*self._kinds(depth), *(("lasti",) if lasti else ()), "value")
        self._return(index, kinds, bound)

    def _load_bound(self, index: int) -> list[int]:
        live = self.decoded.live_in[index]
        bound = [slot for slot, value in enumerate(self.exit.slots) if value is not None and slot in live]
        cells = self.decoded.cells | set(self.decoded.frees)
        for slot in bound:
            (self.b.load_cell if slot in cells else self.b.load_slot)(slot)
        return bound

    def _kinds(self, depth: int) -> tuple[str, ...]:
        """The kinds of the lowest items that are kept."""
        return tuple(
            "null" if isinstance(v, Null) else "exc" if i in self.open else "lasti" if isinstance(v, LastInstruction) else "value"
            for i, v in enumerate(self.kept[:depth])
        )

    def _return(self, index: int, kinds: tuple[str, ...], bound: list[int]) -> None:
        """The state tuple is on top: close the handlers under it and return the continuation."""
        b = self.b
        for _ in self.handled:
            b.swap(2)
            b.pop_except()
        state = b.temp()
        b.store_slot(state)
        b.push_null_before_callee()
        b.load_const(self.e.continuations.resume(ResumePoint(index, kinds, frozenset(bound))))
        b.push_null_after_callee()
        b.load_slot(state)
        b.call(1)
        b.return_value()


# Instructions that look deep into the stack, where rebuilt code has other things.
SPELLED_OUT: dict[Op, Callable[[CodeBuilder], None]] = {
    Op.WITH_EXCEPT_START: lambda b: b.call(3),
    Op.RERAISE: lambda b: b.reraise(),
}


def open_handlers(stack: tuple[Value, ...], handled: Value | None) -> frozenset[int]:
    """Positions of the open handlers' items. A handler's cleanup copies its item and pops the copy: the other is dead."""
    found = set()
    for position in reversed(range(len(stack))):
        value = stack[position]
        if isinstance(value, Handled) and handled is not None and value.current is handled:
            found.add(position)
            handled = value.previous
    return frozenset(found)
