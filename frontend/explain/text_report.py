"""A report as plain text, for logs and for people without colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...events import Miss, Note, Recorded
from ...records import record
from .report_data import BreakReport, CaptureReport, GuardReport, ReportData
from .source_text import source_line

SCREEN = 40  # lines
WIDTH = 160  # characters of a line in a report that is cut
SHOWN = 4  # of each section there
GUARDS_SHOWN = 8  # of each capture; all are in `report.captures[i].checks`


def short_text(report: ReportData) -> str:
    """A short report as a whole; of a long one what fits a screen, the most expensive first."""
    everything = full_text(report).splitlines()
    if len(everything) <= SCREEN:
        return "\n".join(everything)
    return "\n".join(
        (
            *heading(report),
            *first_of(list(map(short_break, ranked_breaks(report))), "report.breaks"),
            *first_of(list(map(recompile_lines, recompile_groups(report))), "report.misses"),
            *first_of([[cut(line)] for line in other_lines(report)], "report.details()"),
            *costliest_captures(report),
            "all of it, with guards, inputs and kernels of each capture: print(report.details())",
        )
    )


def full_text(report: ReportData) -> str:
    """The whole report."""
    again = (line for one in recompile_groups(report) for line in recompile_lines(one))
    return "\n".join(
        (
            *heading(report),
            *break_lines(report),
            *again,
            *other_lines(report),
            *capture_lines(report),
        )
    )


def heading(report: ReportData) -> Iterator[str]:
    yield summary(report)
    yield from time_lines(report)
    if report.account is not None and report.account.compiles:
        yield f"account: {report.account}"


def first_of(items: list[list[str]], rest: str) -> Iterator[str]:
    """The lines of the first few items of a section. rest: where the others are shown."""
    for lines in items[:SHOWN]:
        yield from lines
    if len(items) > SHOWN:
        yield f"... and {len(items) - SHOWN} more in {rest}"


def cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def ranked_breaks(report: ReportData) -> list[BreakReport]:
    """The breaks that lost most first; without measurements, those that were met most often."""
    return sorted(report.breaks, key=lambda one: (-one.lost_in_all, -one.times))


def short_break(item: BreakReport) -> list[str]:
    times = f" ({item.times} times)" if item.times > 1 else ""
    costs = f"; {cost(item)}" if cost(item) else ""
    return [
        cut(f"break: {item.reason} [{item.id}]{times}{costs}"),
        cut(f"    {item.where}: {item.source}"),
        cut(f"    hint: {item.hint}"),
    ]


@record
class RecompileGroup:
    """Calls of one function that no compiled code served, by the place and what differed most."""

    function: str
    where: str
    times: int
    seconds: float  # of compiling again
    failure: str  # the last of those that were most frequent


def recompile_groups(report: ReportData) -> list[RecompileGroup]:
    """What was compiled again, the most expensive first."""
    places: dict[tuple[str, str], list[Miss]] = {}
    for miss in report.misses:
        places.setdefault((miss.function, miss.where), []).append(miss)
    found = []
    for (function, where), misses in places.items():
        own = [one for one in report.captures if one.function == function]
        spent = sum(sum(one.seconds.values()) for one in own[1:])
        reasons = Counter(miss.changes[0].what for miss in misses if miss.changes)
        most = reasons.most_common(1)[0][0] if reasons else ""
        last = next(
            (miss for miss in reversed(misses) if miss.changes and miss.changes[0].what == most),
            misses[-1],
        )
        failure = last.failures[0] if last.failures else ""
        found.append(RecompileGroup(function, where, len(misses), spent, failure))
    return sorted(found, key=lambda one: (-one.seconds, -one.times))


def recompile_lines(one: RecompileGroup) -> list[str]:
    times = f" {one.times} times" if one.times > 1 else ""
    spent = f" ({duration(one.seconds)})" if one.seconds else ""
    return [f"compiled again{times}: {one.function} at {one.where}{spent}:", f"    {one.failure}"]


def costliest_captures(report: ReportData) -> Iterator[str]:
    """A line for each of the few captures that took longest to compile."""
    ranked = sorted(report.captures, key=lambda one: -sum(one.seconds.values()))
    for one in ranked[:SHOWN]:
        ran = "" if one.runs is None else f", ran {one.runs} times"
        counts = f"{count(one.ops, 'op')}, {count(len(one.checks), 'guard')}"
        spent = duration(sum(one.seconds.values()))
        yield cut(f"captured: {one.function} from {one.where}: {counts}, compiled in {spent}{ran}")
    if len(ranked) > SHOWN:
        yield f"... and {len(ranked) - SHOWN} more in report.captures"


def summary(report: ReportData) -> str:
    """One line: how much was captured, and how long that took."""
    counts = ", ".join(
        (
            count(len(report.graphs), "graph"),
            count(report.ops, "op"),
            count(len(report.breaks), "break"),
        )
    )
    phases = ", ".join(f"{phase} {spent:.3f}" for phase, spent in report.seconds.items())
    return f"{counts}; {sum(report.seconds.values()):.3f} s" + (f" ({phases})" if phases else "")


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """Seconds as text, in the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def shares(report: ReportData) -> str:
    """Where the time went, "" where nothing but compiling was measured."""
    if report.times.graphs is None:
        return ""
    return ", ".join(f"{share:.0%} {kind}" for kind, share in report.times.shares.items())


