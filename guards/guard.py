"""Guards: conditions on the objects at sources, as data. In: facts that a capture relied on. Out:
`Guard` records, which guard_order.py orders and merges. Nothing is checked here."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import torch

from ..records import record
from .source import Source
from .torch_state import TorchState

__all__ = ["Guard", "Kind", "MemoryRelation", "ShapeExpr", "TensorSpec", "TorchState"]


class Kind(enum.Enum):
    """What a guard checks of the object; after the name: what `expected` holds."""

    TYPE = enum.auto()  # a class: type(obj) is it
    IS = enum.auto()  # an object: obj is it
    # a constant: same type and equal (floats: same bits up to NaN; tuples: item by item)
    EQUALS = enum.auto()
    LENGTH = enum.auto()  # int: len() of a builtin container, a subclass's own __len__ ignored
    # tuple: the dictionary's keys in order, compared as EQUALS or, for other objects, as IS
    KEYS = enum.auto()
    ABSENT = enum.auto()  # a constant key that the dictionary (or None for no dictionary) lacks
    ALL_ABSENT = enum.auto()  # tuple of such keys
    PRESENT = enum.auto()  # a constant key that the dictionary holds
    # tuple of str: what the dictionary holds under each of these keys is an empty container
    EMPTY_ITEMS = enum.auto()
    TENSOR = enum.auto()  # TensorSpec
    SAME = enum.auto()  # a Source: both are one object
    DISTINCT = enum.auto()  # tuple of Sources: no two of obj and theirs are one object
    MEMORY = enum.auto()  # MemoryRelation: these of its tensors overlap in memory, and no others
    # (count, exactly): so many items left in a range, list or tuple iterator, or at least so many
    REMAINING = enum.auto()
    TORCH_STATE = enum.auto()  # TorchState
    SHAPE = enum.auto()  # ShapeExpr: holds for the sizes named in it
    PYTHON = enum.auto()  # (sentence, predicate): predicate(obj) is true; slow, for what is rare

    __hash__ = object.__hash__  # Enum's hashes the name, in Python


@record
class Guard:
    """A condition. `line` is the user's line that relied on it ("file:line"), for the report of a
    miss."""

    source: Source
    kind: Kind
    expected: Any
    line: str = ""


@record
class TensorSpec:
    """The properties of a tensor that compiled code relies on. None in sizes or strides means any
    (symbolic)."""

    type: type
    dtype: Any
    device: Any
    requires_grad: bool
    layout: Any
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    keys: int  # torch._C._dispatch_keys(t).raw_repr()

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorSpec:
        """The spec that only tensors like this one fulfil; a dimension that is not a plain int is
        any."""
        with torch._C.DisableTorchFunction():
            strided = tensor.layout is torch.strided and not tensor.is_nested
            return cls(
                type=type(tensor),
                dtype=tensor.dtype,
                device=tensor.device,
                requires_grad=tensor.requires_grad,
                layout=tensor.layout,
                sizes=without_symbols(tensor.size()) if not tensor.is_nested else (),
                strides=without_symbols(tensor.stride()) if strided else (),
                keys=torch._C._dispatch_keys(tensor).raw_repr(),
            )


def without_symbols(numbers: Iterable[int | torch.SymInt]) -> tuple[int | None, ...]:
    return tuple(number if type(number) is int else None for number in numbers)


@record
class ShapeExpr:
    """A relation over numbers found by sources: `text` is Python over the names in `symbols`."""

    text: str
    symbols: tuple[tuple[str, Source], ...]


@record
class MemoryRelation:
    """How the memory of several tensors, some of which compiled code writes into, overlaps. Tensors
    are numbered, written ones first.

    others: the tensors after the guard's own source, which is number 0. itemsizes: bytes of an
    element of each. written: how many are written. history: how many of these, the first ones,
    autograd then gives a history: for them, to be in one storage object counts as overlapping,
    because views of one base share their history. alone: written ones that may overlap themselves.
    overlapping: pairs of numbers that overlap, the first written; a number paired with itself
    overlaps itself. plain: all are plain tensors, which C can read.
    """

    others: tuple[Source, ...]
    itemsizes: tuple[int, ...]
    written: int
    history: int
    alone: tuple[int, ...]
    overlapping: frozenset[tuple[int, int]]
    plain: bool
