"""The end of generated code at a graph break: it restores the slots and the stack of the broken
frame, runs the breaking instruction group, and returns a continuation for each way out of that
group.

A break in an inlined frame is run by stubs, one for each inlined frame. A stub is a function with
the names and lines of the user's function; it restores its frame's state and calls the next stub,
down to the one that runs the breaking group. A stub returns the continuation's maker and its
frame's new state, to which its caller adds its own state.
"""

from __future__ import annotations

from dataclasses import replace
from types import FunctionType

from ...guards.source import SequenceItem, SlotSource
from ..pycode.code_builder import CodeBuilder, dummy_closure
from ..pycode.passthrough import make_passthrough
from ..pycode.resume import ResumePoint, SuspendedFrame
from ..tracing.interpreter.outcome import BreakExit, BrokenFrame
from ..values.base import LazyValue, Value
from ..values.containers.sequence import TupleValue
from ..values.objects.current_exception import HandledException
from .break_emission import (
    BreakCode,
    BreakEmission,
    InnerStub,
    Makers,
    TimingMarks,
    bound_slots,
    stack_kinds,
)
from .reconstruct import Reconstructor


def emit_break(
    emit: Reconstructor, exit_: BreakExit, makers: Makers, marks: TimingMarks | None
) -> None:
    """Ends the code of the outermost frame. Raises UnsupportedInstruction, Unresumable or
    CannotReconstruct where no code can be generated."""
    frames, handlers = exit_.frames, open_handlers(exit_)
    waiting = tuple(
        awaiting_frame(frame, open_) for frame, open_ in zip(frames[:-1], handlers, strict=False)
    )
    shared = BreakCode(makers, exit_.runs_no_frame, marks)
    inner = None
    for depth in range(len(frames) - 1, 0, -1):
        inner = make_stub(frames[depth], handlers[depth], waiting[:depth], inner, shared)
    BreakEmission(emit, frames[0], handlers[0], (), inner, shared).run()


def make_stub(
    frame: BrokenFrame,
    open_: frozenset[int],
    outer: tuple[SuspendedFrame, ...],
    inner: InnerStub | None,
    shared: BreakCode,
) -> InnerStub:
    """The stub of a frame, and its state, which its caller builds."""
    inputs = StubInputs()
    slots = tuple(value if value is None else inputs.take(value) for value in frame.slots)
    stack = tuple(inputs.take(value) for value in frame.stack)
    builder = CodeBuilder(frame.decoded, takes_state=True)
    below = inner and InnerStub(inner.stub, inputs.take(inner.state))
    stub_frame = replace(frame, slots=slots, stack=stack)
    builder.line(frame.decoded.instrs[frame.index].line)
    emit = Reconstructor(builder, frame.globals)
    BreakEmission(emit, stub_frame, open_, outer, below, shared).run()
    code = builder.finish()
    stub = FunctionType(code, frame.globals, code.co_name, None, dummy_closure(code))
    # not a frame of the user's: the hook skips it
    stub._framejit_skip = True  # type: ignore[attr-defined]
    for between in reversed(frame.passthroughs):
        stub = make_passthrough(between, stub)
    return InnerStub(stub, TupleValue(inputs.values))


class StubInputs:
    """The values that a stub gets in its state tuple, and where it finds them."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._argument_locations: dict[Value, LazyValue] = {}

    def take(self, value: Value) -> Value:
        if value.is_code_constant:  # the stub has it among its own constants
            return value
        if isinstance(value, HandledException):
            return HandledException(None, self.take(value.current))
        if value not in self._argument_locations:
            self._argument_locations[value] = LazyValue(
                None, SequenceItem(SlotSource(0, "state"), len(self.values))
            )
            self.values.append(value)
        return self._argument_locations[value]


def awaiting_frame(frame: BrokenFrame, open_: frozenset[int]) -> SuspendedFrame:
    """A frame that waits for a call. What its exception handler reads counts as live."""
    point = ResumePoint(
        frame.index,
        stack_kinds(frame.stack, open_),
        frozenset(bound_slots(frame, frame.index)),
        True,
    )
    return SuspendedFrame(frame.decoded, frame.globals, point, frame.passthroughs, frame.completion)


def open_handlers(exit_: BreakExit) -> list[frozenset[int]]:
    """For each frame, the stack positions of the open handlers' items. A handler's cleanup copies
    its item and pops the copy; the original is then dead."""
    handled, found = exit_.handled, []
    for frame in reversed(exit_.frames):
        positions = set()
        for position in reversed(range(len(frame.stack))):
            value = frame.stack[position]
            if (
                isinstance(value, HandledException)
                and handled is not None
                and value.current is handled
            ):
                positions.add(position)
                handled = value.previous
        found.append(frozenset(positions))
    return found[::-1]
