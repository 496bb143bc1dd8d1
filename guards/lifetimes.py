"""Lifetimes: which temps of a program can be reused, and which objects a run must hold. In: steps
with one temp an object. Out: the same steps with reused temps, and the temps of lifted objects and
anchors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ..records import record
from .section import Section
from .steps import Load, Step

PERMANENT = ("SLOT", "CONSTANT", "GLOBALS", "BUILTINS")  # held by the frame or the program itself


@record
class TempAllocation:
    """How many temps a program has, and those of its lifted objects and anchors. Temps 0 to `fresh`
    are filled in each call and reused; those after them are stable, each for one object."""

    count: int
    fresh: int
    lifted: tuple[int, ...]
    anchors: tuple[int, ...]


def last_uses(steps: Sequence[Step], to_the_end: Sequence[int]) -> dict[int, int]:
    """The index of the last step that reads each temp; past the end for those needed there."""
    last = {temp: index for index, step in enumerate(steps) for temp in step.uses}
    return last | dict.fromkeys(to_the_end, len(steps))


def mark_kept(steps: Sequence[Step], to_the_end: Sequence[int]) -> None:
    """Marks loads with `keep` whose object is still needed at a step that may run Python, which
    could free it."""
    last = last_uses(steps, to_the_end)
    python = [index for index, step in enumerate(steps) if step.runs_python]
    if not python:
        return
    for index, step in enumerate(steps):
        if isinstance(step, Load) and step.op not in PERMANENT:
            needed = bisect_right(python, last.get(step.dst, index))
            step.keep = bisect_right(python, index) < needed


def allocate_temps(
    steps: Sequence[Step], lifted: Sequence[int], anchors: Sequence[int]
) -> TempAllocation:
    """Renumbers temps so that a dead one is used again; stable ones are not."""
    last = last_uses(steps, [*lifted, *anchors])
    stable = {
        step.dst for step in steps if isinstance(step, Load) and step.section is Section.STABLE
    }
    numbers: dict[int, int] = {}
    free: list[int] = []
    fresh = 0
    for index, step in enumerate(steps):
        ended = [temp for temp in step.uses if last[temp] == index and temp not in stable]
        if ended:
            free += sorted({numbers[temp] for temp in ended}, reverse=True)
        if not isinstance(step, Load) or step.dst in stable:
            continue
        dst = step.dst
        if not free:
            free.append(fresh)
            fresh += 1
        numbers[dst] = free.pop()
        if dst not in last:
            free.append(numbers[dst])
    numbers |= {temp: fresh + number for number, temp in enumerate(sorted(stable))}
    count = fresh + len(stable)
    for step in steps:
        step.uses = tuple([numbers[temp] for temp in step.uses])
        if isinstance(step, Load):
            step.dst = numbers[step.dst]
    return TempAllocation(
        count,
        fresh,
        tuple(numbers[temp] for temp in lifted),
        tuple(numbers[temp] for temp in anchors),
    )
