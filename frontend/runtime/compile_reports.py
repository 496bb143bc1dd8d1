"""What a compile reports: its break, numbers that it specialised, and the finished capture."""

from __future__ import annotations

from ...backends.registry import name_of
from ...errors import GraphBreak, GraphBreakError, warn_user
from ...events import Break as BreakEvent
from ...events import Captured, Specialised
from ...guards.program import GuardProgram
from ...options import Options
from ..pycode.decode import position_of_group
from ..tracing.capture import Capture
from ..tracing.interpreter.outcome import BreakExit
from .compile_unit import CompileUnit
from .observer import Observer
from .probe import SegmentMarks

# Reasons of breaks at which the instruction is itself an operation on tensors.
OPERATIONS = frozenset({
    "data-dependent-branch", "data-dependent-shape", "data-dependent-value", "fake-tensor",
    "subclass", "unsupported-operator",
})  # fmt: skip


def report_break(
    unit: CompileUnit,
    capture: Capture,
    options: Options,
    observer: Observer,
    marks: SegmentMarks | None,
) -> None:
    """Reports the break that ends a capture. Raises GraphBreakError with fullgraph, unless the
    break lets Python raise an exception of the program."""
    if not isinstance(capture.exit, BreakExit):
        if unit.forbidden is not None:
            raise fullgraph_error(unit.forbidden) from unit.forbidden
        return
    reason, innermost = capture.exit.reason, capture.exit.frames[-1]
    if options.fullgraph and not reason.raises:
        raise fullgraph_error(reason) from reason
    chain = tuple(reason.chain)
    observer.send(
        BreakEvent(
            unit.name,
            capture.exit.where,
            chain,
            reason.reason.id,
            reason.sentence,
            reason.reason.hint,
            position_of_group(innermost.decoded, innermost.index),
            int(reason.reason.id in OPERATIONS),
            observer.number,
        )
    )
    if marks is not None:
        marks.broken = unit.name, chain, reason.reason.id


def fullgraph_error(reason: GraphBreak) -> GraphBreakError:
    return GraphBreakError(reason, " called from ".join(reason.chain))


def report_specialised(
    unit: CompileUnit, capture: Capture, options: Options, observer: Observer
) -> None:
    """Reports dynamic numbers that this capture specialised. Warns about one that the user marked
    as dynamic; with `strict`, raises torch's ConstraintViolationError."""
    if not capture.trace.symbols.exist:
        return
    for found in capture.trace.symbols.shapes.relied_on.specialised_numbers():
        if not unit.iterations.differs(found.source):  # iterations of a loop are reported together
            backend = name_of(options.backend) if found.operator else ""
            observer.send(
                Specialised(
                    unit.name,
                    found.line,
                    found.source.name,
                    str(found.number),
                    backend,
                    found.operator,
                )
            )
        if found.mark is None or found.mark.kind != "dynamic":
            continue
        message = (
            f"{found.source.name} was marked dynamic, but {found.line or unit.name} needs it to "
            f"be {found.number}: other sizes compile "
            "again. Remove the mark, use maybe_mark_dynamic, or write the line so that it holds "
            "for each size"
        )
        if options.strict:
            raise capture.trace.symbols.shapes.refuse(message)
        warn_user(message, stacklevel=2)


def captured_event(capture: Capture, program: GuardProgram, observer: Observer) -> Captured:
    """The record of a finished capture."""
    graph = capture.trace.graph
    lines = tuple(
        dict.fromkeys(line for node in graph.nodes for line in node.meta.get("lines", ()))
    )
    return Captured(
        observer.function,
        observer.where,
        len(graph.nodes),
        graph.graph if graph.nodes else None,
        program.guards,
        dict(observer.clock.seconds),
        observer.number,
        lines,
        program.watched_guards,
    )
