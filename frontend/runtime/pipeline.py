"""The pipeline, top to bottom: one request to compile goes through four stages and becomes an
Entry.

    capture         code and arguments -> graph, guards, side effects, how it ended
    generate code   a capture -> a code object
    backend         graph -> callable
    guards          guards -> a program for C

Capture and code generation may start over with an earlier break. The one broad `except` of the
frontend is in cache.py (`_compile`), around `Compilation.run`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...backends.compile_graph import GraphRequest, compile_graph
from ...backends.graph.eager_fallback import PASSED_ON
from ...errors import GraphBreak, SkipFrame
from ...garbage_collection import no_collections, no_full_collections
from ...guards.program import GuardProgram
from ...guards.source import FrameView
from ...options import Options
from ...records import record
from ...tier import Tier
from ..codegen.build import Continuations, GeneratedCode, generate_code
from ..codegen.stack_effect import UnsupportedInstruction
from ..pycode.code_place import CodePlace
from ..pycode.resume import Unresumable
from ..tracing.capture import Capture
from ..tracing.input_memory import InputMemory, input_memory
from ..tracing.interpreter.outcome import BreakExit, Restart
from ..tracing.interpreter.root import CaptureRequest, capture_call, capture_rest
from ..tracing.sizes.stored_numbers import expect_stored_numbers
from ..tracing.uncaptured_code import UncapturedCode
from ..values.base import CannotReconstruct
from ..values.objects.sharded_module import calls_sharded_module
from ._hook import Quiet
from .active_modes import inside_a_transform, program_of_active_modes, without_saved_tensor_hooks
from .compile_reports import captured_event, report_break, report_specialised
from .compile_unit import CompileUnit
from .entry_guards import entry_guards
from .entry_parts import EntryParts
from .observer import Observer
from .probe import SegmentMarks

MAX_RESTARTS = 20


class Compilation:
    """One request: compile a unit for the arguments of one call.

    function: the function of the root frame. slots: its argument slots; after a break, the state
    tuple. continuations: makes what calls the code after a break. outdated: called when the unit
    should be compiled again.
    """

    def __init__(
        self,
        unit: CompileUnit,
        function: types.FunctionType,
        slots: tuple[Any, ...],
        options: Options,
        observer: Observer,
        continuations: Callable[[Capture], Continuations],
        outdated: Callable[[], None],
    ) -> None:
        self.unit, self.function, self.slots = unit, function, slots
        self.options, self.observer, self.clock = options, observer, observer.clock
        self.continuations, self.outdated = continuations, outdated
        self.marks: SegmentMarks | None = None
        # known once it has run
        self.has_tensor_work = self.has_ended = False
        self.operations = 0  # of the graph

    def run(self) -> EntryParts:
        """Raises SkipFrame where the frame has to run in Python."""
        if inside_a_transform():
            program = program_of_active_modes()  # the transform may end before the frame does
            return EntryParts(program, None, bool(self.unit.frames))
        if calls_sharded_module(self.function.__code__, self.slots):
            raise SkipFrame("fully_shard's hooks run in Python; `forward` is compiled")
        with without_saved_tensor_hooks(), no_full_collections():
            return self._compile()

    def _compile(self) -> EntryParts:
        """Capture, graph, guards and code of an entry, in this order: guards are complete once the
        backend has compiled."""
        self.marks = self.observer.marks()
        with no_collections():
            capture, generated = self._capture_and_generate_code()
        try:
            report_break(self.unit, capture, self.options, self.observer, self.marks)
            memory = input_memory(capture.trace.graph, generated.inputs)
            graph = self._compile_graph(capture, generated, memory)
            program = self._build_guards(capture, generated, memory)
            self.observer.send(captured_event(capture, program, self.observer))
            parts = self._entry_parts(capture, generated, graph, program)
        finally:
            capture.trace.release_objects()
        if isinstance(capture.exit, BreakExit):
            forget_frames(capture.exit.reason, sys.exception())
        return parts

    # stages 1 and 2: capture, generate code

    def _capture_and_generate_code(self) -> tuple[Capture, GeneratedCode]:
        """Starts over with an earlier break where code cannot make the state at a break."""
        self.unit.variation.compare(FrameView(self.slots, self.function))
        stop: Restart | None = None
        for _ in range(MAX_RESTARTS):
            result = self._capture_up_to(stop, sys.exception())
            if not isinstance(result, Restart):
                return result
            stop = result
        raise SkipFrame(f"capture started over {MAX_RESTARTS} times, for a break at another place")

    def _capture_up_to(
        self, stop: Restart | None, handled: BaseException | None
    ) -> tuple[Capture, GeneratedCode] | Restart:
        """A capture that breaks at `stop`, and its code; or where it has to break instead."""
        try:
            with self.clock.phase("trace"):
                capture = self._capture(stop)
        except Restart as restart:
            if stop is not None and restart.position >= stop.position:
                raise SkipFrame(f"no earlier place for a break: {restart.reason}") from restart
            forget_frames(restart, handled)
            forget_frames(restart.reason, handled)
            return restart
        misplaced = capture.trace.misplaced_effect() or capture.trace.expect_size_facts()
        try:
            if misplaced is None:
                with self.clock.phase("codegen"):
                    generated = self._generate_code(capture)
                misplaced = capture.trace.misplaced_backward(generated.outputs)
                if misplaced is None:
                    return capture, generated
        except CannotReconstruct as error:
            created_at = error.created_at
            earlier = created_at if created_at is not None else caller_position(capture)
            if earlier is None or (stop is not None and earlier >= stop.position):
                raise SkipFrame(f"cannot generate code for {error}") from error
            forget_frames(error, handled)
            reason = GraphBreak(error.reason, f"{error}, which outlives what is captured,")
            return Restart(earlier, reason)
        except (UnsupportedInstruction, Unresumable) as error:
            earlier = caller_position(capture)
            if earlier is None or not isinstance(capture.exit, BreakExit):
                raise SkipFrame(f"cannot go on after a break here: {error}") from error
            forget_frames(error, handled)
            return Restart(earlier, capture.exit.reason)
        capture.trace.release_objects()
        return misplaced

    def _capture(self, stop: Restart | None) -> Capture:
        unit = self.unit
        request = CaptureRequest(
            self.options, self.function, unit.variation, unit.uncaptured, stop, self.clock
        )
        if unit.frames:
            return capture_rest(request, unit.frames, self.slots[0])
        return capture_call(request, unit.decoded, self.slots)

    def _generate_code(self, capture: Capture) -> GeneratedCode:
        try:
            return generate_code(
                capture, self.continuations(capture), self.function.__globals__, self.marks
            )
        except BaseException:
            capture.trace.release_objects()
            raise

    # stage 3: backend

    def _compile_graph(
        self, capture: Capture, generated: GeneratedCode, memory: InputMemory
    ) -> Callable[..., Any] | None:
        """The compiled graph; None where there is no tensor work."""
        graph = capture.trace.graph
        if not generated.outputs and not graph.nodes:
            return None
        graph.fake_mode.open_to_backends()
        self.unit.tier.begin(self.outdated)
        expected = capture.trace.effects.expected
        branches = [expectation.branch for expectation in expected]
        with self.clock.phase("backend"), backend_at_work(capture):
            compiled = compile_graph(
                GraphRequest(
                    graph,
                    generated.inputs,
                    generated.outputs,
                    self.options,
                    self.observer.reporter(self.unit.tier),
                    [expectation.fact for expectation in expected],
                    FailedExpectation(self.unit.uncaptured, branches, self.unit.tier),
                    capture.trace.random.seed,
                    memory.overlapping,
                    capture.trace.modes.torch_function.are_interpreted,
                )
            )
        return compiled if self.marks is None else self.marks.time_graph(compiled)

    # stage 4: guards

    def _build_guards(
        self, capture: Capture, generated: GeneratedCode, memory: InputMemory
    ) -> GuardProgram:
        """The guard program, built after the backend: compiling the graph may add shape guards."""
        trace = capture.trace
        with self.clock.phase("guards"), no_collections():
            report_specialised(self.unit, capture, self.options, self.observer)
            unrolled = self.unit.iterations.in_loop and not self.unit.in_python_loop
            self.unit.variation.note_capture(
                trace.graph.fakes.sizes, trace.symbols.numbers, unrolled
            )
            found, changed = trace.symbols.numbers, trace.effects.changed
            expect_stored_numbers(self.unit.variation, changed, found)
            self.unit.iterations.note_changes(trace.effects.changed)
            guards = entry_guards(capture, generated.inputs, memory)
            program = GuardProgram.build(guards, generated.lifted)
            program.native()  # made now, while the clock runs
        return program

    # the result

    def _entry_parts(
        self,
        capture: Capture,
        generated: GeneratedCode,
        graph: Callable[..., Any] | None,
        program: GuardProgram,
    ) -> EntryParts:
        """What the entry consists of: without tensor work the original or the generated code,
        otherwise the code with the compiled graph, and the graph alone where the hook may call it
        directly."""
        frames, bound = self.unit.frames, capture.trace.guards.process_bound
        if not isinstance(capture.exit, BreakExit) and not capture.trace.graph.nodes and not frames:
            # the original code is as good
            return EntryParts(program, None, False, process_bound=bound)
        self.has_tensor_work = graph is not None
        self.operations = len(capture.trace.graph.nodes)
        self.has_ended = not isinstance(capture.exit, BreakExit)
        if graph is None:
            return EntryParts(program, generated.code, runs_python(capture), process_bound=bound)
        # where the hook is off anyway, CPython inlines calls of Python functions
        code = generated.bind(Quiet(graph) if runs_python(capture) else graph)
        direct = (
            None
            if generated.argument_locations is None
            else (graph, generated.argument_locations, PASSED_ON)
        )
        return EntryParts(program, code, runs_python(capture), direct, bound)


def forget_frames(error: BaseException | None, handled: BaseException | None) -> None:
    """Drops the frames in an exception's traceback, as they hold objects of the program. `handled`:
    the exception that the program itself was handling, whose traceback stays."""
    seen: set[int] = set()
    while error is not None and error is not handled and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def caller_position(capture: Capture) -> int | None:
    """The step of the call that led to the innermost frame of a break; None if that frame was
    already running when the capture began."""
    frames = capture.exit.frames if isinstance(capture.exit, BreakExit) else ()
    return frames[-2].position if len(frames) > 1 and frames[-2].position >= 0 else None


def backend_at_work(capture: Capture) -> AbstractContextManager[None]:
    """Surrounds the backend, so that sizes that it specialises are distinguished from those that
    the program specialises."""
    symbols = capture.trace.symbols
    return symbols.shapes.relied_on.backend_at_work() if symbols.exist else nullcontext()


def runs_python(capture: Capture) -> bool:
    """Whether the break may run frames worth compiling. Reading a tensor's value runs none."""
    return isinstance(capture.exit, BreakExit) and not capture.exit.runs_no_frame


@record
class FailedExpectation:
    """Called when the expectation about a branch failed at run time. Where that may happen often,
    the next capture leaves the branch to Python."""

    uncaptured: UncapturedCode
    branches: list[CodePlace | None]
    tier: Tier

    def __call__(self, position: int) -> None:
        branch = self.branches[position]
        if branch is not None:
            self.uncaptured.add_instruction(branch)
            self.tier.outdate()
