"""Arrays in which some dimensions run backwards, such as `a[::-1]`: no tensor has negative strides.

Each use copies the elements in their order (`torch.flip`); the array itself stays a view of another
one, which is made after the graph has run. Writes into it, and views of it that are no slices, are
left to Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ....errors import GraphBreak
from ..base import Args, Kwargs, Value
from ..constant import Constant
from ..containers.sequence import TupleValue
from ..containers.slice import SliceValue
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import ItemIterator
from ..operation import UnaryOperation
from ..tensor.symbolic_number import SymbolicNumber
from .expected_result import dtype_of, numpy

REVERSED = slice(None, None, -1)
SAME = frozenset({"__class__", "shape", "ndim", "size", "itemsize", "nbytes", "dtype"})


class ReversedArray(Value):
    """An ndarray that reads another one, `array`, backwards in the dimensions `dims`."""

    __slots__ = ("array", "dims")

    def __init__(self, array: Any, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.array, self.dims = array, dims

    @property
    def cls(self) -> type:
        found: type = numpy().ndarray
        return found

    @property
    def fake(self) -> torch.Tensor:
        """A fake of the same dtype and sizes."""
        fake: torch.Tensor = self.array.fake
        return fake

    def describe(self) -> str:
        return "a reversed array"

    def truth(self, tx: TraceContext) -> bool:
        raise GraphBreak("data-dependent-branch", "")

    def attribute(self, tx: TraceContext, name: str) -> Value:
        """Attributes of the array itself, but for strides and the transposed view, which steps
        reverse."""
        if name == "strides":
            size = dtype_of(self.fake.dtype).itemsize
            steps = enumerate(self.fake.stride())
            return tx.make.tuple_of(
                [tx.wrap((-step if d in self.dims else step) * size, None) for d, step in steps]
            )
        found: Value = self.array.attribute(tx, name)
        if name in SAME:
            return found
        if name == "T":
            return self.transpose(tx, [], [])
        if not callable(getattr(self.cls, name)):
            raise self.unsupported_use(f"attribute {name}")
        return tx.make.bound_method(self, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        axes = [arg.literal(tx) for arg in args] if name == "transpose" and not kwargs else None
        if axes is not None:
            return self.transpose(tx, args, axes)
        found: Value = self.array.call_method(tx, name, [self, *args], kwargs)
        return found

    def transpose(self, tx: TraceContext, args: list[Value], axes: list[Any]) -> Value:
        """A view with the dimensions in another order."""
        view: Value = self.array.method(tx, "transpose", args, {})
        count = self.fake.dim()
        order = axes[0] if len(axes) == 1 and type(axes[0]) in (tuple, list) else axes
        if not order or order == [None]:
            order = range(count)[::-1]
        places = (place for place, dim in enumerate(order) if dim % count in self.dims)
        return ReversedArray(view, tuple(places))

    def iterator(self, tx: TraceContext) -> Value:
        return ItemIterator(self)

    def length(self, tx: TraceContext) -> Value:
        found: Value = self.array.length(tx)
        return found

    def item(self, tx: TraceContext, key: Value) -> Value:
        view = view_backwards(tx, self.array, self.dims, key)
        if view is not None:
            return view
        if key.is_constant() and type(key.constant()) is int:
            self.array.item(tx, key)  # raises IndexError
        found: Value = self.array.apply(tx, "getitem", lambda array, key: array[key], [self, key])
        return found

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        raise GraphBreak("unsupported-mutation", f"of {self.describe()}")

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value:
        found: Value = self.array.apply(tx, op.name.strip("_"), op.function, [self])
        return found

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(reverse, [self.array, emit.const(self.dims)])


def reverse(array: Any, dims: tuple[int, ...]) -> Any:
    """The view of an array that runs backwards in some dimensions."""
    return array[tuple(REVERSED if dim in dims else slice(None) for dim in range(array.ndim))]


def view_backwards(tx: TraceContext, array: Any, dims: tuple[int, ...], key: Value) -> Value | None:
    """What an index into an array gives of which `dims` run backwards: slices of the array that
    run forwards, of which some dimensions run backwards. None for an index that is not made of
    slices and ints, and where the sizes of a slice vary."""
    parts = parts_of(key)
    sizes = array.fake.shape
    if parts is None or sum(part is not None for part in parts if part is not Ellipsis) > len(
        sizes
    ):
        return None
    forwards: list[Any] = []
    backwards: list[int] = []
    dim = made = 0
    for part in spread_out(parts, len(sizes)):
        if part is None:
            forwards.append(None)
            made += 1
            continue
        taken = in_one_dimension(part, sizes[dim], dim in dims)
        if taken is None:
            return None
        forward, is_reversed = taken
        forwards.append(forward)
        if is_reversed:
            backwards.append(made)
        made += isinstance(forward, slice)
        dim += 1
    view: Value = array.item(tx, tx.make.tuple_of([value_of(part) for part in forwards]))
    return ReversedArray(view, tuple(backwards)) if backwards else view


def parts_of(key: Value) -> list[Any] | None:
    """The ints, slices, None and ... of an index; None for others."""
    items = key.items if isinstance(key, TupleValue) else [key]
    found = []
    for item in items:
        if isinstance(item, SymbolicNumber) or not item.is_constant() or item.varies():
            return None
        found.append(item.constant())
    kinds = {type(part) for part in found}
    return found if kinds <= {int, slice, type(None), type(Ellipsis)} else None


def count_of_dims(parts: Sequence[Any]) -> int:
    """The number of dimensions that the parts of an index take."""
    return sum(part is not None and part is not Ellipsis for part in parts)


def spread_out(parts: Sequence[Any], count: int) -> Iterable[Any]:
    """An index with a part for each dimension: a slice of all where it has none."""
    rest = [slice(None)] * (count - count_of_dims(parts))
    if Ellipsis not in parts:
        return [*parts, *rest]
    position = parts.index(Ellipsis)
    return [*parts[:position], *rest, *parts[position + 1 :]]


def in_one_dimension(
    part: int | slice, size: int | torch.SymInt, is_reversed: bool
) -> tuple[int | slice, bool] | None:
    """The index that takes the same elements of a dimension, forwards, and whether they run
    backwards then. None where the size varies, and for an error."""
    if not isinstance(size, int):
        whole = isinstance(part, slice) and part in (slice(None), slice(None, None, 1), REVERSED)
        return (slice(None), is_reversed is not (part == REVERSED)) if whole else None
    if isinstance(part, int):
        if not -size <= part < size:
            return None
        return (size - 1 - part % size if is_reversed else part % size), False
    taken = range(size)[::-1][part] if is_reversed else range(size)[part]
    if not taken:
        return None
    if len(taken) == 1:
        return slice(taken[0], taken[0] + 1), False
    low, high = min(taken[0], taken[-1]), max(taken[0], taken[-1])
    return slice(low, high + 1, abs(taken.step)), taken.step < 0


def value_of(part: Any) -> Value:
    """A part of an index as a value."""
    if isinstance(part, slice):
        return SliceValue([Constant(one) for one in (part.start, part.stop, part.step)])
    return Constant(part)


def runs_backwards(key: Value) -> bool:
    """Whether an index has a slice with a negative step."""
    return any(
        isinstance(part, slice) and type(part.step) is int and part.step < 0
        for part in parts_of(key) or ()
    )


def flip_key(name: str, ndim: int, axis: Any) -> tuple[slice, ...] | None:
    """The index by which NumPy's flip functions reverse an array; None for an error."""
    axes: tuple[Any, ...] = {"fliplr": (1,), "flipud": (0,)}.get(name, ())
    if not axes:
        axes = tuple(range(ndim)) if axis is None else axis if type(axis) is tuple else (axis,)
    if not all(type(one) is int and -ndim <= one < ndim for one in axes):
        return None
    wanted = {one % ndim for one in axes}
    return tuple(REVERSED if dim in wanted else slice(None) for dim in range(ndim))
