"""Sets and frozensets, in their order of iteration."""

from __future__ import annotations

import enum
import operator
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.iterators import advance
from ....guards.source import Source
from ..base import CannotReconstruct, Value
from ..constant import Constant, is_literal_or_tuple
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import ListedIterator
from ..operation import Operation
from ..registry import method, wraps
from .builtin_container import BuiltinContainer
from .dict_keys import compares_in_python
from .varying_keys import varying_lookup


class SetValue(BuiltinContainer):
    """A set or frozenset. `members` are its values by key. `order` is a real set of the keys that
    is changed in the same way, so it iterates in the same order; `initial` is the order in which an
    existing set was found. `unread` finds the members of an `existing` set of which the program has
    asked for single members only, or has `added` some, so that the others are not guarded yet."""

    __slots__ = (
        "known_members", "cls", "known_order", "initial", "before", "unread", "existing", "added",
    )  # fmt: skip

    def __init__(
        self,
        members: dict[Any, Value],
        source: Source | None = None,
        cls: type = set,
        order: Any = None,
    ) -> None:
        super().__init__(source)
        self.unread: Callable[[SetValue], None] | None = None
        self.existing: Any = ()
        self.added: list[Value] = []
        self.members, self.cls = members, cls
        # one by one: from a dictionary a set is made at once
        self.order = cls(list(members)) if order is None else order
        self.initial = tuple(self.order)
        self.before: dict[Any, Value] = {}  # the members of an existing one as they were

    @property
    def members(self) -> dict[Any, Value]:
        self.read()
        return self.known_members

    @members.setter
    def members(self, members: dict[Any, Value]) -> None:
        self.known_members = members

    @property
    def order(self) -> Any:
        self.read()
        return self.known_order

    @order.setter
    def order(self, order: Any) -> None:
        self.known_order = order

    def read(self) -> None:
        """Looks at all members of an existing set, if that was not needed yet."""
        if self.unread is not None:
            self.unread(self)

    def snapshot(self) -> Any:
        state = self.known_members.copy(), self.known_order.copy(), self.added.copy()
        return self.unread, state

    def restore(self, state: Any) -> None:
        self.unread, (self.known_members, self.known_order, self.added) = state

    def is_constant(self) -> bool:
        return self.cls is frozenset and self.is_known()

    def is_known(self) -> bool:
        """Whether all members are literals, classes and the like."""
        return all(m.is_constant() for m in self.members.values())

    def constant(self) -> Any:
        return self.order

    def literal(self, tx: TraceContext) -> Any:
        if not self.is_known():
            raise self.unsupported_use("as an argument")
        self.members_in_order(tx)
        return self.order.copy()

    def length(self, tx: TraceContext) -> Value:
        return Constant(len(self.members))

    def members_in_order(self, tx: TraceContext) -> list[Value]:
        """The members in Python's order, which is guarded for an existing set."""
        if len(self.members) > 1:
            # the positions of new members depend on the table's history
            if self.source is not None and self in tx.effects.changed:
                raise self.unsupported_use("iteration after a change")
            if not self.is_known():
                raise self.unsupported_use("iteration in an order that depends on addresses")
            if self.source is not None and tuple(self.order) != self.initial:
                raise self.unsupported_use("iteration in an order that depends on earlier contents")
            tx.guards.process_bound = "the order of a set"
            tx.guards.add(
                self.source,
                Kind.PYTHON,
                (f"iterates as {self.initial!r}", partial(iterates_as, self.initial)),
            )
        return [self.members[key] for key in self.order]

    def iterator(self, tx: TraceContext) -> Value:
        return SetIterator(self, self.members_in_order(tx))

    def contains(self, tx: TraceContext, item: Value) -> Value:
        if self.unread is not None and not self.added and hashes_in_c(item, self.existing):
            lookup = varying_lookup(self.known_source, self.existing, item)
            if lookup is not None:
                return Constant(lookup.finds_item(tx))
            if isinstance(item, Constant):
                return Constant(self.held_before(tx, item.object))
        return Constant(item.key(tx) in self.members)

    def held_before(self, tx: TraceContext, key: Any) -> bool:
        """Whether an existing set held a literal before the frame; guarded."""
        found = key in self.existing
        text = f"{'has' if found else 'does not have'} {key!r}"
        tx.guards.add(self.source, Kind.PYTHON, (text, partial(has_member, key, found)))
        return found

    def reconstruct(self, emit: Emitter) -> None:
        if not self.is_known():
            if self.cls is set:
                self._push_members(emit)
            else:
                emit.call(frozenset, [lambda: self._push_members(emit)])
        elif self.cls is set:
            ways = [*self.members], set(self.order), [*self.order]
            given = next(filter(partial(makes_the_same, self.order), ways), None)
            if given is None:
                raise CannotReconstruct(self)
            emit.call(set, [emit.const(given)])
        else:
            emit.builder.load_const(self.order)

    def _push_members(self, emit: Emitter) -> None:
        """Emits code that makes a set of the members."""
        emit.push_all(self.members.values())
        emit.builder.build_set(len(self.members))

    def emit_changes(self, emit: Emitter) -> None:
        if self.unread is not None:
            for member in self.added:
                emit.run(set.add, [self, member])
            return
        stay = set(map(id, self.members.values()))
        there = set(map(id, self.before.values()))  # by identity: others may be equal to them
        for member in self.members.values():
            if id(member) not in there:
                emit.run(set.add, [self, member])
        for key, member in self.before.items():
            if id(member) not in stay:
                dropped = emit.const(key) if member.source is None else member
                emit.run(set.discard, [self, dropped])

    def operate(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        name = METHODS.get(op.symbol)
        if name is None or not isinstance(other, SetValue):
            return None
        if op.in_place is None or self.cls is frozenset:
            return self.method(tx, name, [other], {})
        self.method(tx, UPDATES[op.symbol], [other], {})
        return self

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        right = other.as_set(tx)
        return None if right is None else compare_members(op, self, right)

    def as_set(self, tx: TraceContext) -> SetValue:
        return self


class SetIterator(ListedIterator):
    """An iterator over a set. A change of the set's size is an error."""

    __slots__ = ("of", "members", "over")
    state = ("rest", "over")

    def __init__(self, of: SetValue, rest: list[Value]) -> None:
        super().__init__(rest, type(iter(set())))
        self.of, self.members, self.over = of, set(of.members), False

    @property
    def is_current(self) -> bool:
        """Whether the set holds what it held when this iterator was made."""
        return self.of.members.keys() == self.members

    def next(self, tx: TraceContext) -> Value | None:
        if self.over:
            return None
        if len(self.of.members) != len(self.members):
            raise tx.exceptions.new(RuntimeError, "Set changed size during iteration")
        if self.of in tx.effects.changed and not self.is_current:
            raise self.unsupported_use("next() after members were exchanged")
        tx.effects.change(self)
        self.over = not self.rest
        return None if self.over else self.rest.pop(0)

    def reconstruct(self, emit: Emitter) -> None:
        if self.over or not self.of.is_known():
            super().reconstruct(emit)
            return
        if not self.is_current:
            raise CannotReconstruct(self)
        emit.push(self.of)
        emit.builder.get_iter()
        emit.run_on_top(advance, len(self.members) - len(self.rest), False)


def iterates_as(expected: tuple[Any, ...], obj: Any) -> bool:
    return tuple(obj) == expected


@method(set, "add")
def set_add(tx: TraceContext, self: SetValue, item: Value) -> Value:
    if self.unread is not None and hashes_in_c(item, self.existing):
        tx.effects.change(self)
        self.added.append(item)
        return Constant(None)
    add_member(tx, self, item)
    return Constant(None)


def hashes_in_c(item: Value, existing: Any) -> bool:
    """Whether an item is a literal, so that a set with these members finds it without Python."""
    known = item.varies() or (isinstance(item, Constant) and is_literal_or_tuple(item.object))
    return known and not any(map(compares_in_python, existing))


def has_member(key: Any, expected: bool, obj: Any) -> bool:
    return (key in obj) is expected


def add_member(tx: TraceContext, self: SetValue, item: Value) -> None:
    """Adds a member to a set whose other members are known."""
    key = item.key(tx)
    if not self.before.keys() <= self.members.keys():  # where it goes depends on what was there
        raise GraphBreak("unsupported-mutation", "of a set by add() after a removal")
    tx.effects.change(self)
    self.members.setdefault(key, item)
    self.order.add(key)


@method(set, "discard")
def set_discard(tx: TraceContext, self: SetValue, item: Value) -> Value:
    key = item.key(tx)
    if self.source is not None and key in self.members and key not in self.before:
        raise GraphBreak("unsupported-mutation", "of a set by the removal of a new member")
    tx.effects.change(self)
    self.members.pop(key, None)
    self.order.discard(key)
    return Constant(None)


@method(set, "remove")
def set_remove(tx: TraceContext, self: SetValue, item: Value) -> Value:
    if item.key(tx) not in self.members:
        raise tx.exceptions.new_of_values(KeyError, [item])
    return set_discard(tx, self, item)


@method(set, "pop")
def set_pop(tx: TraceContext, self: SetValue) -> Value:
    if not self.members:
        raise tx.exceptions.new(KeyError, "pop from an empty set")
    if self.source is not None and len(self.members) > 1:  # it goes on where the last one ended
        raise self.unsupported_use("pop()")
    self.members_in_order(tx)
    tx.effects.change(self)
    return self.members.pop(self.order.pop())


@method(set, "clear")
def set_clear(tx: TraceContext, self: SetValue) -> Value:
    if self.source is not None:
        raise GraphBreak("unsupported-mutation", "of a set by clear()")
    tx.effects.change(self)
    self.members, self.order = {}, set()
    return Constant(None)


@method(set, "copy")
def set_copy(tx: TraceContext, self: SetValue) -> Value:
    return SetValue(dict(self.members), None, self.cls, self.order.copy())


NAMED = (type, enum.Enum, types.FunctionType)  # compared by identity, and guarded so


@wraps(set, frozenset)
def wrap_set(tx: TraceContext, obj: set[Any], source: Source | None) -> Value:
    """A set that exists. Its members are read, and guarded, at the first use that needs them."""

    def find_members(value: SetValue) -> None:
        """Reads the members of an existing set, which is then guarded to be equal."""
        if not all(is_literal_or_tuple(item) or isinstance(item, NAMED) for item in obj):
            raise GraphBreak("unsupported-value", "a set of objects")
        if source is not None:
            tx.effects.read(value)
            tx.guards.add(
                source,
                Kind.PYTHON,
                ("equals " + repr(sorted(map(repr, obj))), partial(operator.eq, frozenset(obj))),
            )
        value.unread = None
        members = {value.key(tx): value for value in (tx.wrap(item, None) for item in obj)}
        value.members, value.order = members, obj if type(obj) is frozenset else obj.copy()
        value.initial, value.before = tuple(obj), dict(zip(obj, members.values(), strict=True))
        for item in value.added:
            add_member(tx, value, item)

    value = SetValue({}, source, type(obj))
    if source is None or type(obj) is not set:
        tx.guards.add(source, Kind.TYPE, type(obj))
        find_members(value)
        return value
    tx.guards.add(source, Kind.TYPE, set)
    value.existing, value.unread = obj, find_members
    return tx.objects.remember(obj, value)


def makes_the_same(order: set[Any], given: Any) -> bool:
    """Whether set(given) has a table of the same size as `order`, with the members in the same
    places. A copy of a set may have a smaller table."""
    made = set(given)
    return sys.getsizeof(made) == sys.getsizeof(order) and list(made) == list(order)


def compare_members(op: Operation, left: SetValue, right: SetValue) -> Value:
    return Constant(op.function(set(left.members), set(right.members)))


# The methods behind the operators.
METHODS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}
UPDATES = {
    "|": "update",
    "&": "intersection_update",
    "-": "difference_update",
    "^": "symmetric_difference_update",
}
