"""Detects changes of dictionaries: by CPython's watchers or, on 3.11, by version tags; and knows
where both miss changes.

Some builds (3.13.0) store attributes of an object into its dictionary unseen: tried out once, when
this is imported; there the steps that look at objects' own attributes run at every call. Of objects
given another dictionary or class, and of functions given other code or defaults, no watcher tells;
the setters that do it are made to count (reassigned.c), and relied on if they counted on trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from . import _guards

WAYS = ("values", "versions", "events")


class Trial:
    """Has attributes that lie in the object itself until somebody asks for its `__dict__`, and even
    then on 3.13."""

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
    assign,
    add,
    delete,
    lambda trial: setattr(trial, "b", 3),
    lambda trial: object.__setattr__(trial, "b", 3),
)


def blind_for_attributes() -> bool:
    """Whether some way of changing an object's attributes does not show as a change of its
    dictionary."""
    return not all(shows(change) for change in CHANGES)


def shows(change: Callable[[Trial], None]) -> bool:
    trial = Trial()
    return _guards.shows(trial.__dict__, lambda: change(trial))


BLIND = blind_for_attributes()


class Slotted:
    __slots__ = ("__weakref__",)


class Unslotted(Slotted):
    """CPython has two setters of `__dict__`: this class has the one, Trial the other."""


def plain() -> int:
    return 1


SETTERS = (
    ("dict", Trial.__dict__["__dict__"]),
    ("dict", Unslotted.__dict__["__dict__"]),
    ("class", object.__dict__["__class__"]),
    ("code", FunctionType.__dict__["__code__"]),
    ("defaults", FunctionType.__dict__["__defaults__"]),
    ("keyword_defaults", FunctionType.__dict__["__kwdefaults__"]),
)
PARTS = {
    "__code__": plain.__code__.replace(co_name="other"),
    "__defaults__": (1,),
    "__kwdefaults__": {},
}


def counts_reassignments() -> bool:
    """Whether objects given another dictionary or class, and functions other code or defaults, are
    counted from now on."""
    return _guards.count_reassignments(SETTERS) and all(map(is_counted, reassignments()))


def reassignments() -> Iterator[tuple[Any, str, Any]]:
    """(object, name, value) to be set."""
    for cls in (Trial, Unslotted):
        yield cls(), "__dict__", {}
        yield cls(), "__class__", type("Other", (cls,), {})
    yield from ((FunctionType(plain.__code__, {}), name, value) for name, value in PARTS.items())


def is_counted(reassignment: tuple[Any, str, Any]) -> bool:
    thing, name, value = reassignment
    for set_ in (setattr, object.__setattr__):
        _guards.counts_reassignments(type(thing))  # from now on
        before = _guards.reassignments()
        set_(thing, name, value)
        if _guards.reassignments() == before:
            return False
    return True


COUNTING = counts_reassignments()


def force(way: str | None, blind: bool | None = None, counting: bool | None = None) -> None:
    """For tests: watch by "values", "versions" or "events" from now on, blind for attributes or
    not, relying on counts of reassignments or not; None: as is best here."""
    _guards.set_watching(way, BLIND if blind is None else blind)
    _guards.count_reassignments(SETTERS if COUNTING and counting is not False else ())


force(None)
