"""IdentityKey: how an object that is equal only to itself is found in dictionaries of values."""

from __future__ import annotations

from typing import Any


class IdentityKey:
    """A dictionary key that is equal only for one object."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __hash__(self) -> int:
        return id(self.of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.of is other.of


class VaryingKey(IdentityKey):
    """Stands in a dictionary for a key that is not known now, so that each store is an entry of its
    own, in order."""

    __slots__ = ()
