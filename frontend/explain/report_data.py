"""The data of a report: what was captured, where it broke and what that costs, what is checked,
what runs, where the time went.

gather.py makes it of records; text_report.py, rich_tables.py, json_report.py and html_report.py
show it.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ...events import (
    Balance,
    Chosen,
    Input,
    Kernels,
    Miss,
    Note,
    Recorded,
    Skipped,
    Specialised,
    Stored,
    WrongGraph,
)
from ...records import record
from .source_text import SourcePart, is_users


@record
class GuardReport:
    """A guard: what is checked, in words, and the user's line that relied on it. seconds: of this
    check alone, None where it was not measured. watched: it is checked only after something that it
    looks at has changed."""

    text: str
    line: str
    seconds: float | None
    watched: bool

    def __str__(self) -> str:
        return f"{self.text}  # {self.line}" if self.line else self.text


@record
class Node:
    """A node of a captured graph. `kind` is "input", "parameter", "op" or "output"."""

    name: str
    kind: str
    target: str
    inputs: tuple[str, ...]
    type: str  # dtype and sizes
    line: str


@record
class CaptureReport:
    """A frame, or the rest of one after a break, that became compiled code. `ops` is 0 where it
    does no tensor work."""

    function: str
    where: str  # file:line
    ops: int
    graph: str  # the captured graph as Python, "" without tensor work
    checks: tuple[GuardReport, ...]  # before the compiled code may run, in their order
    seconds: dict[str, float]  # of compiling, by phase
    number: int = 0
    nodes: tuple[Node, ...] = ()
    inputs: tuple[Input, ...] = ()
    backend: str = ""  # what the graph runs on
    choices: tuple[Chosen, ...] = ()  # why, where backends were tried
    kernels: tuple[Kernels, ...] = ()  # of the native compiler
    recordings: tuple[Recorded, ...] = ()  # of CUDA graphs
    wrong: tuple[WrongGraph, ...] = ()  # what a verified call found
    notes: tuple[str, ...] = ()  # further sentences of the backend
    check_seconds: float | None = None  # of all checks together, None where not measured
    runs: int | None = None  # of the graph
    run_seconds: float | None = None  # each

    @property
    def guards(self) -> tuple[str, ...]:
        """The checks in words."""
        return tuple(map(str, self.checks))


@record
class BreakReport:
    """A place where Python had to run a statement between two captures. Times are None where
    nothing was measured."""

    id: str  # stable: one of framejit.errors.REASONS
    function: str
    where: str  # file:line of the innermost call
    source: str  # the text of that line, "" where it cannot be read
    chain: tuple[str, ...]  # file:line of each inlined call, innermost first
    reason: str
    hint: str
    times: int  # in how many captures
    caret: str = ""  # to stand under `source`
    ops_lost: int = 0  # operations on tensors that are in no graph because of it
    passes: int | None = None  # how often calls came by
    lost: float | None = None  # seconds each time, around the statement
    work: float | None = None  # seconds each time, in it

    @property
    def place(self) -> str:
        """file:line of the user's own line: the innermost of `chain` that is in no library."""
        return next(filter(is_users, self.chain), self.where)

    @property
    def page(self) -> str:
        """Where the documentation tells more."""
        return f"docs/breaks/{self.id}.md"

    @property
    def lost_in_all(self) -> float:
        return (self.lost or 0.0) * (self.passes or 0)


@record
class IterationsReport:
    """A place in a loop that has compiled code for each iteration, as it relies on something that
    differs from iteration to iteration."""

    function: str
    where: str  # file:line after the break
    what: str  # differed first
    line: str  # file:line of the user's line that relied on it
    times: int  # compiled so, the first iteration aside

    def __str__(self) -> str:
        line = f" ({self.line})" if self.line else ""
        return (
            f"{self.function} from {self.where} has code for {self.times} more iterations of "
            f"its loop, as it relies on {self.what}{line}"
        )


@record
class TimelineSpan:
    """Something that took time: `row` is "compile" or "run"; seconds since the report's first
    span."""

    row: str
    phase: str
    number: int  # of the capture
    start: float
    end: float
    depth: int


@record
class Times:
    """Where the time went, in seconds. `wall`: of the explained call, None where it was not
    measured. `compiling`: by phase. What calls of compiled functions took beside: `graphs`, and
    `python`, both None where nothing was measured, and `measuring`."""

    compiling: dict[str, float]
    wall: float | None = None
    graphs: float | None = None
    python: float | None = None
    measuring: float = 0.0

    @property
    def parts(self) -> dict[str, float]:
        """Seconds by name, compiling by phase; they do not overlap."""
        found = dict(self.compiling)
        for name, seconds in (("graphs", self.graphs), ("python", self.python)):
            if seconds is not None:
                found[name] = seconds
        if self.measuring:
            found["measuring"] = found.get("measuring", 0.0) + self.measuring
        return found

    @property
    def shares(self) -> dict[str, float]:
        """The fractions of the known time: in compiled code, in Python, compiling, measuring."""
        known = self.parts
        total = sum(known.values())
        kinds = {"graphs": "compiled code", "python": "Python", "measuring": "measuring"}
        found: dict[str, float] = {}
        for name, seconds in known.items():
            kind = kinds.get(name, "compiling")
            found[kind] = found.get(kind, 0.0) + (seconds / total if total else 0.0)
        return found


@record
class ReportData:
    """What framejit made of one call, of all calls so far, or of a program."""

    captures: tuple[CaptureReport, ...]
    breaks: tuple[BreakReport, ...]
    skipped: tuple[Skipped, ...]  # frames left to Python, with the reason
    misses: tuple[Miss, ...]  # calls that no compiled code could serve, with what differed
    times: Times
    # loops around a break whose iterations have compiled code of their own
    iterations: tuple[IterationsReport, ...] = ()
    specialised: tuple[Specialised, ...] = ()  # numbers that vary and were relied on
    notes: tuple[Note, ...] = ()  # what backends tell of graphs
    recordings: tuple[Recorded, ...] = ()  # of CUDA graphs
    stored: tuple[Stored, ...] = ()  # what became of entries on disk
    sources: tuple[SourcePart, ...] = ()
    timeline: tuple[TimelineSpan, ...] = ()
    seen: int = 0  # frames that capture was asked for
    title: str = ""
    calls: int = 1  # that were explained
    account: Balance | None = None  # of the handle, where one was asked
    result: Any = field(default=None, repr=False, compare=False)  # what the explained call returned

    @property
    def graphs(self) -> tuple[CaptureReport, ...]:
        """The captures that do tensor work."""
        return tuple(capture for capture in self.captures if capture.ops)

    @property
    def ops(self) -> int:
        """Operations in all graphs."""
        return sum(capture.ops for capture in self.captures)

    @property
    def guards(self) -> tuple[str, ...]:
        """The guards of all captures, without repetitions."""
        return tuple(dict.fromkeys(line for capture in self.captures for line in capture.guards))

    @property
    def choices(self) -> tuple[Chosen, ...]:
        """What graphs run on where backends were tried."""
        return tuple(choice for capture in self.captures for choice in capture.choices)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of compiling by phase."""
        return dict(self.times.compiling)

    @property
    def lost_seconds(self) -> float | None:
        """Seconds that all breaks lost, None where nothing was measured."""
        measured = [one for one in self.breaks if one.lost is not None]
        return sum(one.lost_in_all for one in measured) if measured else None
