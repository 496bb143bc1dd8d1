"""LENGTH, KEYS, ABSENT, ALL_ABSENT, PRESENT, EMPTY_ITEMS: the shape of builtin containers, whatever
methods a subclass overrides."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

from ..encoded import Encoded
from ..guard import Guard, Kind
from ..source import DictItem, key_text
from ..source.containers import keys_of
from .equality import constant_key, same_constant
from .registry import GuardKind, guard_kind, short_repr

SIZED: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes, bytearray, deque, range)
MOST = 6  # keys that a report shows
CONSTANT_KEYS = (str, int, float, complex, bool, bytes, type(None))


def builtin_length(container: Any) -> int:
    """len() as the builtin base class says it."""
    for base in SIZED:
        if isinstance(container, base):
            return int(base.__len__(container))
    raise TypeError(f"{type(container).__qualname__} is no builtin container")


def is_constant(key: Any) -> bool:
    """Whether a key is compared by value. Other keys are compared by identity: their own __eq__
    must not run."""
    return type(key) in CONSTANT_KEYS or type(key) is tuple and all(map(is_constant, key))


def same_key(expected: Any, found: Any) -> bool:
    return found is expected or is_constant(expected) and same_constant(expected, found)


def keys_text(keys: Sequence[Any], most: int | None = None) -> str:
    """Keys as text for a report, which shows the first few of a long list."""
    shown = [key_text(key) for key in keys[:most]]
    return f"[{', '.join(shown if len(shown) == len(keys) else [*shown, '...'])}]"


@guard_kind(Kind.LENGTH)
class Length(GuardKind):
    """The number of items of a builtin container."""

    cost = 2

    def holds(self, expected: int, subject: Any) -> bool:
        return builtin_length(subject) == expected

    def encode(self, guard: Guard) -> Encoded:
        return Encoded("LENGTH", number=guard.expected)

    def expression(self, guard: Guard) -> str:
        return f"len({guard.source.name}) == {guard.expected}"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        return f"len({guard.source.name})", str(guard.expected), str(builtin_length(subject))


@guard_kind(Kind.KEYS)
class Keys(GuardKind):
    """The keys of a dictionary, in order."""

    cost = 20

    def key(self, guard: Guard) -> Hashable:
        return tuple(
            constant_key(key) if is_constant(key) else (type(key), id(key))
            for key in guard.expected
        )

    def holds(self, expected: tuple[Any, ...], subject: Any) -> bool:
        found = keys_of(subject)
        return len(found) == len(expected) and all(map(same_key, expected, found))

    def implies(self, guard: Guard, other: Guard) -> bool:
        """Length, and presence or absence of keys that are constants (others could compare in their
        own way)."""
        if other.kind is Kind.LENGTH:
            return other.expected == len(guard.expected)
        if other.kind not in (Kind.PRESENT, Kind.ABSENT) or not all(
            map(is_constant, guard.expected)
        ):
            return False
        return (other.expected in guard.expected) is (other.kind is Kind.PRESENT)

    def expression(self, guard: Guard) -> str:
        return f"list({guard.source.name}) == {keys_text(guard.expected)}"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        if not isinstance(subject, dict):
            return guard.source.name, "a dict", short_repr(subject)
        expected, found = keys_text(guard.expected, MOST), keys_text(keys_of(subject), MOST)
        return f"list({guard.source.name})", expected, found


class Membership(GuardKind):
    """Whether a dictionary has a key."""

    cost = 6
    words: ClassVar[str]

    def key(self, guard: Guard) -> Hashable:
        return constant_key(guard.expected)

    def expression(self, guard: Guard) -> str:
        return f"{key_text(guard.expected)} {self.words} {guard.source.name}"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        there = guard.kind is Kind.PRESENT
        return f"{key_text(guard.expected)} in {guard.source.name}", str(there), str(not there)


@guard_kind(Kind.PRESENT)
class Present(Membership):
    words = "in"

    def holds(self, expected: Any, subject: Any) -> bool:
        return dict.__contains__(subject, expected)


@guard_kind(Kind.ABSENT)
class Absent(Membership):
    words = "not in"

    def holds(self, expected: Any, subject: Any) -> bool:
        return subject is None or not dict.__contains__(subject, expected)


@guard_kind(Kind.ALL_ABSENT)
class AllAbsent(GuardKind):
    """A dictionary has none of these keys. One guard says it of all of them, as layers have many
    attributes that Python looks for in the layer before it finds them elsewhere."""

    cost = 8

    def key(self, guard: Guard) -> Hashable:
        return tuple(map(constant_key, guard.expected))

    def holds(self, expected: tuple[Any, ...], subject: Any) -> bool:
        return subject is None or not any(dict.__contains__(subject, key) for key in expected)

    def encode(self, guard: Guard) -> Encoded:
        """StepWriter adds such a check for each key."""
        return Encoded("ABSENT")

    def expression(self, guard: Guard) -> str:
        return f"not {{*{keys_text(guard.expected)}}}.intersection({guard.source.name})"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        found = [key for key in guard.expected if isinstance(subject, dict) and key in subject]
        return f"{keys_text(found, MOST)} in {guard.source.name}", "False", "True"


@guard_kind(Kind.EMPTY_ITEMS)
class EmptyItems(GuardKind):
    """Containers that a dictionary holds under some keys are empty: a module's hooks. One guard
    says it of all of them, as a model has thousands."""

    cost = 8

    def holds(self, expected: tuple[str, ...], subject: Any) -> bool:
        return not any(builtin_length(dict.__getitem__(subject, key)) for key in expected)

    def encode(self, guard: Guard) -> Encoded:
        """The check of each item: StepWriter adds a load and this check for each."""
        return Encoded("LENGTH", number=0)

    def expression(self, guard: Guard) -> str:
        names = ", ".join(item.name for item in empty_items(guard))
        return f"not any(map(len, [{names}]))"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        for item in empty_items(guard):
            found = subject.get(item.key)
            if found is None or builtin_length(found):
                return item.name, "empty", short_repr(found)
        return super().difference(guard, subject)


def empty_items(guard: Guard) -> tuple[DictItem, ...]:
    """The paths to the containers of which an EMPTY_ITEMS guard speaks."""
    return tuple([DictItem(guard.source, key) for key in guard.expected])
