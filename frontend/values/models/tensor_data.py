"""torch.tensor() and torch.as_tensor() of NumPy's arrays, and of numbers that vary: scalar_tensor()
takes symbols where they would need the numbers themselves."""

from __future__ import annotations

import torch

from ..base import Value
from ..constant import Constant
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..numpy.array import ArrayValue
from ..numpy.new_array import alias
from ..registry import models
from ..tensor.symbolic_number import SymbolicNumber

MOST = 64  # numbers: each becomes an operation
KEYWORDS = frozenset({"dtype", "device"})


def _function(function: object) -> None:
    @models(function)
    def make(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        data = tx.look(args[0]) if args else None
        if isinstance(data, ArrayValue):
            return of_array(tx, function, data, [*args[1:]], kwargs)
        if len(args) == 1 and kwargs.keys() <= KEYWORDS:
            found = of_varying_numbers(tx, tx.look(args[0]), kwargs)
            if found is not None:
                return found
        return tx.graph.function(function, *args, **kwargs)


for _f in (torch.tensor, torch.as_tensor):
    _function(_f)


def of_array(
    tx: TraceContext, function: object, array: ArrayValue, args: list[Value], how: dict[str, Value]
) -> Value:
    """A tensor with the numbers of an array; torch.as_tensor() shares its memory."""
    shares = function is torch.as_tensor
    if args or how.keys() - {"dtype"} or (shares and how) or (shares and not array.is_writable):
        raise array.unsupported_use("as data with a device or dtype")
    if shares:
        return alias(tx, array.tensor)
    layout: dict[str, Value] = {"memory_format": Constant(torch.contiguous_format)}
    copied = tx.graph.call("call_method", "clone", [array.tensor], layout)
    return tx.graph.call("call_method", "to", [copied, how["dtype"]], {}) if how else copied


def of_varying_numbers(tx: TraceContext, data: Value, how: dict[str, Value]) -> Value | None:
    """A tensor of a number, or of numbers in lists, at least one of which varies; None for other
    data."""
    found = numbers_in(tx, data)
    if found is None:
        return None
    shape, items = found
    types = {item.python_type() for item in items}
    if len(items) > MOST or not any(isinstance(item, SymbolicNumber) for item in items):
        return None
    if "dtype" not in how:
        dtype = torch.int64 if types == {int} else torch.get_default_dtype()
        how = {**how, "dtype": Constant(dtype)}
    elif not is_wide(how["dtype"]) or len(types) > 1:
        return None
    numbers = [tx.graph.function(torch.scalar_tensor, item, **how) for item in items]
    for size in reversed(shape):
        rows = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        numbers = [tx.graph.function(torch.stack, tx.make.list_of(row)) for row in rows]
    return numbers[0]


def numbers_in(tx: TraceContext, data: Value) -> tuple[list[int], list[Value]] | None:
    """The sizes and the numbers of nested lists of equal lengths; None for other data."""
    data = tx.look(data)
    if not isinstance(data, Sequence):
        return ([], [data]) if is_number(data) else None
    parts = [numbers_in(tx, item) for item in data.items]
    first = parts[0] if parts else None
    if first is None:
        return None
    items: list[Value] = []
    for part in parts:
        if part is None or part[0] != first[0]:
            return None
        items += part[1]
    return [len(parts), *first[0]], items


def is_wide(dtype: Value) -> bool:
    """Whether both functions store any number of the symbols' in a dtype in the same way."""
    return isinstance(dtype, Constant) and dtype.object in (
        torch.int64,
        torch.float32,
        torch.float64,
    )


def is_number(item: Value) -> bool:
    if isinstance(item, Constant):
        return type(item.object) in (int, float)
    return isinstance(item, SymbolicNumber) and item.python_type() in (int, float)
