"""How changes of dictionaries are detected: by CPython's watchers or, on 3.11, by version tags.

Some builds (3.13.0) store attributes of an object into its dictionary without an event. That is
probed once, at import; there, the steps that read objects' own attributes run at every call.
"""

from __future__ import annotations

from collections.abc import Callable

from . import _guards

WAYS = ("values", "versions", "events")


class StorageProbe:
    """An object whose attributes are stored in itself until its `__dict__` is read; on 3.13 also
    afterwards."""

    def __init__(self) -> None:
        self.a = 1
        self.b = 2


def assign(trial: StorageProbe) -> None:
    for _ in range(20):  # often enough for the interpreter to specialise the store
        trial.a = object()  # type: ignore[assignment]


def add(trial: StorageProbe) -> None:
    trial.c = 3  # type: ignore[attr-defined]


def delete(trial: StorageProbe) -> None:
    del trial.a


CHANGES: tuple[Callable[[StorageProbe], None], ...] = (
    assign,
    add,
    delete,
    lambda trial: setattr(trial, "b", 3),
    lambda trial: object.__setattr__(trial, "b", 3),
)


def shows(change: Callable[[StorageProbe], None]) -> bool:
    trial = StorageProbe()
    return _guards.shows(trial.__dict__, lambda: change(trial))


# whether some way of changing an object's attributes does not show as a change of its dictionary
BLIND = not all(map(shows, CHANGES))


def force(way: str | None, blind: bool | None = None) -> None:
    """Detects changes by "values", "versions" or "events" from now on, with or without events for
    attributes. None: the best way of this interpreter. For tests."""
    _guards.set_watching(way, BLIND if blind is None else blind)


force(None)
