"""The pipeline, top to bottom: code object and arguments -> capture -> rebuilt code, compiled
graph, guards -> Entry.

The one broad `except` of the frontend stands in cache.py, around `convert`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.fx

from ...backends.compile_graph import compile_graph
from ...backends.graph.eager_fallback import PASSED_ON
from ...backends.registry import name_of
from ...collector import no_collections
from ...errors import GraphBreak, GraphBreakError, SkipFrame, warn_user
from ...events import Break as BreakEvent
from ...events import Captured, Specialised
from ...guards.guard import Guard, Kind
from ...guards.program import GuardProgram
from ...options import Options
from ...phases import Clock
from ...tier import Tier
from ..codegen.build import Continuations, Rebuilt, rebuild
from ..codegen.stack_effect import UnsupportedInstruction
from ..pycode.decode import position_of_group
from ..pycode.instr import DecodedCode
from ..pycode.resume import SuspendedFrame, Unresumable
from ..tracing.capture import Break, Capture
from ..tracing.graph_builder import GraphInput
from ..tracing.input_memory import InputMemory, input_memory
from ..tracing.outcome import Restart
from ..tracing.root import capture_call, capture_rest
from ..tracing.variation import Variation
from ..tracing.work_budget import Loops
from ..values.base import CannotReconstruct
from ._hook import Entry, Quiet
from .economy import IdleFrame
from .observer import Observer
from .probe import Marked
from .surroundings import (
    DUAL_LEVEL,
    inside_a_transform,
    out_of_sight_of_saved_tensor_hooks,
    program_of_surroundings,
)
from .unrolled_turns import UnrolledTurns


@dataclass(frozen=True)
class CompileUnit:
    """What a site compiles: a whole code object, or what follows a break in it and the frames that
    it has called, outermost first."""

    decoded: DecodedCode
    frames: tuple[SuspendedFrame, ...]
    loops: Loops  # those left to Python, shared by all pieces of a handle
    variation: Variation = field(default_factory=Variation)
    turns: UnrolledTurns = field(default_factory=UnrolledTurns)  # of the loops that it lies in
    tier: Tier = field(default_factory=Tier)
    idle: IdleFrame = field(default_factory=IdleFrame)
    forbidden: GraphBreak | None = (
        # under fullgraph: the break before it, made for an exception that was to leave the frame
        None
    )

    @property
    def name(self) -> str:
        return self.decoded.code.co_qualname


MAX_RESTARTS = 20
# Reasons of breaks at which the instruction is itself an operation on tensors.
OPERATIONS = frozenset({
    "data-dependent-branch", "data-dependent-shape", "data-dependent-value", "fake-tensor", "subclass", "unsupported-operator",
})  # fmt: skip


def convert(
    piece: CompileUnit,
    function: types.FunctionType,
    slots: tuple[Any, ...],
    options: Options,
    observer: Observer,
    continuations: Callable[[Capture], Continuations],
    outdated: Callable[[], None],
) -> Entry:
    """Compiles one piece for the arguments of one call. Raises SkipFrame to leave it to Python.
    `outdated` is called where the piece had better be compiled anew."""
    if inside_a_transform():
        program = program_of_surroundings()
        return Entry(
            program.native(), None, None, bool(piece.frames), program
        )  # the level may end before the frame does
    with out_of_sight_of_saved_tensor_hooks():
        return convert_here(piece, function, slots, options, observer, continuations, outdated)


def convert_here(
    piece: CompileUnit,
    function: types.FunctionType,
    slots: tuple[Any, ...],
    options: Options,
    observer: Observer,
    continuations: Callable[[Capture], Continuations],
    outdated: Callable[[], None],
) -> Entry:
    marks = observer.marks()
    with no_collections():
        capture, rebuilt = capture_and_rebuild(
            piece, function, slots, options, observer, marks, continuations
        )
    try:
        entry = compile_capture(
            piece, capture, rebuilt, function, options, observer, marks, outdated
        )
    finally:
        capture.trace.forget()
    if isinstance(capture.exit, Break):
        forget_frames(capture.exit.reason, sys.exception())
    return entry


def compile_capture(
    piece: CompileUnit, capture: Capture, rebuilt: Rebuilt, function: types.FunctionType, options: Options, observer: Observer,
    marks: Marked | None, outdated: Callable[[], None],
) -> Entry:  # fmt: skip
    """The entry for a capture: its graph compiled by the backend, its guards as a program."""
    clock = observer.clock
    report_break(piece, capture, options, observer, marks)
    code, direct = rebuilt.code, None
    memory = input_memory(capture.trace.graph, rebuilt.inputs)
    if rebuilt.outputs or capture.trace.graph.nodes:
        capture.trace.graph.fake_mode.open_to_backends()
        piece.tier.begin(outdated)
        with clock.phase("backend"), backend_at_work(capture):
            compiled = compile_graph(
                capture.trace.graph,
                rebuilt.inputs,
                rebuilt.outputs,
                options,
                observer.reporter(piece.tier),
                expected_facts(capture),
                FailedExpectation(piece.loops, expected_branches(capture), outdated),
                capture.trace.random.seed,
                memory.overlapping,
            )
        if marks is not None:
            compiled = marks.time_graph(compiled)
        # Where the hook is off anyway there is nothing to make quiet, and CPython inlines the call
        # of a Python function.
        code = rebuilt.bind(Quiet(compiled) if runs_python(capture) else compiled)
        direct = None if rebuilt.places is None else (compiled, rebuilt.places, PASSED_ON)
    with clock.phase("guards"), no_collections():
        report_specialised(piece, capture, options, observer)
        piece.variation.note_capture(capture.trace.graph.sizes, capture.trace.symbols.numbers)
        piece.turns.note_changes(capture.trace.effects.changed)
        program = GuardProgram.build(all_guards(capture, rebuilt.inputs, memory), rebuilt.lifted)
        native = program.native()
    observer.send(captured_event(capture, program, observer))
    return make_entry(piece, capture, code, function, native, program, direct)


def forget_frames(error: BaseException | None, handled: BaseException | None) -> None:
    """Lets go of the frames that an exception went through, which hold the program's objects.
    `handled`: what the program itself was handling, the context of all that is raised here; its
    traceback is the program's."""
    seen: set[int] = set()
    while error is not None and error is not handled and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def capture_and_rebuild(
    piece: CompileUnit, function: types.FunctionType, slots: tuple[Any, ...], options: Options, observer: Observer, marks: Marked | None,
    continuations: Callable[[Capture], Continuations],
) -> tuple[Capture, Rebuilt]:  # fmt: skip
    """Interprets and rebuilds; starts over with an earlier break where the state at a break cannot
    be made in Python."""
    stop: Restart | None = None
    handled = sys.exception()
    for _ in range(MAX_RESTARTS):
        try:
            with observer.clock.phase("trace"):
                capture = run_capture(piece, function, slots, options, stop, observer.clock)
        except Restart as restart:
            if stop is not None and restart.place >= stop.place:
                raise SkipFrame(f"no earlier place for a break: {restart.reason}") from restart
            stop = restart
            forget_frames(restart, handled)
            forget_frames(restart.reason, handled)
            continue
        misplaced = capture.trace.misplaced_effect()
        if misplaced is not None:
            stop = misplaced
            capture.trace.forget()
            continue
        try:
            with observer.clock.phase("rebuild"):
                return capture, rebuild_or_forget(capture, continuations(capture), function, marks)
        except CannotReconstruct as error:
            earlier = error.born if error.born is not None else caller_place(capture)
            if earlier is None or (stop is not None and earlier >= stop.place):
                raise SkipFrame(f"cannot rebuild {error}") from error
            stop = Restart(
                earlier, GraphBreak(error.reason, f"{error}, which outlives what is captured,")
            )
            forget_frames(error, handled)
        except (UnsupportedInstruction, Unresumable) as error:
            earlier = caller_place(capture)
            if earlier is None or not isinstance(capture.exit, Break):
                raise SkipFrame(f"cannot go on after a break here: {error}") from error
            stop = Restart(earlier, capture.exit.reason)
            forget_frames(error, handled)
    raise SkipFrame("too many places where a break would be needed")


