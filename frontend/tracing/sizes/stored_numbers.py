"""Numbers that the traced program stores in objects (`self.step += 1`, `self.best = loss`): the
next call finds others there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....guards.source import Source
from ...values.base import Value
from ...values.mutable import Mutable
from .variation import Variation


def expect_stored_numbers(
    variation: Variation, changed: Iterable[Mutable], found: dict[Source, Any]
) -> None:
    """Records for later captures that the numbers which a capture stores will differ. found: the
    numbers that the program was given; one that is stored back may stay the same."""
    for value in changed:
        for path, stored in value.stored_items():
            if is_number(stored) and not (path in found and is_known_number(stored, found[path])):
                variation.expect_number(path)


def is_number(value: Value) -> bool:
    return value.is_constant() and value.python_type() in (int, float)


def is_known_number(value: Value, number: Any) -> bool:
    """Whether a value is this number, and does not vary."""
    return not value.varies() and bool(value.constant() == number)