def time_lines(report: ReportData) -> Iterator[str]:
    if report.times.wall is not None:
        calls = "the call" if report.calls == 1 else f"{report.calls} calls"
        yield f"{calls} took {duration(report.times.wall)}"
    if shares(report):
        yield f"time: {shares(report)}"
    if report.lost_seconds is not None:
        yield (
            f"lost at breaks: {duration(report.lost_seconds)} in "
            f"{sum(one.passes or 0 for one in report.breaks)} passes"
        )


def capture_lines(report: ReportData) -> Iterator[str]:
    for number, capture in enumerate(report.captures, 1):
        counts = f"{count(capture.ops, 'op')}, {count(len(capture.checks), 'guard')}"
        yield f"capture {number}: {capture.function} from {capture.where}: {counts}"
        yield from (f"    {line}" for line in capture_details(capture))
        yield from (f"    {guard_line(check)}" for check in capture.checks[:GUARDS_SHOWN])
        if len(capture.checks) > GUARDS_SHOWN:
            yield (
                f"    ... and {len(capture.checks) - GUARDS_SHOWN} more in "
                f"report.captures[{number - 1}].checks"
            )


def capture_details(capture: CaptureReport) -> Iterator[str]:
    """Inputs, times, kernels."""
    tensors = [item for item in capture.inputs if item.device]
    if tensors:
        few = ", ".join(
            f"{item.source}: {item.dtype}[{', '.join(item.sizes)}]" for item in tensors[:4]
        )
        yield f"inputs: {few}" + (f" and {len(tensors) - 4} more" if len(tensors) > 4 else "")
    if capture.runs:
        yield f"ran {capture.runs} times, {duration(capture.run_seconds or 0.0)} each"
    if capture.check_seconds is not None:
        yield f"guards take {duration(max(capture.check_seconds, 0.0))} a call"
    for made in capture.kernels:
        for kernel in made.kernels:
            yield (
                f"{made.part}: {kernel.name} ({kernel.language}) fuses "
                f"{', '.join(kernel.ops) or 'nothing'}"
            )
        if made.called:
            yield f"{made.part}: calls " + ", ".join(
                f"{name} x{times}" if times > 1 else name for name, times in made.called
            )


def guard_line(check: GuardReport) -> str:
    seen = [] if check.seconds is None else [f"{duration(check.seconds)}"]
    seen += ["watched"] if check.watched else []
    return f"{check}" + (f"  ({', '.join(seen)})" if seen else "")


def break_lines(report: ReportData) -> Iterator[str]:
    """The graph breaks, each with its statement, its cost and a hint."""
    for number, item in enumerate(report.breaks, 1):
        times = f" ({item.times} times)" if item.times > 1 else ""
        yield f"break {number}: {item.reason} [{item.id}]{times}"
        yield f"    {item.where}: {item.source}"
        if item.caret:
            yield f"    {' ' * len(item.where)}  {item.caret}"
        yield from (
            f"    called from {where}: {source_line(where)}".rstrip(": ")
            for where in item.chain[1:]
        )
        if cost(item):
            yield f"    cost: {cost(item)}"
        yield f"    hint: {item.hint}"
        yield f"    more: {item.page}"


def cost(item: BreakReport) -> str:
    """What a break costs, in words; "" where nothing was measured."""
    said = []
    if item.lost is not None:
        passes = (
            "in its first pass"
            if item.passes == 1
            else f"a pass, {duration(item.lost_in_all)} in {item.passes} passes"
        )
        said.append(f"{duration(item.lost)} {passes}")
    if item.work is not None:
        said.append(f"{duration(item.work)} in the statement itself")
    if item.ops_lost:
        said.append(f"{count(item.ops_lost, 'op')} outside graphs")
    return ", ".join(said)


def other_lines(report: ReportData) -> Iterator[str]:
    """What was left to Python, specialised, unrolled or stored, and what backends remark."""
    for skipped in report.skipped:
        at = f" at {skipped.where}" if skipped.where else ""
        yield f"left to Python: {skipped.function}{at}: {skipped.reason}"
    for number in report.specialised:
        yield number.sentence
    for unrolled in report.iterations:
        yield f"unrolled: {unrolled}"
    for capture in report.captures:
        for one in capture.wrong:
            yield f"the graph of {one.function} from {one.where}: {one.sentence}"
        for choice in capture.choices:
            yield f"the graph of {choice.function} from {choice.where} {choice.sentence}"
    for found in report.stored:
        yield f"{found.function} from {found.where}: {found.text}"
    remarks: tuple[Note | Recorded, ...] = (*report.notes, *report.recordings)
    for note in remarks:
        yield f"the graph of {note.function} from {note.where}: {note.text}"
