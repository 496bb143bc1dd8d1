"""IS, SAME, DISTINCT: which object it is."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..encoded import Encoded
from ..guard import Guard, Kind
from ..source import Source
from .registry import GuardKind, guard_kind, short_repr

IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


@guard_kind(Kind.IS)
class Is(GuardKind):
    """One certain object."""

    cost = 1

    def key(self, guard: Guard) -> int:
        return id(guard.expected)

    def holds(self, expected: Any, subject: Any) -> bool:
        return subject is expected

    def implies(self, guard: Guard, other: Guard) -> bool:
        """Whether the other guard follows. One object has one type, unless its __class__ can be
        assigned; and a constant is equal to itself."""
        found = guard.expected
        if other.kind is Kind.TYPE:
            fixed = bool(type(found).__flags__ & IMMUTABLE_TYPE) and not isinstance(
                found, ModuleType
            )
            return fixed and type(found) is other.expected
        return other.kind is Kind.EQUALS and other.expected is found

    def expression(self, guard: Guard) -> str:
        return f"{guard.source.name} is {short_repr(guard.expected)}"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        old, new = short_repr(guard.expected), short_repr(subject)
        return guard.source.name, old, f"another {new}" if old == new else new


@guard_kind(Kind.SAME)
class Same(GuardKind):
    """Two paths lead to one object."""

    cost = 1

    def subjects(self, guard: Guard) -> tuple[Source, ...]:
        return guard.source, guard.expected

    def holds(self, expected: Source, subject: Any, other: Any) -> bool:
        return subject is other

    def encode(self, guard: Guard) -> Encoded:
        return Encoded("SAME")

    def expression(self, guard: Guard) -> str:
        return f"{guard.source.name} is {guard.expected.name}"

    def old(self, guard: Guard) -> str:
        return f"the same object as {guard.expected.name}"

    def difference(self, guard: Guard, subject: Any, other: Any) -> tuple[str, str, str]:
        return guard.source.name, self.old(guard), "another"


@guard_kind(Kind.DISTINCT)
class Distinct(GuardKind):
    """Several paths lead to different objects."""

    cost = 10

    def subjects(self, guard: Guard) -> tuple[Source, ...]:
        return guard.source, *guard.expected

    def holds(self, expected: tuple[Source, ...], *subjects: Any) -> bool:
        return len(set(map(id, subjects))) == len(subjects)

    def encode(self, guard: Guard) -> Encoded:
        return Encoded("DISTINCT")

    def expression(self, guard: Guard) -> str:
        return f"distinct({', '.join(source.name for source in self.subjects(guard))})"

    def old(self, guard: Guard) -> str:
        return "another object"

    def difference(self, guard: Guard, *subjects: Any) -> tuple[str, str, str]:
        seen: dict[int, Source] = {}
        for source, subject in zip(self.subjects(guard), subjects, strict=True):
            first = seen.setdefault(id(subject), source)
            if first is not source:
                return source.name, self.old(guard), f"the same object as {first.name}"
        return super().difference(guard, *subjects)