def rebuild_or_forget(
    capture: Capture,
    continuations: Continuations,
    function: types.FunctionType,
    marks: Marked | None,
) -> Rebuilt:
    """The rebuilt code of a capture, which lets go of the program's objects where there can be
    none."""
    try:
        return rebuild(capture, continuations, function.__globals__, marks)
    except BaseException:
        capture.trace.forget()
        raise


def caller_place(capture: Capture) -> int | None:
    """The place of the call that led to the innermost frame of a break, if it was not running when
    the capture began."""
    frames = capture.exit.frames if isinstance(capture.exit, Break) else ()
    return frames[-2].place if len(frames) > 1 and frames[-2].place >= 0 else None


def run_capture(
    piece: CompileUnit,
    function: types.FunctionType,
    slots: tuple[Any, ...],
    options: Options,
    stop: Restart | None,
    clock: Clock,
) -> Capture:
    if not piece.frames:
        return capture_call(
            options, piece.decoded, function, piece.variation, slots, piece.loops, stop, clock
        )
    return capture_rest(
        options, piece.frames, function, piece.variation, slots[0], piece.loops, stop, clock
    )


def expected_facts(capture: Capture) -> list[torch.fx.Node]:
    return [expectation.fact for expectation in capture.trace.effects.expected]


def expected_branches(capture: Capture) -> list[tuple[int, int] | None]:
    return [expectation.branch for expectation in capture.trace.effects.expected]


