"""Whether a call could have read what the frame has changed, of which guards say nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...values.base import Value
from ..effect_log import was_there
from ..interpreter.suspended_generators import HOLDERS, held_values
from ..trace import Trace


def leads_to_changed(tx: Trace, values: Iterable[Value]) -> bool:
    """Whether values are, or hold, an existing object that the frame has changed."""
    changed = {id(value) for value in tx.effects.changed if was_there(value)}
    if not changed:
        return False
    todo: list[Any] = list(values)
    found = {id(value) for value in todo}
    for value in todo:  # which grows
        for held in held_values(value):
            if isinstance(held, HOLDERS) and id(held) not in found:
                found.add(id(held))
                todo.append(held)
    return not changed.isdisjoint(found)
