"""Emits code that applies the traced program's side effects to the real objects, once, after the
graph has run."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import torch

from ...errors import GraphBreak
from ...guards.iterators import advance
from ...guards.native import move_index, move_slice, set_open
from ...guards.source import DictItem, IteratorItem
from ..tracing.effect_log import EffectLog
from ..values.base import Lazy, Value
from ..values.constant import Constant
from ..values.containers.deque import DequeValue
from ..values.containers.mapping import DictValue
from ..values.containers.sequence import ListValue
from ..values.containers.set import SetValue
from ..values.functions.function import CellValue, FunctionValue
from ..values.iterators.existing_iterator import (
    ExistingChain,
    ExistingCount,
    ExistingEnumerate,
    ExistingIterator,
    ExistingSlice,
)
from ..values.modes.mode_manager import ModeManager
from ..values.objects.exception import ExceptionValue
from ..values.objects.nn_module import ModuleValue
from ..values.objects.user_object import UserObject
from ..values.tensor.random_state import RandomState
from ..values.tensor.tensor import Gradient
from ..values.tensor.tensor_subclass import TensorObject
from .reconstruct import CannotReconstruct, Reconstructor, make_list, store_attribute


def emit_side_effects(r: Reconstructor, effects: EffectLog) -> None:
    """Emits all changes, each object's in the order of first changes. Objects made in the trace
    carry theirs with them."""
    for value in effects.changed:
        rule = RULES.get(type(value))
        if rule is not None and (value.source is not None or isinstance(value, CellValue)):
            rule(r, value)
    for (_, name), (where, stored) in effects.globals.items():
        if isinstance(where, type):
            replay_class(r, where, name, stored)
            continue
        if stored is None:
            r.call(where.pop, [r.const(name), r.const(None)])
            r.b.pop_top()
            continue
        r.reload(stored)
        r.b.load_const(where)
        r.b.load_const(name)
        r.b.store_subscr()
    for output in effects.outputs:
        r.call(output.function, [r.push(arg) for arg in output.args])
        r.b.pop_top()


def replay_random(r: Reconstructor, random: RandomState, by_graph: bool) -> None:
    """The generator gets its seed, unless the graph does that, and then the state that it is left
    in."""
    if random.seed is not None and not by_graph:
        r.call(torch.manual_seed, [r.const(random.seed)])
        r.b.pop_top()
    if random.stored is not None:
        r.call(torch.set_rng_state, [r.push(random.stored)])
        r.b.pop_top()


def replay_class(r: Reconstructor, cls: type, name: str, value: Value | None) -> None:
    """An attribute of a class is bound, or deleted if it is there."""
    if value is not None:
        r.call(setattr, [r.const(cls), r.const(name), r.push(value)])
    elif name in cls.__dict__:
        r.call(delattr, [r.const(cls), r.const(name)])
    else:
        return
    r.b.pop_top()


def replay_list(r: Reconstructor, value: ListValue) -> None:
    if value.unread is not None:
        r.call(list.extend, [r.push(value), lambda: make_list(r, ListValue(value.added))])
        r.b.pop_top()
        return
    r.call(list.__setitem__, [r.push(value), r.const(slice(None)), lambda: make_list(r, value)])
    r.b.pop_top()


def replay_deque(r: Reconstructor, value: DequeValue) -> None:
    if not value.moves:  # what else can be done to it its iterators survive
        set_items(r, value)
        return
    items = r.b.temp()  # made before the old ones are gone
    make_list(r, value)
    r.b.store_slot(items)
    r.call(collections.deque.clear, [r.push(value)])
    r.b.pop_top()
    r.call(collections.deque.extend, [r.push(value), lambda: r.b.load_slot(items)])
    r.b.pop_top()
    r.b.delete_slot(items)


def set_items(r: Reconstructor, value: DequeValue) -> None:
    """Sets the items of an existing deque that are others now."""
    changed = [
        index
        for index, item in enumerate(value.items)
        if item.source != IteratorItem(value.known_source, index)
    ]
    items = {index: r.b.temp() for index in changed}  # all read before any is set
    for index in changed:
        r.reload(value.items[index])
        r.b.store_slot(items[index])
    for index in changed:
        r.call(
            collections.deque.__setitem__,
            [r.push(value), r.const(index), functools.partial(r.b.load_slot, items[index])],
        )
        r.b.pop_top()
        r.b.delete_slot(items[index])


def replay_dict(r: Reconstructor, value: DictValue) -> None:
    """Sets and deletes what differs; where the order of keys would come out wrong, fills the
    dictionary anew."""
    if value.compared is not None:
        replay_compared(r, value, value.compared)
        return
    try:
        changes_of_dict(r, value, value.real_items(), value.entries or {})
    except GraphBreak as error:  # keys are compared in Python where they meet others
        raise CannotReconstruct(value) from error


def changes_of_dict(
    r: Reconstructor,
    value: DictValue,
    real: dict[Any, Any],
    entries: dict[Any, tuple[Value, Value]],
) -> None:
    kept = [key for key in real if key in entries and key not in value.dropped]
    if [*kept, *(key for key in entries if key not in real or key in value.dropped)] != list(
        entries
    ):
        r.call(value.cls.clear, [r.push(value)])
        r.b.pop_top()
        changed = list(entries.values())
    else:
        for key in real:
            if key not in entries or key in value.dropped:
                r.call(value.cls.__delitem__, [r.push(value), r.const(key)])
                r.b.pop_top()
        changed = [
            (k, v)
            for hashed, (k, v) in entries.items()
            if hashed in value.dropped or not is_unchanged(value, real, hashed, v)
        ]
    for key, item in changed:
        r.call(value.cls.__setitem__, [r.push(value), r.push(key), r.push(item)])
        r.b.pop_top()


def replay_compared(
    r: Reconstructor, value: DictValue, before: dict[Any, tuple[Value, Value]]
) -> None:
    """The same, where keys are compared in Python: here by what they are, not by what they are
    equal to."""
    entries = value.entries or {}
    there, stay = set(map(id, before)), set(map(id, entries))
    kept = [key for key in before if id(key) in stay]
    if [*map(id, kept), *(id(key) for key in entries if id(key) not in there)] != [
        *map(id, entries)
    ]:
        r.call(value.cls.clear, [r.push(value)])
        r.b.pop_top()
        kept = []
    else:
        for key, (named, _) in before.items():
            if id(key) not in stay:
                r.call(value.cls.__delitem__, [r.push(value), r.push(named)])
                r.b.pop_top()
    was = {id(key): before[key][1].source for key in kept}
    for key, (named, item) in entries.items():
        if id(key) not in was or item.source is None or item.source != was[id(key)]:
            r.call(value.cls.__setitem__, [r.push(value), r.push(named), r.push(item)])
            r.b.pop_top()


def is_unchanged(value: DictValue, real: dict[Any, Any], key: Any, item: Value) -> bool:
    if key not in real:
        return False
    if type(item) is Lazy:
        return item.object is real[key]
    known = value.seen.get(key)
    return item is known or (
        item.source is not None and item.source == DictItem(value.known_source, key)
    )


def replay_set(r: Reconstructor, value: SetValue) -> None:
    stay, there = (
        set(map(id, value.members.values())),
        set(map(id, value.before.values())),
    )  # others may be equal to them
    for key, member in value.before.items():
        if id(member) not in stay:
            r.call(
                set.discard,
                [r.push(value), r.const(key) if member.source is None else r.push(member)],
            )
            r.b.pop_top()
    for member in value.members.values():
        if id(member) not in there:
            r.call(set.add, [r.push(value), r.push(member)])
            r.b.pop_top()


def replay_object(r: Reconstructor, value: UserObject) -> None:
    for name, item in value.attrs.items():
        if name in value.renewed:
            r.call(object.__delattr__, [r.push(value), r.const(name)])
            r.b.pop_top()
        if item is None:
            r.call(object.__delattr__, [r.push(value), r.const(name)])
            r.b.pop_top()
        else:
            store_attribute(r, value, name, item)


def replay_cell(r: Reconstructor, value: CellValue) -> None:
    if value.slot is not None:
        if value.contents is None:  # it may be unbound as it is, which deleting would not take
            r.b.load_const(None)
            r.b.store_deref(value.slot)
            r.b.delete_deref(value.slot)
        else:
            r.reload(value.contents)
            r.b.store_deref(value.slot)
    elif value.source is not None:
        if value.contents is None:
            raise CannotReconstruct(Constant(None))
        r.reload(value.contents)
        r.reload(value)
        r.b.store_attr("cell_contents")


FEW = 4  # items up to which an iterator is moved by calls of next(), which is faster than a loop


def replay_iterator(r: Reconstructor, value: ExistingIterator) -> None:
    if value.taken <= FEW and not value.exhausted:
        for _ in range(value.taken):
            r.call(next, [r.push(value)])
            r.b.pop_top()
    else:
        r.call(advance, [r.push(value), r.const(value.taken), r.const(value.exhausted)])
        r.b.pop_top()


def replay_enumerate(r: Reconstructor, value: ExistingEnumerate) -> None:
    r.call(move_index, [r.push(value), r.const(value.given)])
    r.b.pop_top()


def replay_count(r: Reconstructor, value: ExistingCount) -> None:
    r.call(advance, [r.push(value), r.const(value.taken), r.const(False)])
    r.b.pop_top()


def replay_chain(r: Reconstructor, value: ExistingChain) -> None:
    if value.outer is None:
        r.call(set_open, [r.push(value), r.push(value)])
    elif value.current is not value.opened:
        r.call(set_open, [r.push(value), r.push(value.current or Constant(None))])
    else:
        return
    r.b.pop_top()


def replay_slice(r: Reconstructor, value: ExistingSlice) -> None:
    r.call(move_slice, [r.push(value), *map(r.const, (value.read, value.given, value.ended))])
    r.b.pop_top()


def replay_function(r: Reconstructor, value: FunctionValue) -> None:
    for name, item in value.attributes.items():
        r.reload(item)
        r.reload(value)
        r.b.store_attr(name)


def replay_manager(r: Reconstructor, value: ModeManager) -> None:
    if value.last is not None:
        r.call(setattr, [r.push(value), r.const("prev"), r.const(value.last)])
        r.b.pop_top()


def replay_gradient(r: Reconstructor, value: Gradient) -> None:
    assert value.stored is not None
    r.reload(value.stored)
    r.reload(value.of)
    r.b.store_attr("grad")


RULES: dict[type, Callable[[Reconstructor, Any], None]] = {
    ListValue: replay_list,
    DequeValue: replay_deque,
    DictValue: replay_dict,
    SetValue: replay_set,
    UserObject: replay_object,
    TensorObject: replay_object,
    ExceptionValue: replay_object,
    ModuleValue: replay_object,
    CellValue: replay_cell,
    ModeManager: replay_manager,
    Gradient: replay_gradient,
    FunctionValue: replay_function,
    ExistingIterator: replay_iterator,
    ExistingEnumerate: replay_enumerate,
    ExistingCount: replay_count,
    ExistingChain: replay_chain,
    ExistingSlice: replay_slice,
}
