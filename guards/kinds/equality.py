"""EQUALS: a constant of the same type and value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import torch

from ..encoded import Encoded
from ..guard import Guard, Kind
from ..source import safe_repr
from .registry import GuardKind, guard_kind

# Types whose comparison is C and runs no user code.
COMPARED_IN_C = (
    int,
    str,
    float,
    complex,
    bool,
    bytes,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    tuple,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    range,
)


def same_constant(expected: Any, found: Any) -> bool:
    """Equal in type and value all the way down; floats by their bits, but any NaN is any NaN."""
    if expected is found:
        return True
    if type(expected) is not type(found):
        return False
    if isinstance(expected, tuple):
        return len(expected) == len(found) and all(
            map(same_constant, tuple.__iter__(expected), tuple.__iter__(found))
        )
    return DEEPER.get(type(expected), are_equal)(expected, found)


def are_equal(expected: Any, found: Any) -> bool:
    if type(expected).__module__ == "numpy":  # a scalar, by its bits
        return expected.tobytes() == found.tobytes()
    return bool(expected == found)


def same_float(expected: float, found: float) -> bool:
    return bits(expected) == bits(found)


def same_complex(expected: complex, found: complex) -> bool:
    return same_float(expected.real, found.real) and same_float(expected.imag, found.imag)


def same_set(expected: frozenset[Any], found: frozenset[Any]) -> bool:
    twins = {item: item for item in found}
    return len(expected) == len(found) and all(
        item in twins and same_constant(item, twins[item]) for item in expected
    )


def same_slice(expected: slice, found: slice) -> bool:
    return same_constant(slice_parts(expected), slice_parts(found))


def slice_parts(value: slice) -> tuple[Any, Any, Any]:
    return value.start, value.stop, value.step


def bits(value: float) -> bytes:
    return b"nan" if value != value else struct.pack("<d", value)


DEEPER: dict[type, Callable[[Any, Any], bool]] = {
    float: same_float,
    complex: same_complex,
    frozenset: same_set,
    slice: same_slice,
}


def constant_key(value: Any) -> Hashable:
    """Equal for constants that same_constant holds equal."""
    if isinstance(value, tuple):
        return type(value), tuple(map(constant_key, tuple.__iter__(value)))
    if type(value) is float:
        return float, bits(value)
    if type(value) is complex:
        return complex, bits(value.real), bits(value.imag)
    if type(value) is frozenset:
        return frozenset, frozenset(map(constant_key, value))
    if type(value).__module__ == "numpy":
        return type(value), value.tobytes()
    if type(value) is slice:
        return slice, constant_key(slice_parts(value))
    return (type(value), value) if isinstance(value, Hashable) else (type(value), id(value))


def compares_in_c(value: Any) -> bool:
    """Whether C can compare it without running Python."""
    return type(value) in COMPARED_IN_C and (
        not isinstance(value, tuple) or all(map(compares_in_c, value))
    )


def needs_python(value: Any) -> bool:
    """Whether only `same_constant` can compare it."""
    if isinstance(value, tuple):
        return any(map(needs_python, tuple.__iter__(value)))
    return type(value) in (frozenset, slice) or type(value).__module__ == "numpy"


@guard_kind(Kind.EQUALS)
class Equals(GuardKind):
    """A constant of the same type that is equal."""

    cost = 3

    def key(self, guard: Guard) -> Hashable:
        return constant_key(guard.expected)

    def holds(self, expected: Any, subject: Any) -> bool:
        return same_constant(expected, subject)

    def encode(self, guard: Guard) -> Encoded:
        if guard.expected is None or type(guard.expected) is bool:
            return Encoded("IS", guard.expected)
        if needs_python(guard.expected):
            return Encoded("PYTHON", partial(same_constant, guard.expected), runs_python=True)
        return Encoded("EQUALS", guard.expected, runs_python=not compares_in_c(guard.expected))

    def implies(self, guard: Guard, other: Guard) -> bool:
        return other.kind is Kind.TYPE and other.expected is type(guard.expected)

    def expression(self, guard: Guard) -> str:
        return f"{guard.source.name} == {safe_repr(guard.expected)}"

    def old(self, guard: Guard) -> str:
        return safe_repr(guard.expected)

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        if type(subject) is not type(guard.expected):
            return (
                f"type({guard.source.name})",
                type(guard.expected).__qualname__,
                type(subject).__qualname__,
            )
        return guard.source.name, safe_repr(guard.expected), safe_repr(subject)