@dataclass(frozen=True)
class FailedExpectation:
    """Hears that what was expected of a branch is wrong: where that may be usual the next capture
    leaves the branch to Python."""

    loops: Loops
    branches: list[tuple[int, int] | None]
    outdated: Callable[[], None]

    def __call__(self, position: int) -> None:
        branch = self.branches[position]
        if branch is not None:
            self.loops.add(branch)
            self.outdated()


def report_break(
    piece: CompileUnit, capture: Capture, options: Options, observer: Observer, marks: Marked | None
) -> None:
    """Tells of a break; raises GraphBreakError under fullgraph, unless it is there for Python to
    raise the program's own exception."""
    if not isinstance(capture.exit, Break):
        if piece.forbidden is not None:
            raise fullgraph_error(piece.forbidden) from piece.forbidden
        return
    reason, innermost = capture.exit.reason, capture.exit.frames[-1]
    if options.fullgraph and not reason.raises:
        raise fullgraph_error(reason) from reason
    chain = tuple(reason.chain)
    observer.send(BreakEvent(
        piece.name, capture.exit.where, chain, reason.reason.id, reason.sentence, reason.reason.hint,
        position_of_group(innermost.decoded, innermost.index), int(reason.reason.id in OPERATIONS), observer.number,
    ))  # fmt: skip
    if marks is not None:
        marks.broken = piece.name, chain, reason.reason.id


def fullgraph_error(reason: GraphBreak) -> GraphBreakError:
    return GraphBreakError(reason, " called from ".join(reason.chain))


def backend_at_work(capture: Capture) -> AbstractContextManager[None]:
    """Around the backend: what it relies on of sizes is told apart from what the program does."""
    return (
        capture.trace.symbols.shapes.backend_at_work()
        if capture.trace.symbols.exist
        else nullcontext()
    )


