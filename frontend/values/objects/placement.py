"""Placements (Shard, Replicate and Partial): how a distributed tensor lies along a dimension of a
mesh. torch's own are immutable, so they are literals."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import wraps_subclasses


class NoPlacement:
    """Stands for the base class of placements in a torch that has none in C."""


BASE: type = getattr(getattr(torch._C, "_distributed", None), "Placement", NoPlacement)


def is_placement(cls: type) -> bool:
    """Whether a class is one of torch's placements."""
    return issubclass(cls, BASE) and cls.__module__.startswith("torch.distributed.tensor")


@wraps_subclasses(BASE)
def wrap_placement(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if not is_placement(type(obj)):
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__}, a placement of its own,")
    tx.guards.add(source, Kind.EQUALS, obj)
    return Constant(obj, source)
