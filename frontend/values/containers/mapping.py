"""Dictionaries (dict, OrderedDict, defaultdict, Counter) and their iterators."""

from __future__ import annotations

import enum
import types
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.iterators import advance
from ....guards.source import AttrSource, DictItem, DictKey, InstanceDict, Source
from ....guards.source.containers import keys_of
from ..base import CannotReconstruct, LazyValue, Value
from ..constant import LITERAL_TYPES, Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import VaryingKey
from ..iterators.iterator import Iterator
from ..objects.mro import lookup
from ..operation import Operation
from ..registry import wraps
from .builtin_container import BuiltinContainer
from .sequence import TupleValue
from .varying_keys import VaryingLookup, path_of_varying_key, varying_lookup

PLAIN_METHODS = frozenset(
    "get keys values items pop popitem update setdefault clear move_to_end __setitem__ "
    "__getitem__ __len__".split()
)
LARGEST = 1 << 13  # items of a dictionary that are all realised


Entries = dict[Any, tuple[Value, Value]]  # by key: the values of the key and of the item


def add_entry(entries: Entries, hashed: Any, key: Value, value: Value) -> None:
    """Stores an item. Of equal keys the first one stays."""
    old = entries.get(hashed)
    entries[hashed] = (old[0] if old else key, value)


def key_is_literal(key: Any) -> bool:
    """Whether a dictionary key can be part of a source: a literal, or a tuple of literals."""
    return type(key) in LITERAL_TYPES or (type(key) is tuple and all(map(key_is_literal, key)))


def compares_in_python(key: Any) -> bool:
    """Whether hashing or comparing a key (or an item of a tuple) runs code of the program."""
    if type(key) is tuple:
        return any(map(compares_in_python, key))
    return any(
        type(found := lookup(type(key), name)[1]) is types.FunctionType
        and found.__module__.split(".")[0] not in ("torch", enum.__name__)
        for name in ("__eq__", "__hash__")
    )


def look_at_key_parts(tx: TraceContext, key: Value) -> Value:
    """Looks at all items of a key that is a tuple, since they determine its hash; returns the
    key."""
    if isinstance(key, TupleValue):
        for item in key.all(tx):
            look_at_key_parts(tx, item)
    return key