def report_specialised(
    piece: CompileUnit, capture: Capture, options: Options, observer: Observer
) -> None:
    """Tells of numbers that were to vary and that this capture relies on after all. Warns of one
    that the user marked; raises torch's ConstraintViolationError for it under `strict`."""
    if not capture.trace.symbols.exist:
        return
    for found in capture.trace.symbols.shapes.specialised_numbers():
        if not piece.turns.differs(found.source):  # those are told together
            backend = name_of(options.backend) if found.operator else ""
            observer.send(
                Specialised(
                    piece.name,
                    found.source.name,
                    str(found.number),
                    found.line,
                    backend,
                    found.operator,
                )
            )
        if found.mark is None or found.mark.kind != "dynamic":
            continue
        message = (
            f"{found.source.name} was marked dynamic, but {found.line or piece.name} needs it to be {found.number}: other sizes compile "
            "again. Remove the mark, use maybe_mark_dynamic, or write the line so that it holds for each size"
        )
        if options.strict:
            raise capture.trace.symbols.shapes.refuse(message)
        warn_user(message, stacklevel=2)


def all_guards(
    capture: Capture, used: Collection[torch.fx.Node], memory: InputMemory
) -> list[Guard]:
    """The guards of a capture, and that distinct objects stay distinct: the tensors its graph
    takes, and all that are of one type with something it changed. memory: how these tensors
    overlap."""
    apart = capture.trace.objects.distinct_groups()  # says what is one object, too
    guards = [*capture.trace.guards, Guard(DUAL_LEVEL, Kind.EQUALS, -1)]
    if capture.trace.symbols.exist:
        guards = [*with_symbols(capture, guards), *capture.trace.symbols.shapes.guards()]
    inputs = [
        item
        for item in capture.trace.graph.inputs
        if item.value.node in used and isinstance(item, GraphInput)
    ]
    mutated = any(item.mutated for item in inputs)
    sources = [
        item.source for item in inputs if mutated or not isinstance(item.real, torch.nn.Parameter)
    ]
    guards += [
        Guard(first, Kind.DISTINCT, tuple(others))
        for first, *others in filter(None, (sources, *apart))
        if others
    ]
    return [*guards, *memory.guards]


def with_symbols(capture: Capture, guards: list[Guard]) -> list[Guard]:
    """The guards, where those of a tensor leave open what is a symbol."""
    shapes = capture.trace.symbols.shapes
    fakes = {
        item.source: item.value.fake
        for item in capture.trace.graph.inputs
        if isinstance(item, GraphInput)
    }

    def with_open_sizes(guard: Guard) -> Guard:
        fake = fakes.get(guard.source) if guard.kind is Kind.TENSOR else None
        return guard if fake is None else replace(guard, expected=shapes.spec(guard.expected, fake))

    return list(map(with_open_sizes, guards))


def captured_event(capture: Capture, program: GuardProgram, observer: Observer) -> Captured:
    graph = capture.trace.graph
    lines = tuple(
        dict.fromkeys(line for node in graph.nodes for line in node.meta.get("lines", ()))
    )
    return Captured(
        observer.function, observer.where, len(graph.nodes), graph.graph if graph.nodes else None, program.guards,
        dict(observer.clock.seconds), observer.number, lines, program.watched,
    )  # fmt: skip


def start(piece: CompileUnit) -> str:
    """file:line of where a piece begins."""
    if not piece.frames:
        return f"{piece.decoded.code.co_filename}:{piece.decoded.code.co_firstlineno}"
    innermost = piece.frames[-1]
    return f"{innermost.decoded.code.co_filename}:{innermost.decoded.instrs[innermost.point.index].line}"


def make_entry(
    piece: CompileUnit,
    capture: Capture,
    code: types.CodeType,
    function: types.FunctionType,
    native: Any,
    program: GuardProgram,
    direct: Any,
) -> Entry:
    if not isinstance(capture.exit, Break) and not capture.trace.graph.nodes and not piece.frames:
        return Entry(
            native, None, None, False, program
        )  # no tensor work: the original is as good, but for the end of a frame
    rebuilt: types.FunctionType | None = None
    if piece.frames or function.__closure__ is None:
        rebuilt = types.FunctionType(
            code, function.__globals__, function.__name__, None, function.__closure__
        )
    return Entry(native, rebuilt, code, runs_python(capture), program, direct)


def runs_python(capture: Capture) -> bool:
    """Whether frames worth catching may run at the break. Taking a number from a tensor runs none."""
    return isinstance(capture.exit, Break) and not capture.exit.is_quiet
