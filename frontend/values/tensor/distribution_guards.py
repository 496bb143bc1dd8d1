"""Guards on a DTensor: its mesh, placements and sizes, attribute by attribute, so that C compares
them. (Of other wrappers the class's own `__tensor_flatten__` says what there is to compare.)"""

from __future__ import annotations

import dataclasses
from typing import Any

from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, InstanceDict, Source
from ..context import TraceContext

PARAMETER_MARK = "_is_param"


def guard_distribution(tx: TraceContext, real: Any, source: Source) -> None:
    """Guards all that a DTensor flattens to beside its local tensor."""
    spec = AttrSource(source, "_spec")
    tx.guards.add(spec, Kind.TYPE, type(real._spec))
    for field in dataclasses.fields(real._spec):
        value = getattr(real._spec, field.name)
        tx.guards.add(DictItem(InstanceDict(spec), field.name), Kind.EQUALS, value)
    own = InstanceDict(source)
    if PARAMETER_MARK in vars(real):
        tx.guards.add(DictItem(own, PARAMETER_MARK), Kind.EQUALS, real._is_param)
    else:
        tx.guards.add(own, Kind.ABSENT, PARAMETER_MARK)
