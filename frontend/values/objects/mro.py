"""Look-up of raw attributes along the method resolution order of a class."""

from __future__ import annotations

from typing import Any

from ....errors import GraphBreak

MISSING: Any = object()
HEAP_TYPE, IMMUTABLE_TYPE = 1 << 9, 1 << 8  # Py_TPFLAGS_HEAPTYPE and Py_TPFLAGS_IMMUTABLETYPE


def lookup(cls: type, name: str) -> tuple[type | None, Any]:
    """(owner, raw attribute) of the first class in the method resolution order that has the name;
    (None, MISSING) if none has."""
    if cls.__mro__ is None:
        raise GraphBreak("unsupported-value", "a class that is being made")
    for owner in cls.__mro__:
        found = owner.__dict__.get(name, MISSING)
        if found is not MISSING:
            return owner, found
    return None, MISSING


def name_in_c(cls: type) -> str:
    """A class's name as C's error messages show it: with its module if it is made in C."""
    if cls.__flags__ & HEAP_TYPE or cls.__module__ == "builtins":
        return cls.__name__
    return f"{cls.__module__}.{cls.__name__}"


def class_attribute(cls: type, name: str) -> Any:
    """The raw attribute of a class, whichever of its bases defines it; None if it has none."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
