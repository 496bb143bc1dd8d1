"""Generates the code object of a capture: it calls the graph, applies the side effects, then
returns, or runs the breaking instruction and returns a continuation.

Out: the code object, the graph's outputs, and the paths whose objects the guards must lift for it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
import torch.fx

from ...backends.graph.collectives import has_collectives
from ...backends.graph.eager_fallback import PASSED_ON
from ...errors import Rerun
from ...guards.source import SlotSource, Source
from ...records import record
from ..pycode.code_builder import CodeBuilder
from ..pycode.instr import DecodedCode
from ..pycode.resume import SuspendedFrame
from ..tracing.capture import Capture
from ..tracing.interpreter.outcome import BreakExit, ReturnExit
from ..values.modes.mode_manager import GRAD_MODES, TorchModes, enter_for_real, leave_for_real
from ..values.tensor.tensor import TensorValue
from .break_emission import TimingMarks
from .reconstruct import Reconstructor
from .resume_stub import emit_break
from .side_effects import emit_side_effects


class GraphSlot:
    """A placeholder in the constants of generated code for the compiled graph."""


@record
class GeneratedCode:
    """The result of `generate_code`. `bind` puts the compiled graph among the code's constants."""

    code: CodeType
    slot: GraphSlot
    inputs: tuple[torch.fx.Node, ...]
    outputs: tuple[torch.fx.Node, ...]
    lifted: tuple[Source, ...]
    # If the code only calls the graph and returns its one result: where the graph's arguments are,
    # as Entry stores it.
    argument_locations: tuple[int, ...] | None

    def bind(self, compiled: Any) -> CodeType:
        consts = tuple(compiled if const is self.slot else const for const in self.code.co_consts)
        return self.code.replace(co_consts=consts)


@record
class Continuations:
    """Factories of the callables that generated code returns a call of: each takes a state
    tuple."""

    # after a break, in the innermost of these frames
    resume: Callable[[tuple[SuspendedFrame, ...]], Any]
    rerun: Callable[[], Any]  # this same frame or continuation in eager, from its start


def generate_code(
    capture: Capture,
    continuations: Continuations,
    globals_: dict[str, Any],
    marks: TimingMarks | None,
) -> GeneratedCode:
    """Emits the code of a capture, with calls of `marks` where it is measured. Raises
    CannotReconstruct or UnsupportedInstruction when Python's state cannot be made."""
    return Emission(capture, continuations, globals_, marks).run()


