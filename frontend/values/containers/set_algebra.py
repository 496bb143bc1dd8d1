"""Union, intersection and the like of sets. CPython's own sets of the keys compute them."""

from __future__ import annotations

from typing import Any

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import method
from .mapping import DictValue
from .set import METHODS, UPDATES, SetValue


def as_members(tx: TraceContext, other: Value) -> tuple[Any, dict[Any, Value]]:
    """The keys of an operand, in the form that Python would use, and its members."""
    inner = other.content()  # C takes the members of an object of a class below set as they are
    if isinstance(inner, SetValue):
        return inner.order, inner.members
    members: dict[Any, Value] = {}
    for item in other.unpack(tx):
        members.setdefault(item.key(tx), item)
    return members if isinstance(other, DictValue) and other.is_plain() else list(members), members


def identity_of_key(key: Any) -> Any:
    """A key that distinguishes equal keys by identity. Tuples are compared by their parts, since
    the items of a dictionary are new tuples each time."""
    return tuple(map(identity_of_key, key)) if type(key) is tuple else id(key)


def kept_members(made: Any, sides: list[dict[Any, Value]]) -> dict[Any, Value]:
    """The members of a set that Python has made of the keys of several sets. Of equal keys, the
    member is that of the very key which is in the new set."""
    by_key = {
        identity_of_key(key): item for members in reversed(sides) for key, item in members.items()
    }
    return {
        key: by_key.get(identity_of_key(key))
        or next(members[key] for members in sides if key in members)
        for key in made
    }


def _apply(
    tx: TraceContext, self: SetValue, name: str, others: tuple[Value, ...]
) -> tuple[Any, Any, dict[Any, Value]]:
    """(the set after its method `name`, the method's result, the members in either)."""
    parts = [as_members(tx, other) for other in others]
    order = self.order  # not a copy of it, which may have a smaller table
    result = getattr(order, name)(*(keys for keys, _ in parts))
    made = order if result is None else result if isinstance(result, set | frozenset) else ()
    return order, result, kept_members(made, [self.members, *(members for _, members in parts)])


def _combining(name: str) -> None:
    @method(set, name)
    @method(frozenset, name)
    def combine(tx: TraceContext, self: SetValue, *others: Value) -> Value:
        _, made, members = _apply(tx, self, name, others)
        return SetValue(members, None, self.cls, made)


def _updating(name: str) -> None:
    @method(set, name)
    def update(tx: TraceContext, self: SetValue, *others: Value) -> Value:
        if self.source is not None:  # made of single changes, it would have another order
            raise GraphBreak("unsupported-mutation", f"of a set by {name}()")
        tx.effects.change(self)
        order, _, members = _apply(tx, self, name, others)
        stay, there = set(map(id, members.values())), set(map(id, self.members.values()))
        kept = {key: item for key, item in self.members.items() if id(item) in stay}
        self.members = kept | {key: item for key, item in members.items() if id(item) not in there}
        self.order = order
        return Constant(None)


def _asking(name: str) -> None:
    @method(set, name)
    @method(frozenset, name)
    def ask(tx: TraceContext, self: SetValue, other: Value) -> Value:
        return Constant(_apply(tx, self, name, (other,))[1])


for _name in ("issubset", "issuperset", "isdisjoint"):
    _asking(_name)

for _name in METHODS.values():
    _combining(_name)
for _name in UPDATES.values():
    _updating(_name)
