"""What a dictionary holds: items of a real one, read when they are needed, and items that the
program stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....guards.guard import Kind
from ....guards.source import DictItem, DictKey, Source
from ....guards.source.containers import keys_of
from ..base import LazyValue, Value
from ..constant import Constant
from ..context import TraceContext
from ..identity_key import VaryingKey
from .builtin_container import BuiltinContainer
from .dict_keys import compares_in_python, key_is_literal, look_at_key_parts
from .hook_tables import hooks_by_position, is_hook_table
from .varying_keys import VaryingLookup, path_of_varying_key, varying_lookup

LARGEST = 1 << 13  # items of a dictionary that are all realised

Entries = dict[Any, tuple[Value, Value]]  # by key: the values of the key and of the item


def add_entry(entries: Entries, hashed: Any, key: Value, value: Value) -> None:
    """Stores an item. Of equal keys the first one stays."""
    old = entries.get(hashed)
    entries[hashed] = (old[0] if old else key, value)


class DictContents(BuiltinContainer):
    """The items of a dictionary. Those of an existing one are read key by key from the real one
    (`real`), and `stores` has what the program stored, until all of it is needed; from then on
    `entries` (key -> (key value, value)) is used. Keys that vary stay unknown until something is
    read (VaryingKey)."""

    __slots__ = ("entries", "stores", "real", "seen", "deletions", "dropped", "plain_keys")
    state: tuple[str, ...] = ("entries", "stores")

    def __init__(
        self, entries: Entries | None, source: Source | None, real: dict[Any, Any] | None
    ) -> None:
        super().__init__(source)
        self.entries = entries
        self.stores: Entries = {}  # while `entries` is None
        self.real = real
        self.seen: dict[Any, Value] = {}  # items of `real` realised one by one
        self.deletions = 0
        # keys deleted at some time: a live iterator sees that, though they come back
        self.dropped: set[Any] = set()
        self.plain_keys: bool | None = None

    @property
    def known_entries(self) -> Entries:
        """The entries that are known so far; stores go there."""
        return self.stores if self.entries is None else self.entries

    def settle_keys(self, tx: TraceContext) -> None:
        """Specialises the keys that vary, before something is read."""
        if not any(type(hashed) is VaryingKey for hashed in self.known_entries):
            return
        tx.effects.read(self)
        settled: Entries = {}
        for key, value in self.known_entries.values():
            add_entry(settled, key.key(tx), key, value)
        if self.entries is None:
            self.stores = settled
        else:
            self.entries = settled

    def all_entries(self, tx: TraceContext) -> Entries:
        """The entries, in order; their values may be LazyValue."""
        self.settle_keys(tx)
        if self.entries is None:
            entries = self._read_real(tx)
            for hashed, (key, value) in self.stores.items():
                add_entry(entries, hashed, key, value)
            self.entries, self.stores = entries, {}
        return self.entries

    def lost_objects(self, tx: TraceContext) -> Iterable[Any] | None:
        self.all_entries(tx)  # only then is it known whether a store replaced an item or added one
        return super().lost_objects(tx)

    def _read_real(self, tx: TraceContext) -> Entries:
        """The entries of the real dictionary, whose keys are guarded."""
        assert self.real is not None
        if dict.__len__(self.real) > LARGEST:
            raise self.unsupported_use(f"all of its {dict.__len__(self.real)} items")
        if not self.has_plain_keys():
            raise self.unsupported_use("keys of classes that hash or compare in Python")
        held, path = self.real_items(), self.known_source
        tx.guards.add(path, Kind.KEYS, tuple(held))
        tx.effects.read(self)
        entries: Entries = {}
        for index, (key, obj) in enumerate(held.items()):
            key_path = None if key_is_literal(key) else DictKey(path, index)
            key_value = look_at_key_parts(tx, tx.wrap(key, key_path))
            value = self.seen.get(key) or LazyValue(obj, DictItem(path, key))
            entries[key_value.key(tx)] = (key_value, value)
        return entries

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
            raise self.unsupported_use("its keys differ from those in its order")
        return {key: dict.__getitem__(self.real, key) for key in keys}

    def has_plain_keys(self) -> bool:
        """Whether looking up a literal in the real dictionary calls no code of the program."""
        if self.plain_keys is None:
            keys = () if self.real is None else dict.__iter__(self.real)
            self.plain_keys = not any(
                compares_in_python(key) for key in keys if type(key) is not str
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
        known = self.known_entries
        entry = known.get(hashed)
        if entry is not None and type(entry[1]) is LazyValue:
            tx.effects.read(self)
            entry = known[hashed] = (entry[0], tx.look(entry[1]))
        if entry is not None or self.entries is not None:
            return entry and entry[1]
        if not key_is_literal(hashed) or not self.has_plain_keys():
            self.all_entries(tx)
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
            self.all_entries(tx)
        tx.effects.change(self)
        if type(next(reversed(self.known_entries), None)) is VaryingKey:
            hashed = VaryingKey(key)  # which may be equal to one before
        add_entry(self.known_entries, hashed, key, value)

    def can_store_unread(self, hashed: Any) -> bool:
        """Whether an item can be stored in the real dictionary whatever it holds."""
        known = type(hashed) is VaryingKey or key_is_literal(hashed)
        return known and self.has_plain_keys()

    def drop(self, tx: TraceContext, key: Value) -> Value | None:
        """Removes an item and gives it, None when there was none."""
        self.all_entries(tx)
        value = self.get(tx, key)
        if value is not None:
            tx.effects.change(self)
            self.deletions += 1
            hashed = key.key(tx)
            self.dropped.add(hashed)
            del self.all_entries(tx)[hashed]
        return value

    def clear(self, tx: TraceContext) -> None:
        self.all_entries(tx)
        tx.effects.change(self)
        self.deletions += 1
        self.entries = {}

    def length(self, tx: TraceContext) -> Value:
        self.settle_keys(tx)
        if self.entries is None:
            assert self.real is not None
            tx.guards.add(self.source, Kind.LENGTH, length := dict.__len__(self.real))
            return Constant(length + sum(not self._was_there(tx, key) for key in self.stores))
        return Constant(len(self.entries))

    def contains(self, tx: TraceContext, item: Value) -> Value:
        """Whether a key is in the dictionary. An existing dictionary is not read where its stores,
        or a guard on the one key, tell."""
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
        return Constant(hashed in self.all_entries(tx))

    def _was_there(self, tx: TraceContext, key: Any) -> bool:
        """Whether the real dictionary has a literal key; guarded."""
        present = self.real is not None and dict.__contains__(self.real, key)
        tx.guards.add(self.source, Kind.PRESENT if present else Kind.ABSENT, key)
        return present

    def mapping_pairs(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        return self.pairs(tx)

    def pairs_to_store(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        """The pairs (key, value), for another dictionary to store. Keys that vary may be equal."""
        if self.entries and any(type(hashed) is VaryingKey for hashed in self.entries):
            return list(self.entries.values())
        return self.mapping_pairs(tx)

    def unpack_pairs(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        """The pairs (key, value) that unpacking its items() gives."""
        untouched = self.entries is None and not self.stores
        if untouched and self.real is not None and is_hook_table(self.source, self.real):
            tx.effects.read(self)
            return hooks_by_position(tx, self.known_source, self.real)
        return self.pairs(tx)

    def pairs(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        """The pairs (key, value), realised."""
        entries = self.all_entries(tx)
        for hashed, (key, value) in list(entries.items()):
            if type(value) is LazyValue:
                tx.effects.read(self)
                entries[hashed] = (key, tx.look(value))
        return list(entries.values())
