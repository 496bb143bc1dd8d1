"""The steps of a guard program: loads of objects and checks of them, which print, and which C
takes as tuples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import source as s
from .guard import Guard
from .kinds import kind_of
from .section import Section
from .source import Source


@dataclass(slots=True)
class Load:
    """temps[dst] = op(temps[uses], object or number). `keep`: hold the result strongly to the end
    of the run. Temps and `keep` are settled when all steps are known (lifetimes.py)."""

    op: str
    dst: int
    uses: tuple[int, ...]  # () for roots
    source: Source
    object: Any = None
    number: int = 0
    keep: bool = False
    runs_python: bool = False
    guard: Guard | None = None  # who asked first; None for a lifted object
    section: Section = Section.LAST

    def __str__(self) -> str:
        of = ", ".join(f"t{temp}" for temp in self.uses)
        what = (
            repr(self.source.key)
            if isinstance(self.source, s.DictItem)
            else ARGUMENTS.get(self.op, plain_load)(self)
        )
        step = f"t{self.dst} = {self.op.lower()}({', '.join(filter(None, (of, what)))})"
        return f"{step}{' kept' if self.keep else ''}".ljust(44) + f"# {self.source.name}"


@dataclass(slots=True)
class GuardCheck:
    """Fail unless op holds for temps[uses]."""

    op: str
    uses: tuple[int, ...]
    guard: Guard
    object: Any = None
    number: int = 0
    runs_python: bool = False
    section: Section = Section.LAST

    def __str__(self) -> str:
        of = ", ".join(f"t{temp}" for temp in self.uses)
        line = f"  [{self.guard.line}]" if self.guard.line else ""
        return (
            f"check {self.op.lower()}({of})".ljust(44)
            + f"# {kind_of(self.guard).expression(self.guard)}{line}"
        )


Step = Load | GuardCheck


def plain_load(load: Load) -> str:
    return repr(load.object) if load.object is not None else ""


def load_with_number(load: Load) -> str:
    return str(load.number)


# How a load prints its argument, where it is not the object.
ARGUMENTS: dict[str, Callable[[Load], str]] = {
    **dict.fromkeys(
        ("SLOT", "CLOSURE", "MRO_ITEM", "DICT_KEY", "SEQUENCE_ITEM", "ITERATOR_ITEM"),
        load_with_number,
    ),
    "CONSTANT": lambda load: load.source.name,
    "CALL": lambda load: (
        ", ".join(map(str, load.object.keywords.values()))
        if isinstance(load.object, partial)
        else ""
    ),
    **dict.fromkeys(("TENSOR_SIZE", "TENSOR_STRIDE", "TENSOR_STORAGE_OFFSET"), load_with_number),
}


def native_step(step: Step) -> tuple[str, int, tuple[int, ...], bool, Any, int]:
    """(op, dst, uses, keep, object, number)."""
    dst, keep = (step.dst, step.keep) if isinstance(step, Load) else (0, False)
    return step.op, dst, step.uses, keep, step.object, step.number
