"""How changes are noticed: of dictionaries by CPython's watchers or, on 3.11, by version tags; and where both are blind.

Some builds (3.13.0) store attributes of an object into its dictionary unseen: tried out once, when this is imported;
there the steps that look at objects' own attributes run at every call. That an object is given another dictionary or another
class no watcher tells; the setters that do it are made to count (reassigned.c), if on trial they count whatever does it.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _guards

WAYS = ("values", "versions", "events")


class Trial:
    """Has attributes that lie in the object itself until somebody asks for its `__dict__`, and even then on 3.13."""

    def __init__(self) -> None:
        self.a = 1
        self.b = 2


def assign(trial: Trial) -> None:
    for _ in range(20):  # often enough for the interpreter to specialise the store
        trial.a = object()  # type: ignore[assignment]


def add(trial: Trial) -> None:
    trial.c = 3  # type: ignore[attr-defined]


def delete(trial: Trial) -> None:
    del trial.a


CHANGES: tuple[Callable[[Trial], None], ...] = (
    assign, add, delete, lambda trial: setattr(trial, "b", 3), lambda trial: object.__setattr__(trial, "b", 3),
)


def blind_for_attributes() -> bool:
    """Whether some way of changing an object's attributes does not show as a change of its dictionary."""
    return not all(shows(change) for change in CHANGES)


def shows(change: Callable[[Trial], None]) -> bool:
    trial = Trial()
    return _guards.shows(trial.__dict__, lambda: change(trial))


BLIND = blind_for_attributes()


class Slotted:
    __slots__ = ("__weakref__",)


class Unslotted(Slotted):
    """CPython has two setters of `__dict__`: this class has the one, Trial the other."""


def give_dict(trial: Any) -> None:
    for _ in range(20):
        trial.__dict__ = {}


def give_class(trial: Any) -> None:
    for _ in range(20):
        trial.__class__ = type("Other", (type(trial),), {})


REASSIGNMENTS: tuple[Callable[[Any], None], ...] = (
    give_dict, give_class, lambda trial: object.__setattr__(trial, "__dict__", {}),
    lambda trial: object.__setattr__(trial, "__class__", type(trial)),
)
SETTERS = (Trial.__dict__["__dict__"], Unslotted.__dict__["__dict__"]), object.__dict__["__class__"]


def counts_reassignments() -> bool:
    """Whether every way of giving an object another dictionary or class is counted from now on."""
    _guards.count_reassignments(*SETTERS)
    return all(is_counted(cls, change) for cls in (Trial, Unslotted) for change in REASSIGNMENTS)


def is_counted(cls: type, change: Callable[[Any], None]) -> bool:
    told = _guards.counts_reassignments(cls)
    trial, before = cls(), _guards.reassignments()
    change(trial)
    return all(told) and _guards.reassignments() != before


COUNTING = counts_reassignments()


def force(way: str | None, blind: bool | None = None, counting: bool | None = None) -> None:
    """For tests: watch by "values", "versions" or "events" from now on, blind for attributes or not, and whether to rely on
    counts of other dictionaries and classes given to objects; None: as is best here."""
    _guards.set_watching(way, BLIND if blind is None else blind)
    _guards.count_reassignments(*SETTERS if COUNTING and counting is not False else ((), None))


force(None)
