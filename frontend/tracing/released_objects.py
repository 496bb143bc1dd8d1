"""Objects that the traced program has dropped from variables, attributes or containers that held
them before. They live until side effects are applied, so a weak reference cannot be read before
that."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import torch

from ..values.base import LazyValue, Value
from ..values.constant import is_literal
from ..values.context import TraceContext
from ..values.mutable import Mutable
from ..values.objects.attribute_storage import instance_dict
from .effect_log import was_there
from .interpreter.frame_stack import FrameStack
from .interpreter.suspended_generators import held_values


def may_be_gone(tx: TraceContext, frames: FrameStack, obj: Any) -> bool:
    """Whether in eager an object may be dead by now. In a capture it lives until side effects are
    applied."""
    return any(one is obj or not holds_no_objects(one) for one in released_objects(tx, frames))


def holds_no_objects(obj: Any) -> bool:
    """Whether an object holds no other object that could die with it."""
    return is_literal(obj) or (isinstance(obj, torch.Tensor) and not instance_dict(obj))


def released_objects(tx: TraceContext, frames: FrameStack) -> Iterator[Any]:
    """The objects that variables, attributes and containers have dropped. Where one cannot be
    determined, a new object stands for it."""
    for given, held in zip(frames.root_arguments, frames[0].slots, strict=True):
        if given is not None and given is not held:
            value = tx.look(given)
            if value is not held and not value.is_constant():
                real = tx.objects.real_object(value)
                yield value if real is None else real
    for (_, name), (where, _) in tx.effects.globals.items():
        yield vars(where).get(name) if isinstance(where, type) else where.get(name)
    for value in filter(was_there, tx.effects.changed):
        yield from lost_objects(tx, value)


def lost_objects(tx: TraceContext, value: Mutable) -> Iterator[Any]:
    """The real objects that a changed container, instance or tensor held before and may hold no
    more; a new object() where it is not known which."""
    found = value.lost_objects(tx)
    if found is not None:
        yield from found
        return
    real = tx.objects.real_object(value)
    kept = {
        id(held.object if isinstance(held, LazyValue) else tx.objects.real_object(held))
        for held in values_held_by(value)
    }
    yield from (
        [object()]
        if real is None
        else (one for one in gc.get_referents(real) if id(one) not in kept)
    )


def values_held_by(one: Any) -> Iterator[Value]:
    """The values that a container holds directly."""
    for child in held_values(one):
        if isinstance(child, Value):
            yield child
        elif isinstance(child, dict | list | tuple | set):
            yield from values_held_by(child)
