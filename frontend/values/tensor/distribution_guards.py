"""Guards on a DTensor: its mesh, placements and sizes, attribute by attribute, so that C compares
them. (Of other wrappers the class's own `__tensor_flatten__` says what there is to compare.)"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, InstanceDict, SequenceItem, Source
from ..context import TraceContext

PARAMETER_MARK = "_is_param"


def guard_distribution(tx: TraceContext, real: Any, fake: Any, source: Source) -> None:
    """Guards all that a DTensor flattens to beside its local tensor. fake: it tells which sizes may
    vary."""
    spec = AttrSource(source, "_spec")
    tx.guards.add(spec, Kind.TYPE, type(real._spec))
    for field in dataclasses.fields(real._spec):
        value, path = getattr(real._spec, field.name), DictItem(InstanceDict(spec), field.name)
        if value is real._spec.tensor_meta and fake._has_symbolic_sizes_strides:
            guard_varying_layout(tx, value, fake, path)
        else:
            tx.guards.add(path, Kind.EQUALS, value)
    own = InstanceDict(source)
    if PARAMETER_MARK in vars(real):
        tx.guards.add(DictItem(own, PARAMETER_MARK), Kind.EQUALS, real._is_param)
    else:
        tx.guards.add(own, Kind.ABSENT, PARAMETER_MARK)


def guard_varying_layout(tx: TraceContext, real: Any, fake: torch.Tensor, source: Source) -> None:
    """Guards the sizes, strides and dtype that the spec of a DTensor names (a TensorMeta): they are
    those of the fake."""
    tx.guards.add(source, Kind.TYPE, type(real))
    tx.guards.add(SequenceItem(source, 2), Kind.EQUALS, real.dtype)
    for position, numbers in enumerate((fake.shape, fake.stride())):
        path = SequenceItem(source, position)
        tx.guards.add(path, Kind.TYPE, type(real[position]))
        tx.guards.add(path, Kind.LENGTH, len(numbers))
        for dim, number in enumerate(numbers):
            if isinstance(number, torch.SymInt):
                tx.symbols.shapes.note_size(number, SequenceItem(path, dim))
            else:
                tx.guards.add(SequenceItem(path, dim), Kind.EQUALS, number)