class DictValue(BuiltinContainer):
    """A dictionary. An existing one is read key by key from the real one (`real`), and `stores` has
    what the program stored, until all of it is needed; from then on `entries` (key -> (key value,
    value)) is used. Keys that vary stay unknown until something is read (VaryingKey)."""

    __slots__ = (
        "entries", "stores", "real", "seen", "cls", "default_factory", "deletions", "dropped",
        "plain_keys", "attributes",
    )  # fmt: skip
    state = ("entries", "stores", "attributes", "default_factory")

    def __init__(
        self,
        entries: Entries | None,
        source: Source | None = None,
        real: dict[Any, Any] | None = None,
        cls: Any = dict,
        default_factory: Value | None = None,
    ) -> None:
        super().__init__(source)
        self.entries = entries
        self.stores: Entries = {}  # while `entries` is None
        self.real = real
        self.cls = cls
        self.default_factory = default_factory
        self.seen: dict[Any, Value] = {}  # items of `real` realised one by one
        self.deletions = 0
        self.plain_keys: bool | None = None
        # those that the program gave an OrderedDict it has made
        self.attributes: dict[str, Value] = {}
        # keys deleted at some time: a live iterator sees that, though they come back
        self.dropped: set[Any] = set()

    def settle_keys(self, tx: TraceContext) -> None:
        """Specialises the keys that vary, before something is read."""
        known = self.stores if self.entries is None else self.entries
        if not any(type(hashed) is VaryingKey for hashed in known):
            return
        tx.effects.read(self)
        settled: Entries = {}
        for key, value in known.values():
            add_entry(settled, key.key(tx), key, value)
        if self.entries is None:
            self.stores = settled
        else:
            self.entries = settled

    def whole(self, tx: TraceContext) -> Entries:
        """All entries, in order; values may be LazyValue."""
        self.settle_keys(tx)
        if self.entries is None:
            assert self.real is not None
            if dict.__len__(self.real) > LARGEST:
                raise self.unsupported_use(f"all of its {dict.__len__(self.real)} items")
            if not self.has_plain_keys():
                raise self.unsupported_use("keys of classes that hash or compare in Python")
            held = self.real_items()
            tx.guards.add(self.source, Kind.KEYS, tuple(held))
            tx.effects.read(self)
            self.entries = {}
            for index, (key, obj) in enumerate(held.items()):
                if key_is_literal(key):
                    key_value: Value = tx.wrap(key, None)
                    value = self.seen.get(key) or LazyValue(obj, DictItem(self.known_source, key))
                else:
                    key_value = look_at_key_parts(
                        tx,
                        tx.wrap(key, None if self.source is None else DictKey(self.source, index)),
                    )
                    value = LazyValue(obj, DictItem(self.known_source, key))
                self.entries[key_value.key(tx)] = (key_value, value)
            for hashed, (key, value) in self.stores.items():
                add_entry(self.entries, hashed, key, value)
            self.stores = {}
        return self.entries

    def real_items(self) -> dict[Any, Any]:
        """The items of the real dictionary, in its order, without calling methods of a subclass."""
        if self.real is None:
            return {}
        try:
            keys = keys_of(self.real)
        except KeyError:
            keys = []
        if len(keys) != dict.__len__(self.real) or not all(
            dict.__contains__(self.real, key) for key in keys
        ):
            raise self.unsupported_use("whose keys are others than its order says")
        return {key: dict.__getitem__(self.real, key) for key in keys}

    def is_plain(self) -> bool:
        """Whether it is a dict and not of a subclass."""
        return self.cls is dict and self.outer is None

    def _real_keys(self) -> Any:
        return () if self.real is None else dict.__iter__(self.real)

    def has_plain_keys(self) -> bool:
        """Whether looking up a literal in the real dictionary calls no code of the program."""
        if self.plain_keys is None:
            self.plain_keys = not any(
                compares_in_python(key) for key in self._real_keys() if type(key) is not str
            )
        return self.plain_keys

    def get(self, tx: TraceContext, key: Value) -> Value | None:
        """The item under a key, or None."""
        stored = self.stored_at_varying_key(key)
        if stored is not None:
            return stored
        lookup = self.varying_lookup(key)
        if lookup is not None:
            return lookup.item_or_none(tx)
        hashed = key.key(tx)
        self.settle_keys(tx)
        known = self.stores if self.entries is None else self.entries
        entry = known.get(hashed)
        if entry is not None and type(entry[1]) is LazyValue:
            tx.effects.read(self)
            entry = known[hashed] = (entry[0], tx.look(entry[1]))
        if entry is not None or self.entries is not None:
            return entry and entry[1]
        if not key_is_literal(hashed) or not self.has_plain_keys():
            self.whole(tx)
            return self.get(tx, key)
        if hashed in self.seen:
            return self.seen[hashed]
        assert self.real is not None
        if dict.__contains__(self.real, hashed):
            value = self.seen[hashed] = tx.wrap(
                dict.__getitem__(self.real, hashed), DictItem(self.known_source, hashed)
            )
            return value
        tx.guards.add(self.source, Kind.ABSENT, hashed)
        return None

    def varying_lookup(self, key: Value) -> VaryingLookup | None:
        """The lookup by a key that varies, in what an existing dictionary held before the call."""
        untouched = self.entries is None and not self.stores and key.varies()
        if not untouched or self.real is None or self.source is None or not self.has_plain_keys():
            return None
        return varying_lookup(self.source, self.real, key)

    def stored_at_varying_key(self, key: Value) -> Value | None:
        """What the program stored under this key, which varies, if it has stored under no other."""
        if self.entries is not None or not self.stores or not key.varies():
            return None
        path, stored = path_of_varying_key(key), [*self.stores.values()]
        alone = path is not None and all(path_of_varying_key(one) == path for one, _ in stored)
        return stored[-1][1] if alone else None

    def put(self, tx: TraceContext, key: Value, value: Value) -> None:
        look_at_key_parts(tx, key)
        varies = key.varies() and key.is_constant()
        hashed = VaryingKey(key) if varies else key.key(tx)
        if self.entries is None and not self.can_store_unread(hashed):
            self.whole(tx)
        tx.effects.change(self)
        entries = self.stores if self.entries is None else self.entries
        if type(next(reversed(entries), None)) is VaryingKey:
            hashed = VaryingKey(key)  # which may be equal to one before
        add_entry(entries, hashed, key, value)

    def can_store_unread(self, hashed: Any) -> bool:
        """Whether an item can be stored in the real dictionary whatever it holds."""
        known = type(hashed) is VaryingKey or key_is_literal(hashed)
        return known and self.has_plain_keys()

    def drop(self, tx: TraceContext, key: Value) -> Value | None:
        """Removes an item and gives it, None when there was none."""
        self.whole(tx)
        value = self.get(tx, key)
        if value is not None:
            tx.effects.change(self)
            self.deletions += 1
            hashed = key.key(tx)
            self.dropped.add(hashed)
            del self.whole(tx)[hashed]
        return value

    def clear(self, tx: TraceContext) -> None:
        self.whole(tx)
        tx.effects.change(self)
        self.deletions += 1
        self.entries = {}

    def mapping_pairs(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        return self.pairs(tx)

    def pairs_to_store(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        """All (key, value) for another dictionary to store. Keys that vary may be equal."""
        if self.entries and any(type(hashed) is VaryingKey for hashed in self.entries):
            return list(self.entries.values())
        return self.mapping_pairs(tx)

    def pairs(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        """All (key, value), realised."""
        entries = self.whole(tx)
        for hashed, (key, value) in list(entries.items()):
            if type(value) is LazyValue:
                tx.effects.read(self)
                entries[hashed] = (key, tx.look(value))
        return list(entries.values())

    def literal(self, tx: TraceContext) -> Any:
        if self.cls is not dict:
            raise self.unsupported_use("as an argument")
        return {key.literal(tx): value.literal(tx) for key, value in self.pairs(tx)}

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        if self.cls is Counter and name in COUNTERS_OWN:
            return tx.calls.class_method(self, Counter, name).call(tx, args, kwargs)
        if self.attributes and name not in PLAIN_METHODS:
            raise self.unsupported_use(f"{name}() of one with attributes")
        return super().method(tx, name, args, kwargs)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if self.cls is Counter and name in COUNTERS_OWN:
            return tx.calls.class_method(self, Counter, name)
        if name == "default_factory" and self.default_factory is not None:
            return self.default_factory
        if name in self.attributes:
            return self.attributes[name]
        if (
            self.cls is OrderedDict
            and self.outer is None
            and self.source is not None
            and not hasattr(OrderedDict, name)
        ):
            path, own = InstanceDict(self.source), vars(self.real)
            if name in own:
                return tx.wrap(own[name], DictItem(path, name))
            tx.guards.add(path, Kind.ABSENT, name)
        return super().attribute(tx, name)

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if (
            self.cls is not OrderedDict
            or self.source is not None
            or self.outer is not None
            or hasattr(OrderedDict, name)
        ):
            super().set_attribute(tx, name, value)
        tx.effects.change(self)
        self.attributes = {**self.attributes, name: value}

    def length(self, tx: TraceContext) -> Value:
        self.settle_keys(tx)
        if self.entries is None:
            assert self.real is not None
            tx.guards.add(self.source, Kind.LENGTH, length := dict.__len__(self.real))
            return Constant(length + sum(not self._was_there(tx, key) for key in self.stores))
        return Constant(len(self.entries))

    def iterator(self, tx: TraceContext) -> Value:
        return DictIterator(self, "keys", tx)

    def item(self, tx: TraceContext, key: Value) -> Value:
        value = self.get(tx, key)
        if value is not None:
            return value
        if self.default_factory is not None and not self._no_factory():
            value = self.default_factory.call(tx, [], {})
            self.put(tx, key, value)
            return value
        if self.cls is Counter:
            return Constant(0)
        if self.outer is not None:
            of_classes = (
                vars(cls)["__missing__"]
                for cls in self.outer.python_type().__mro__
                if "__missing__" in vars(cls)
            )
            if not isinstance(next(of_classes, DICTS_OWN), types.MethodDescriptorType):
                missing = self.outer.special(tx, "__missing__")  # type: ignore[attr-defined]
                return missing.call(tx, [key], {})
        raise tx.exceptions.new_of_values(KeyError, [key])

    def _no_factory(self) -> bool:
        factory = self.default_factory
        return factory is not None and factory.is_none()

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        self.put(tx, key, value)

    def del_item(self, tx: TraceContext, key: Value) -> None:
        if self.drop(tx, key) is None:
            raise tx.exceptions.new_of_values(KeyError, [key])

    def contains(self, tx: TraceContext, item: Value) -> Value:
        if self.stored_at_varying_key(item) is not None:
            return Constant(True)
        lookup = self.varying_lookup(item)
        if lookup is not None:
            return Constant(lookup.finds_item(tx))
        hashed = item.key(tx)
        self.settle_keys(tx)
        if self.entries is None and hashed in self.stores:
            return Constant(True)
        if (
            self.entries is None
            and self.real is not None
            and key_is_literal(hashed)
            and self.has_plain_keys()
        ):
            return Constant(self._was_there(tx, hashed))
        return Constant(hashed in self.whole(tx))

    def _was_there(self, tx: TraceContext, key: Any) -> bool:
        """Whether the real dictionary has a literal key; guarded."""
        present = self.real is not None and dict.__contains__(self.real, key)
        tx.guards.add(self.source, Kind.PRESENT if present else Kind.ABSENT, key)
        return present

    def reconstruct(self, emit: Emitter) -> None:
        def new_dict() -> None:
            emit.push_dict((self.entries or {}).values())

        if self.cls is dict:
            new_dict()
        elif self.cls is defaultdict:
            emit.call(self.cls, [self.default_factory or Constant(None), new_dict])
        else:
            emit.call(self.cls, [new_dict])
        if self.attributes:
            emit.give_attributes(self, self.attributes)

    def emit_fill(self, emit: Emitter, obj: Value) -> None:
        if self.default_factory is not None:
            emit.run(defaultdict.__init__, [obj, self.default_factory])
        for key, item in (self.entries or {}).values():
            emit.run(self.cls.__setitem__, [obj, key, item])

    def stored_items(self) -> list[tuple[Source, Value]]:
        if self.source is None or self.real is None:
            return []
        real = dict(dict.items(self.real))  # past methods of a subclass
        stored = self.stores if self.entries is None else self.entries
        return [
            (DictItem(self.source, key), value)
            for key, (_, value) in stored.items()
            if key_is_literal(key) and not self._is_unchanged(real, key, value)
        ]

    def emit_changes(self, emit: Emitter) -> None:
        """Sets and deletes the items that differ. Fills the dictionary anew where that would give
        the wrong order."""
        if self.entries is None:
            for key, item in self.stores.values():
                emit.run(self.cls.__setitem__, [self, key, item])
            return
        try:
            self._emit_difference(emit, self.real_items(), self.entries)
        except GraphBreak as error:  # its order differs from that of its items
            raise CannotReconstruct(self) from error

    def _emit_difference(self, emit: Emitter, real: dict[Any, Any], entries: Entries) -> None:
        kept = [key for key in real if key in entries and key not in self.dropped]
        new = [key for key in entries if key not in real or key in self.dropped]
        if [*kept, *new] != list(entries):
            emit.run(self.cls.clear, [self])
            changed = list(entries.values())
        else:
            for key in real:
                if key not in entries or key in self.dropped:
                    emit.run(self.cls.__delitem__, [self, emit.const(key)])
            changed = [
                entry
                for key, entry in entries.items()
                if key in self.dropped or not self._is_unchanged(real, key, entry[1])
            ]
        for key, item in changed:
            emit.run(self.cls.__setitem__, [self, key, item])

    def _is_unchanged(self, real: dict[Any, Any], key: Any, item: Value) -> bool:
        """Whether an item is the one that the real dictionary holds under the key."""
        if key not in real:
            return False
        if type(item) is LazyValue:
            return item.object is real[key]
        return item is self.seen.get(key) or (
            item.source is not None and item.source == DictItem(self.known_source, key)
        )

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if not isinstance(other, DictValue):
            return None
        if self.cls is Counter:
            answer = self.method(tx, op.name, [other], {})
            if not answer.is_not_implemented():
                return answer
        return Constant(op.answer(equal_dictionaries(tx, self, other))) if op.is_equality else None


DICTS_OWN = vars(defaultdict)["__missing__"]
COUNTERS_OWN = frozenset(
    name for name, raw in vars(Counter).items() if isinstance(raw, types.FunctionType)
)


class DictIterator(Iterator):
    """An iterator over a dictionary, forward or reversed. Values are read when they are needed; a
    change of the dictionary's size is an error."""

    __slots__ = ("of", "what", "start", "keys", "index", "deletions", "created_at")
    state = ("index",)

    def __init__(
        self, of: DictValue, what: str, tx: TraceContext, start: Callable[[Any], Any] = iter
    ) -> None:
        super().__init__()
        self.of = of
        self.what = what
        self.start = start
        self.keys = list(start(of.whole(tx)))
        self.index = 0
        self.deletions, self.created_at = of.deletions, tx.frames.break_position()

    def python_type(self) -> type:
        made: dict[Any, Any] = OrderedDict() if self.of.cls is OrderedDict else {}
        return type(self.start(getattr(made, self.what)()))

    def rest(self, tx: TraceContext) -> list[Value]:
        """The items that are left, if nothing changes."""
        return [self._item(tx, key) for key in self.keys[self.index :]]

    def _item(self, tx: TraceContext, hashed: Any) -> Value:
        key, value = self.of.whole(tx)[hashed]
        if self.what == "keys":
            return key
        value = tx.look(value)
        return value if self.what == "values" else TupleValue([key, value])

    def next(self, tx: TraceContext) -> Value | None:
        now = self.of.whole(tx)
        if self.index > len(self.keys):
            return None
        if len(now) != len(self.keys):
            text = (
                "OrderedDict mutated" if self.of.cls is OrderedDict else "dictionary changed size"
            )
            raise tx.exceptions.new(RuntimeError, f"{text} during iteration")
        if list(self.start(now)) != self.keys or self.of.deletions != self.deletions:
            raise self.unsupported_use("next() after keys have changed")
        tx.effects.change(self)
        if self.index == len(self.keys):
            self.index += 1
            return None
        self.index += 1
        return self._item(tx, self.keys[self.index - 1])

    def reconstruct(self, emit: Emitter) -> None:
        if (
            self.index > len(self.keys)
            or list(self.start(self.of.entries or {})) != self.keys
            or self.deletions != self.of.deletions
        ):
            raise CannotReconstruct(self)
        view = getattr(self.of.cls, self.what)
        emit.call(self.start, [lambda: emit.call(view, [self.of])])
        emit.run_on_top(advance, self.index, False)


def default_factory_of(
    tx: TraceContext, obj: dict[Any, Any], source: Source | None
) -> Value | None:
    if not isinstance(obj, defaultdict):
        return None
    member = vars(defaultdict)["default_factory"]  # past what a class below may have under the name
    if type(obj) is not defaultdict and lookup(type(obj), "default_factory")[1] is not member:
        raise GraphBreak(
            "unsupported-value", f"a {type(obj).__name__}, whose default_factory is its own"
        )
    return tx.wrap(obj.default_factory, source and AttrSource(source, "default_factory"))


def holds_globals(obj: dict[Any, Any]) -> bool:
    """Whether a dictionary belongs to a module, or code was run in it."""
    return "__builtins__" in obj or ("__spec__" in obj and "__loader__" in obj)


@wraps(dict, OrderedDict, defaultdict, Counter)
def wrap_dict(tx: TraceContext, obj: dict[Any, Any], source: Source | None) -> Value:
    factory = default_factory_of(tx, obj, source)
    if source is not None and holds_globals(obj):
        raise GraphBreak("unsupported-value", "a dictionary of global variables")
    if source is None:
        entries = {
            (k := tx.wrap(key, None)).key(tx): (k, tx.wrap(item, None)) for key, item in obj.items()
        }
        return DictValue(entries, cls=type(obj), default_factory=factory)
    tx.guards.add(source, Kind.TYPE, type(obj))
    return tx.objects.remember(obj, DictValue(None, source, obj, type(obj), factory))


def builtin_base(cls: type) -> type:
    return next(base for base in cls.__mro__ if base in (dict, OrderedDict, defaultdict, Counter))


def equal_dictionaries(tx: TraceContext, left: DictValue, right: DictValue) -> bool:
    if set(left.whole(tx)) != set(right.whole(tx)):
        return False
    others = ((value, right.get(tx, key)) for key, value in left.pairs(tx))
    return all(other is not None and tx.objects.equal(value, other) for value, other in others)
