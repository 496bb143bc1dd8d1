"""The methods of dictionaries."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import method
from .dict_iterator import DictIterator
from .mapping import DictValue
from .sequence import TupleValue


@method(dict, "get")
def dict_get(tx: TraceContext, self: DictValue, key: Value, default: Value | None = None) -> Value:
    value = self.get(tx, key)
    return value if value is not None else default or Constant(None)


@method(dict, "pop")
def dict_pop(tx: TraceContext, self: DictValue, key: Value, default: Value | None = None) -> Value:
    value = self.drop(tx, key) or default
    if value is None:
        raise tx.exceptions.new_of_values(KeyError, [key])
    return value


@method(dict, "__reversed__")
def dict_reversed(tx: TraceContext, self: DictValue) -> Value:
    return DictIterator(self, "keys", tx, reversed)


@method(dict, "popitem")
def dict_popitem(tx: TraceContext, self: DictValue, last: Value | None = None) -> Value:
    pairs = self.pairs(tx)
    if not pairs:
        raise tx.exceptions.new(
            KeyError,
            "dictionary is empty" if self.cls is OrderedDict else "popitem(): dictionary is empty",
        )
    key, value = pairs[-1 if last is None or last.truth(tx) else 0]
    self.drop(tx, key)
    return TupleValue([key, value])


@method(dict, "setdefault")
def dict_setdefault(
    tx: TraceContext, self: DictValue, key: Value, default: Value | None = None
) -> Value:
    value = self.get(tx, key)
    if value is None:
        value = default or Constant(None)
        self.put(tx, key, value)
    return value


@method(dict, "update")
def dict_update(tx: TraceContext, self: DictValue, *others: Value, **named: Value) -> Value:
    """Stores the pairs of other mappings, then those given by name."""
    if len(others) > 1:
        raise GraphBreak("exception-leaves", "TypeError: of more than one mapping")
    # OrderedDict's methods set each item by the method of the program's class
    by_method = self.cls is OrderedDict and self.outer is not None
    put = self.outer.set_item if by_method and self.outer is not None else self.put
    for other in others:
        if isinstance(other, DictValue):
            pairs = other.pairs_to_store(tx)
        else:
            pairs = other.mapping_pairs(tx)
        for key, value in pairs:
            put(tx, key, value)
    for name, value in named.items():
        put(tx, Constant(name), value)
    return Constant(None)


@method(dict, "__or__")
def dict_or(tx: TraceContext, self: DictValue, other: Value) -> Value:
    if not (self.is_plain() and isinstance(other, DictValue) and other.is_plain()):
        raise self.unsupported_use("|")
    made = DictValue(dict(self.all_entries(tx)))
    dict_update(tx, made, other)
    return made


@method(dict, "__ior__")
def dict_ior(tx: TraceContext, self: DictValue, other: Value) -> Value:
    if not self.is_plain():
        raise self.unsupported_use("|=")
    dict_update(tx, self, other)
    return self


@method(dict, "__init__")
def dict_init(tx: TraceContext, self: DictValue, *others: Value, **named: Value) -> Value:
    if self.cls is Counter:
        raise self.unsupported_use("__init__")
    return dict_update(tx, self, *others, **named)


@method(defaultdict, "__init__")
def defaultdict_init(
    tx: TraceContext, self: DictValue, factory: Value | None = None, *others: Value, **named: Value
) -> Value:
    """Stores the factory, and fills a new defaultdict."""
    if self.source is not None:
        raise self.unsupported_use("__init__")
    if (
        factory is not None
        and factory.is_constant()
        and not factory.is_none()
        and not callable(factory.constant())
    ):
        raise tx.exceptions.new(TypeError, "first argument must be callable or None")
    tx.effects.change(self)
    self.default_factory = factory or Constant(None)
    return dict_update(tx, self, *others, **named)


@method(dict, "copy")
def dict_copy(tx: TraceContext, self: DictValue) -> Value:
    """Returns a dict, whatever the class."""
    return DictValue(dict(self.all_entries(tx)))


@method((OrderedDict, defaultdict), "copy")
def copy_of_subclass(tx: TraceContext, self: DictValue) -> Value:
    if self.outer is not None:
        raise self.unsupported_use("copy()")
    return DictValue(dict(self.all_entries(tx)), cls=self.cls, default_factory=self.default_factory)


@method(dict, "clear")
def dict_clear(tx: TraceContext, self: DictValue) -> Value:
    self.clear(tx)
    return Constant(None)


@method(OrderedDict, "move_to_end")
def ordered_dict_move_to_end(
    tx: TraceContext, self: DictValue, key: Value, last: Value | None = None
) -> Value:
    entry = self.all_entries(tx).get(key.key(tx))
    value = self.drop(tx, key)
    if value is None or entry is None:
        raise tx.exceptions.new_of_values(KeyError, [key])
    key = entry[0]
    if last is None or last.truth(tx):
        self.put(tx, key, value)
    else:
        self.entries = {key.key(tx): (key, value), **self.all_entries(tx)}
    return Constant(None)
