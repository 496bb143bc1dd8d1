"""Lookups in an existing dictionary or set by a key that varies between calls: the item is found at
each call by the key of that call, so that another key is no reason to compile again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....guards.guard import Kind
from ....guards.source import KEYS_THAT_VARY, HasKey, ItemAtKey, Source
from ..base import Value
from ..constant import GivenLiteral
from ..context import TraceContext
from ..tensor.symbolic_number import SymbolicNumber, number_now, path_of

NUMBERS_AND_TEXTS = (int, float, str)


@dataclass(frozen=True)
class VaryingLookup:
    """A lookup in the dictionary or set `real`, which is at the path `of`, by the key at the path
    `key`. `now`: the key in this call."""

    of: Source
    real: Any
    key: Source
    now: Any

    def finds_item(self, tx: TraceContext) -> bool:
        """Whether it has the key; guarded."""
        base: Any = dict if isinstance(self.real, dict) else set
        found = base.__contains__(self.real, self.now)
        tx.guards.add(HasKey(self.of, self.key), Kind.EQUALS, found)
        return found

    def item_or_none(self, tx: TraceContext) -> Value | None:
        """The item of a dictionary, None if there is none. Numbers and texts are taken to differ
        from key to key."""
        if not dict.__contains__(self.real, self.now):
            self.finds_item(tx)
            return None
        item, path = dict.__getitem__(self.real, self.now), ItemAtKey(self.of, self.key)
        if type(item) in NUMBERS_AND_TEXTS:
            tx.symbols.variation.expect_number(path)
        return tx.wrap(item, path)


def varying_lookup(of: Source, real: Any, key: Value) -> VaryingLookup | None:
    """The lookup by a key that varies. None for other keys, and where the item is code to run: a
    function, a class or a module, which decides what is captured."""
    path = path_of_varying_key(key)
    if path is None:
        return None
    now = key.now if isinstance(key, GivenLiteral) else number_now(key)
    if isinstance(real, dict) and callable(dict.get(real, now)):
        return None
    return VaryingLookup(of, real, path, now)


def path_of_varying_key(key: Value) -> Source | None:
    """The path to a text or int that varies; None for other keys."""
    if isinstance(key, GivenLiteral):
        return key.source
    if isinstance(key, SymbolicNumber) and key.python_type() in KEYS_THAT_VARY:
        return path_of(key)
    return None
