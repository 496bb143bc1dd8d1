"""Numbers that the traced program stores in objects (`self.step += 1`, `self.best = loss`): the
next call finds others there."""

from __future__ import annotations

from collections.abc import Iterable

from ...values.mutable import Mutable
from .variation import Variation


def expect_stored_numbers(variation: Variation, changed: Iterable[Mutable]) -> None:
    """Records for later captures that the numbers which a capture stores will differ."""
    for value in changed:
        for path, stored in value.stored_items():
            if stored.is_constant() and stored.python_type() in (int, float):
                variation.expect_number(path)
