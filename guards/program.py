"""GuardProgram: guards as one flat list of loads and checks. Common paths are loaded once; cheap
checks, and those likely to fail, come first. In: guards, and sources whose objects the caller needs
(`lifted`). Out: steps, which print, and which native/ runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .failure import Failure
from .guard import Guard
from .guard_order import by_section, merge, sort_guards
from .kinds import kind_of
from .lifetimes import TempAllocation, allocate_temps, mark_kept
from .native import (
    Program,
    watching,  # noqa: F401 - it finds out how changes can be noticed here
)
from .reference import explain
from .section import Section, Sections
from .source import FrameView, Source
from .step_writer import StepWriter
from .steps import GuardCheck, Step, native_step


@dataclass(frozen=True, eq=False)
class GuardProgram:
    """The steps, and what they came from: merged guards in the order they are checked."""

    guards: tuple[Guard, ...]
    lifted: tuple[Source, ...]
    steps: tuple[Step, ...] = field(repr=False)
    temps: TempAllocation = field(repr=False)

    @classmethod
    def build(
        cls, guards: Sequence[Guard], lifted: Sequence[Source] = (), share: bool = True
    ) -> GuardProgram:
        """Builds the program. `share=False` loads every path from its root, for the benchmark that
        measures the gain of sharing."""
        merged = merge(guards, lifted)
        sections = Sections(merged, lifted)
        encoded = {id(guard): kind_of(guard).encode(guard) for guard in merged}
        placed = {
            id(guard): sections.of_guard(guard, encoded[id(guard)].runs_python) for guard in merged
        }
        ordered = by_section(sort_guards(merged, encoded), placed)
        writer = StepWriter(sections, encoded, placed, share)
        for guard in ordered:
            writer.check(guard)
        lifted_temps = [writer.load(source, None) for source in lifted]
        anchors = [writer.temps[source] for source in sections.anchors if source in writer.temps]
        steps = writer.steps()
        mark_kept(steps, [*lifted_temps, *anchors])
        temps = allocate_temps(steps, lifted_temps, anchors)
        return cls(tuple(ordered), tuple(lifted), tuple(steps), temps)

    def native(self) -> Program:
        """The C evaluator of these steps; made once."""
        return self._native

    @cached_property
    def _native(self) -> Program:
        """The program in C, with the position of each section's first step."""
        stable, held, last = (
            sum(step.section < section for step in self.steps)
            for section in (Section.STABLE, Section.HELD, Section.LAST)
        )
        temps = self.temps
        return Program(
            tuple(map(native_step, self.steps)),
            temps.lifted,
            temps.count,
            stable,
            held,
            last,
            temps.fresh,
            temps.anchors,
        )

    @property
    def watched_guards(self) -> frozenset[int]:
        """The positions of the guards that are skipped while nothing they read has changed."""
        seldom = {
            id(step.guard)
            for step in self.steps
            if isinstance(step, GuardCheck) and step.section is Section.STABLE
        }
        return frozenset(number for number, guard in enumerate(self.guards) if id(guard) in seldom)

    def guard_of(self, step: int) -> Guard | None:
        """The guard that a step belongs to; None for a lifted object's, and for step -1."""
        return None if step < 0 else self.steps[step].guard

    def failure(self, step: int, frame: FrameView) -> Failure | None:
        """The reason, in words, why the evaluator stopped at this step for this frame; None for
        step -1."""
        if step < 0:
            return None
        failed = self.steps[step]
        if failed.guard is None:
            return Failure(None, failed.source.name, "found", "gone")
        return explain(failed.guard, frame)

    def __str__(self) -> str:
        """A line a step; `=` marks those that are skipped while nothing they looked at has
        changed."""
        lines = [
            f"{number:4}{'=' if step.section is Section.STABLE else ' '} {step}"
            for number, step in enumerate(self.steps)
        ]
        if self.lifted:
            lines.append(
                f"      return {', '.join(f't{temp}' for temp in self.temps.lifted)}".ljust(50)
                + f"# {', '.join(source.name for source in self.lifted)}"
            )
        return "\n".join(lines)

    def expression(self) -> str:
        """The checks as one Python expression over the names of the sources."""
        return " and ".join(kind_of(guard).expression(guard) for guard in self.guards) or "True"
