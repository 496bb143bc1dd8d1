"""The table of guard kinds: for each Kind its meaning, cost, words and native form."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

from ..encoded import Encoded
from ..guard import Guard, Kind
from ..native import UNBOUND
from ..source import Source

RUNS_PYTHON = 1000  # a cost, ns, at and above which a check may run arbitrary Python


class GuardKind:
    """One kind. `subjects` says which objects a check sees; all other methods get these, in that
    order."""

    cost: ClassVar[int]  # ns, roughly

    @property
    def implies_others(self) -> bool:
        """Whether `implies` may be true of its guards."""
        return type(self).implies is not GuardKind.implies

    def subjects(self, guard: Guard) -> tuple[Source, ...]:
        return (guard.source,)

    def key(self, guard: Guard) -> Hashable:
        """Equal keys on one source ask the same."""
        return guard.expected

    def holds(self, expected: Any, *subjects: Any) -> bool:
        """Whether the guard holds. An exception counts as no."""
        raise NotImplementedError

    def encode(self, guard: Guard) -> Encoded:
        """The check in C; by default the one named like the kind."""
        return Encoded(guard.kind.name, guard.expected)

    def implies(self, guard: Guard, other: Guard) -> bool:
        """Whether the other guard (of another kind or key, on the same source) holds wherever this
        one does."""
        return False

    def expression(self, guard: Guard) -> str:
        """The check as Python over the names of the sources."""
        raise NotImplementedError

    def old(self, guard: Guard) -> str:
        """What was expected, for a person."""
        return short_repr(guard.expected)

    def difference(self, guard: Guard, *subjects: Any) -> tuple[str, str, str]:
        """What differs, in words: the thing, its old and its new value. Called when the guard does
        not hold."""
        return guard.source.name, self.old(guard), short_repr(subjects[0])


KINDS: dict[Kind, GuardKind] = {}


def guard_kind(kind: Kind) -> Callable[[type[GuardKind]], type[GuardKind]]:
    """Register the class as the meaning of `kind`."""

    def register(cls: type[GuardKind]) -> type[GuardKind]:
        if kind in KINDS:
            raise ValueError(
                f"{kind} is both {type(KINDS[kind]).__qualname__} and {cls.__qualname__}"
            )
        KINDS[kind] = cls()
        return cls

    return register


def kind_of(guard: Guard) -> GuardKind:
    return KINDS[guard.kind]


def short_repr(value: Any) -> str:
    """A repr that fits a line; of what a user's repr might say only type and address-free name."""
    if value is UNBOUND:
        return "unbound"
    if isinstance(value, type):
        return value.__qualname__
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    if type(value).__module__ in ("builtins", "torch"):
        return reprlib.repr(value)
    return f"<{type(value).__qualname__}>"