class Emission:
    """The code of one capture."""

    def __init__(
        self,
        capture: Capture,
        continuations: Continuations,
        globals_: dict[str, Any],
        marks: TimingMarks | None,
    ) -> None:
        self.capture, self.continuations, self.marks = capture, continuations, marks
        self.builder = CodeBuilder(capture.decoded, takes_state=capture.is_continuation)
        self.emit = Reconstructor(self.builder, globals_)
        self.slot = GraphSlot()

    def run(self) -> GeneratedCode:
        """Emits the call of the graph, the side effects, torch's modes, then the return or the
        break."""
        trace, exit_ = self.capture.trace, self.capture.exit
        if isinstance(exit_, BreakExit):
            self.builder.line(self.capture.decoded.instrs[exit_.frames[0].index].line)
        if self.marks is not None:
            self.builder.notify(self.marks.begin)
        inputs = self._graph()
        before = self.builder.size
        emit_side_effects(self.emit, trace.effects)
        trace.random.emit_state(self.emit, seeded_by_graph=bool(trace.graph.nodes))
        self._modes(trace.modes)
        only = before == self.builder.size and isinstance(exit_, ReturnExit) and self.marks is None
        if isinstance(exit_, ReturnExit):
            self.emit.push(exit_.value)
            if self.marks is not None:
                self.builder.notify(self.marks.end)
            self.builder.return_value()
        else:
            emit_break(self.emit, exit_, self.continuations.resume, self.marks)
        return GeneratedCode(
            self.builder.finish(),
            self.slot,
            inputs,
            tuple(self.emit.outputs),
            tuple(self.emit.lifted),
            self._argument_locations() if only else None,
        )

    def _argument_locations(self) -> tuple[int, ...] | None:
        """Where the graph's arguments are found, if it has one result and that is returned."""
        exit_, outputs = self.capture.exit, list(self.emit.outputs)
        used = [item for item in self.capture.trace.graph.inputs if item.node.users]
        returned = (
            isinstance(exit_, ReturnExit)
            and isinstance(exit_.value, TensorValue)
            and exit_.value.source is None
        )
        if (
            not returned
            or self.capture.is_continuation
            or outputs != [exit_.value.node]  # type: ignore[union-attr]
            or any(item.is_mutated for item in used)
            or has_collectives(self.capture.trace.graph.nodes)
        ):
            return None
        argument_locations = {source: -1 - index for index, source in enumerate(self.emit.lifted)}
        cells = self.builder.decoded.cells
        return tuple(
            item.source.index
            if isinstance(item.source, SlotSource) and item.source.index not in cells
            else argument_locations[item.source]
            for item in used
        )

    def _modes(self, modes: TorchModes) -> None:
        """Emits the modes in effect at the end of the capture, including those still open."""
        for manager in modes.left:
            if manager.cls not in GRAD_MODES:
                self.emit.run(leave_for_real, [manager])
        for manager in modes.open:
            self.emit.run(enter_for_real, [manager, self.emit.const(manager.saved[1])])
        if modes.lasting_grad is not None:
            self.emit.run(torch._C._set_grad_enabled, [self.emit.const(modes.lasting_grad)])

    def _graph(self) -> tuple[torch.fx.Node, ...]:
        """Emits the call of the graph, if it does anything; its results go into temporaries."""
        graph = self.capture.trace.graph
        if not graph.nodes:
            return ()
        used = [item for item in graph.inputs if item.node.users]
        b = self.builder
        failed = b.label()
        with b.protect(
            failed,
            0,
            False,
            # from before the call: 3.13 looks an inlined call's exception up at the instruction
            # before
            # it
        ):
            b.load_callee(self.slot)
            for item in used:
                self.emit.load(item.source)
            b.call(len(used))
        b.unpack_into(self.emit.results)
        after = b.label()
        b.jump(after)
        b.place_label(failed)
        only_once = any(item.is_mutated for item in used) or has_collectives(graph.nodes)
        self._rerun(self.continuations.rerun(), Rerun if only_once else Exception)
        b.place_label(after)
        return tuple(item.node for item in used)

    def _rerun(self, maker: Any, caught: type[Exception]) -> None:
        """Emits the handler for `caught`, raised by the graph: nothing has happened yet, so the
        frame starts over in eager and raises where the user expects."""
        b, decoded = self.builder, self.capture.decoded
        other = b.label()
        b.push_exc_info()
        b.load_const(PASSED_ON)
        b.check_exc_match()
        b.jump_if(True, other)
        b.load_const(caught)
        b.check_exc_match()
        b.jump_if(False, other)
        b.pop_top()
        b.pop_except()
        b.load_callee(maker)
        if self.capture.is_continuation:
            b.load_state()
        else:
            self._arguments(decoded)
        b.call(1)
        b.return_value()
        b.place_label(other)
        b.swap(2)
        b.pop_except()
        b.reraise()

    def _arguments(self, decoded: DecodedCode) -> None:
        """The state tuple of a frame at its start: argument slots raw, then the closure's cells."""
        slots = start_slots(decoded)
        for slot in slots:
            if slot in decoded.frees:
                self.builder.load_cell(slot)
            elif slot in decoded.cells:
                self.builder.load_deref(slot)
            else:
                self.builder.load_slot(slot)
        self.builder.build_tuple(len(slots))


def start_slots(decoded: DecodedCode) -> list[int]:
    """The slots that hold something when a frame starts."""
    return sorted([*range(decoded.nargs), *decoded.frees])
