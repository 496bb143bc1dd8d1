"""A module's tables of hooks. Their keys are ids, and each registration takes a new one. So guards
hold the number of hooks, and each hook by its position: a module with other ids, or a hook that is
registered anew before each call, is no reason to compile again."""

from __future__ import annotations

from typing import Any

from ....guards.guard import Kind
from ....guards.source import DictItem, DictKey, InstanceDict, ItemAtKey, Source
from ..base import Value
from ..constant import GivenLiteral
from ..context import TraceContext

HOOK_TABLES = frozenset(
    "_forward_hooks _forward_pre_hooks _backward_hooks _backward_pre_hooks "
    "_global_forward_hooks _global_forward_pre_hooks _global_backward_hooks "
    "_global_backward_pre_hooks".split()
)


def is_hook_table(path: Source | None, real: dict[Any, Any] | None) -> bool:
    """Whether an existing dictionary is an attribute of that name whose keys are all ids."""
    return (
        isinstance(path, DictItem)
        and isinstance(path.of, InstanceDict)
        and path.key in HOOK_TABLES
        and real is not None
        and all(type(key) is int for key in dict.__iter__(real))
    )


def hooks_by_position(
    tx: TraceContext, path: Source, real: dict[int, Any]
) -> list[tuple[Value, Value]]:
    """The pairs (id, hook) of a table that the program has not changed."""
    tx.guards.add(path, Kind.LENGTH, len(real))
    return [hook_at(tx, path, index, pair) for index, pair in enumerate(real.items())]


def hook_at(
    tx: TraceContext, path: Source, index: int, pair: tuple[int, Any]
) -> tuple[Value, Value]:
    hook_id, hook = pair
    id_path = DictKey(path, index)
    return GivenLiteral(hook_id, id_path, tx.guards), tx.wrap(hook, ItemAtKey(path, id_path))
