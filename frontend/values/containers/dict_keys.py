"""Keys of dictionaries and sets: which of them can be part of a path, and which run code of the
program."""

from __future__ import annotations

import enum
import types
from typing import Any

from ..base import Value
from ..constant import LITERAL_TYPES
from ..context import TraceContext
from ..objects.mro import lookup
from .sequence import TupleValue


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
