"""Keys of dictionaries and sets whose classes define hashing and comparison in Python."""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING, Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.native import stored_hashes
from ....guards.source import Source
from ..base import Value
from ..constant import LITERAL_TYPES, Constant
from ..objects.mro import lookup

if TYPE_CHECKING:
    from ..context import TraceContext


class Hashed:
    """The key of an object with a __hash__ in Python. It is put into real dictionaries, so that
    keys are compared in CPython's order. Neither method may change anything, since generated code
    runs them again."""

    __slots__ = ("tx", "value", "number")

    def __init__(self, tx: TraceContext, value: Value, number: int) -> None:
        self.tx, self.value, self.number = tx, value, number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Hashed):
            if self.value is other.value:
                return True
            if self.number != other.number:
                return False
            compared = other.value
        elif type(other) in LITERAL_TYPES:
            compared = Constant(other)
        else:
            raise GraphBreak(
                "unsupported-value",
                f"{self.value.describe()} as a key that another object may be equal to",
            )
        with self.tx.effects.forbid_changes("__eq__ of a key"):
            if not self.tx.objects.equal(
                self.value, compared
            ):  # rebuilt code would ask again, when what it goes by may be another
                raise GraphBreak(
                    "unsupported-value",
                    f"{self.value.describe()} as a key beside another that hashes alike",
                )
        return True


class _Number:
    """A number whose hash() is what Python makes of the result of a __hash__."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return self.number


def key_of(tx: TraceContext, value: Value, method: Value) -> Hashed:
    """The key of an object, by its class's __hash__."""
    with tx.effects.forbid_changes("__hash__ of a key"):
        return Hashed(tx, value, hash_of(method.call(tx, [], {})))


def hash_of(answer: Value) -> int:
    """hash(object), where its __hash__ gives this."""
    number = answer.constant()
    if not isinstance(number, int):
        raise GraphBreak("exception-leaves", "TypeError: __hash__ method should return an integer")
    return hash(_Number(number))


def says_how(cls: type) -> bool:
    """Whether a function of the program hashes or compares objects of a class."""
    return any(
        type(found := lookup(cls, name)[1]) is types.FunctionType
        and found.__module__.split(".")[0] not in ("torch", enum.__name__)
        for name in ("__eq__", "__hash__")
    )


def is_compared(key: Any) -> bool:
    """Whether a real key is such an object, or a tuple of one."""
    return any(map(is_compared, key)) if type(key) is tuple else says_how(type(key))


def holds_hashed(key: Any) -> bool:
    """Whether a key in a value is such an object's, or a tuple or frozenset of one."""
    return any(map(holds_hashed, key)) if type(key) in (tuple, frozenset) else type(key) is Hashed


def has_true_hash(key: Any) -> bool:
    """Whether a key in a value hashes as the object does: no part is compared by identity only."""
    return (
        all(map(has_true_hash, key))
        if type(key) in (tuple, frozenset)
        else type(key) is Hashed or type(key) in LITERAL_TYPES
    )


def guard_hashes(tx: TraceContext, source: Source | None, real: Any, keys: list[Any]) -> None:
    """Guards the hashes under which an existing dictionary or set stores its keys, since an object
    may have changed."""
    stored = stored_hashes(real)
    if len(set(stored)) < len(stored) and any(
        map(holds_hashed, keys)
    ):  # they may be equal by now, and would be one here
        raise GraphBreak("unsupported-value", f"a {type(real).__name__} of keys that hash alike")
    if any(
        type(key) is Hashed and key.number != number
        for key, number in zip(keys, stored, strict=True)
    ):
        raise GraphBreak(
            "unsupported-value",
            f"a {type(real).__name__} of keys that have changed since they were stored",
        )
    tx.guards.add(
        source,
        Kind.PYTHON,
        (f"its hashes are {stored}", lambda other: stored_hashes(other) == stored),
    )


MOST_COMPARED = 1 << 7  # the same of those found by their place, which takes a walk each
