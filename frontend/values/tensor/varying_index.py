"""Indexing with an int that varies: `x[n]` becomes select(), which takes symbols, so that another
index is no reason to compile again.

Only in indices made of ints, slices, None, Ellipsis and tensors of ints; the others keep torch's
own rules. A tensor of one integer, as an index or as a bound of a slice, is read first, as torch
and Python do.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from ..base import Value
from ..constant import Constant
from ..containers.slice import SliceValue
from ..context import TraceContext
from .read_number import INDICES, is_integer_tensor, is_single_index
from .symbolic_number import SymbolicNumber

WHOLE = slice(None)


def select_varying(tx: TraceContext, tensor: Value, shape: torch.Size, key: Value) -> Value | None:
    """The view of a tensor of this shape that an index with an int that varies gives. None for an
    index without one, and where torch's indexing has to answer."""
    items = [tx.look(item) for item in (key.unpack(tx) if key.python_type() is tuple else [key])]
    if not any(map(varies, items)) or not all(map(is_basic_index, items)):
        return None
    used = sum(not is_one_of(item, None, ...) for item in items)
    dims = len(shape)
    if used > dims or sum(is_one_of(item, ...) for item in items) > 1:
        return None
    selected, rest, dim, place = [], [], 0, 0  # `place`: where `dim` is, once `rest` is applied
    for item in items:
        if varies(item) and lies_inside(item, shape[dim]):
            selected.append((place, item))
            rest.append(tx.wrap(WHOLE, None))
        else:
            rest.append(item)
        passed = dims - used if is_one_of(item, ...) else 1
        dim += 0 if is_one_of(item, None) else passed
        place += 0 if rest[-1] is item and item.python_type() is int else passed
    if not selected:
        return None
    view = tensor
    if len(selected) < len(items):
        view = tx.graph.function(operator.getitem, view, tx.make.tuple_of(rest))
    for place, item in reversed(selected):
        view = tx.graph.call("call_method", "select", [view, Constant(place), item], {})
    return view


def select_beside_tensors(
    tx: TraceContext, tensor: Value, shape: torch.Size, key: Value
) -> tuple[Value, Value] | None:
    """What `x[n, rows]` is an index of, and with what: x.select(0, n) and rows. torch, too, applies
    the ints of an index before its tensors. None for an index without an int that varies beside
    tensors, and where torch's indexing has to answer."""
    items = [tx.look(item) for item in (key.unpack(tx) if key.python_type() is tuple else [key])]
    known = all(is_basic_index(item) or is_tensor_of_ints(item) for item in items)
    if not (known and any(map(varies, items)) and any(map(is_tensor_of_ints, items))):
        return None
    used = sum(not is_one_of(item, None, ...) for item in items)
    if used > len(shape) or sum(is_one_of(item, ...) for item in items) > 1:
        return None
    selected, rest, dim = [], [], 0
    for item in items:
        if varies(item) and lies_inside(item, shape[dim]):
            selected.append((dim, item))
        else:
            rest.append(item)
        if not is_one_of(item, None):
            dim += len(shape) - used if is_one_of(item, ...) else 1
    view = tensor
    for dim, item in reversed(selected):
        view = tx.graph.call("call_method", "select", [view, Constant(dim), item], {})
    return (view, tx.make.tuple_of(rest)) if selected else None


def read_indices(tx: TraceContext, key: Value) -> Value:
    """An index in which numbers stand for tensors of one integer, and tensors for NumPy's
    arrays."""
    if key.python_type() is tuple:
        items = [tx.look(item) for item in key.unpack(tx)]
        read = [read_index(tx, item) for item in items]
        return key if all(map(operator.is_, items, read)) else tx.make.tuple_of(read)
    return read_index(tx, key)


def read_index(tx: TraceContext, item: Value) -> Value:
    if is_single_index(tx, item):
        return item.method(tx, "item", [], {})
    if type(item) is not SliceValue:
        return item.as_index(tx)
    parts = [tx.look(part) for part in item.parts]
    if not any(map(is_integer_tensor, parts)):
        return item
    return SliceValue(
        [part.method(tx, "item", [], {}) if is_integer_tensor(part) else part for part in parts]
    )


def varies(item: Value) -> bool:
    return isinstance(item, SymbolicNumber) and item.python_type() is int


def is_basic_index(item: Value) -> bool:
    """Whether an index is one that makes a view: an int, a slice, None or an ellipsis."""
    if isinstance(item, Constant):
        return type(item.object) is int or is_one_of(item, None, ...)
    return varies(item) or item.python_type() is slice


def is_tensor_of_ints(item: Value) -> bool:
    """Whether an item is a tensor that selects by position; of bools and of uint8 are masks."""
    fake = getattr(item, "fake", None)
    return item.python_type() is torch.Tensor and fake is not None and fake.dtype in INDICES


def is_one_of(item: Value, *literals: object) -> bool:
    """Whether an item is one of these literals, by identity."""
    return isinstance(item, Constant) and any(item.object is one for one in literals)


def lies_inside(item: Value, size: int) -> bool:
    """Whether a dimension of that size has the index; guarded. An index that only values tell is
    taken to be inside."""
    assert isinstance(item, SymbolicNumber)
    number, owner = item.sym, item.owner
    below, above = number < size, number >= -size  # type: ignore[operator]
    return owner.expect(below, True) and owner.expect(above, True)


def has_index(tx: TraceContext, size: Any, index: int) -> bool:
    """Whether a dimension of a size that may vary has an index; guarded. True for a size that only
    values tell."""
    found = tx.wrap(size, None)
    if not isinstance(found, SymbolicNumber):
        number: int = found.constant()
        return -number <= index < number
    least: Any = found.sym
    return found.depends_on_values() or found.owner.decide(least >= max(index + 1, -index))
