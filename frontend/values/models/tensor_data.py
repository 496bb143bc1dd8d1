"""torch.tensor() and torch.as_tensor() of NumPy's arrays and scalars, of numbers in tensors, and of
numbers that vary: scalar_tensor() takes symbols where they would need the numbers themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..containers.list import ListValue
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..iterators.iterator import VARYING_LIST
from ..numpy.array import ArrayValue
from ..numpy.expected_result import is_scalar
from ..numpy.new_array import alias
from ..numpy.numpy_number import VaryingScalar
from ..registry import models
from ..tensor.read_number import can_be_node
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import TensorValue

MOST = 64  # numbers: each becomes an operation
KEYWORDS = frozenset({"dtype", "device"})


def _function(function: object) -> None:
    @models(function)
    def make(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        data = tx.look(args[0]) if args else None
        if not tx.options.fullgraph and varies_in_length(tx, data):
            raise GraphBreak("unsupported-value", VARYING_LIST)
        if isinstance(data, ArrayValue) and not data.is_scalar:
            return of_array(tx, function, data, [*args[1:]], kwargs)
        if len(args) == 1 and kwargs.keys() <= KEYWORDS:
            found = of_numbers(tx, tx.look(args[0]), kwargs) or of_tensors(tx, args[0], kwargs)
            if found is not None:
                return found
        return tx.graph.function(function, *args, **kwargs)


for _f in (torch.tensor, torch.as_tensor):
    _function(_f)


def varies_in_length(tx: TraceContext, data: Value | None) -> bool:
    """Whether data are in a list, or a list of lists, of which calls have had several lengths."""
    if not isinstance(data, ListValue):
        return False
    return data.varies_in_length(tx) or any(
        varies_in_length(tx, tx.look(item)) for item in data.items if item.python_type() is list
    )


def of_array(
    tx: TraceContext, function: object, array: ArrayValue, args: list[Value], how: dict[str, Value]
) -> Value:
    """A tensor with the numbers of an array; torch.as_tensor() shares its memory where the dtype is
    the same."""
    shares = function is torch.as_tensor
    if args or how.keys() - {"dtype"} or (shares and not array.is_writable):
        raise array.unsupported_use("as data with a device, or of an array that is read-only")
    if shares:
        made: Value = alias(tx, array.tensor)
    else:
        layout: dict[str, Value] = {"memory_format": Constant(torch.contiguous_format)}
        made = tx.graph.call("call_method", "clone", [array.tensor], layout)
    dtype = how.get("dtype")
    if dtype is None or tx.look(dtype).is_none():
        return made
    return tx.graph.call("call_method", "to", [made, dtype], {})


def of_numbers(tx: TraceContext, data: Value, how: dict[str, Value]) -> Value | None:
    """A tensor of a number, or of numbers in lists, at least one of which varies or is NumPy's;
    None for other data."""
    found = numbers_in(tx, data)
    if found is None:
        return None
    shape, items = found
    if all(isinstance(item, Constant) for item in items):
        return of_literals(tx, shape, items, how)
    dtype = dtype_of_data(shape, items, how)
    if len(items) > MOST or dtype is None:
        return None
    how = {**how, "dtype": Constant(dtype)}
    return stack_nested(tx, shape, [number_as_tensor(tx, item, how) for item in items])


def stack_nested(tx: TraceContext, shape: list[int], items: list[Value]) -> Value:
    """A tensor of these sizes of tensors without dimensions."""
    for size in reversed(shape):
        rows = [items[start : start + size] for start in range(0, len(items), size)]
        items = [tx.graph.function(torch.stack, tx.make.list_of(row)) for row in rows]
    return items[0]


def of_tensors(tx: TraceContext, data: Value, how: dict[str, Value]) -> Value | None:
    """A tensor of the numbers in tensors without dimensions, in lists; None for other data, and
    where the numbers are converted in another way than a tensor is."""
    found = numbers_in(tx, data, is_tensor_of_number)
    if found is None or not found[0] or len(found[1]) > MOST:
        return None
    shape, items = found
    dtypes = {item.fake.dtype for item in items if isinstance(item, TensorValue)}
    wanted = tx.look(how.get("dtype", Constant(None)))
    on_cpu = torch.get_default_device().type == "cpu" and "device" not in how
    read = all(can_be_node(tx, item) for item in items)
    if len(dtypes) > 1 or not on_cpu or not read:
        return None
    stacked = stack_nested(tx, shape, items)
    if wanted.is_none() or wanted.constant() in dtypes:
        return stacked
    if not all(dtype.is_floating_point for dtype in (*dtypes, wanted.constant())):
        return None
    return tx.graph.call("call_method", "to", [stacked, wanted], {})


def of_literals(
    tx: TraceContext, shape: list[int], items: list[Value], how: dict[str, Value]
) -> Value | None:
    """A tensor of literals, at least one of them NumPy's, made of the Python numbers that they
    equal; None where torch makes another tensor of these, or there are no scalars of NumPy's."""
    literals = [item.constant() for item in items]
    if not any(map(is_scalar, literals)):
        return None
    given: dict[str, Any] = {name: value.literal(tx) for name, value in how.items()}
    numbers = [one.item() if is_scalar(one) else one for one in literals]
    try:
        expected = torch.tensor(nest_lists(shape, literals), **given)
        given["dtype"] = expected.dtype
        found = torch.tensor(nest_lists(shape, numbers), **given)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return None
    if not torch.equal(expected, found):  # nor is NaN equal
        return None
    how = {**how, "dtype": Constant(expected.dtype)}
    return tx.graph.function(torch.tensor, tx.wrap(nest_lists(shape, numbers), None), **how)


def nest_lists(shape: list[int], items: list[Any]) -> Any:
    """A number, or nested lists of these sizes."""
    for size in reversed(shape):
        items = [items[start : start + size] for start in range(0, len(items), size)]
    return items[0]


def dtype_of_data(
    shape: list[int], items: list[Value], how: dict[str, Value]
) -> torch.dtype | None:
    """The dtype of a tensor of such numbers; None where scalar_tensor() may store one of them in
    another way."""
    types = {item.python_type() for item in items}
    samples = nest_lists(shape, [item.python_type()(1) for item in items])
    if "dtype" not in how:
        dtype = torch.tensor(samples).dtype
        return dtype if is_wide(dtype) or len(types) == 1 else None
    dtype = how["dtype"].constant()
    try:
        torch.tensor(samples, dtype=dtype)
    except TypeError:  # a float32 of NumPy's as an int
        return None
    return dtype if is_wide(dtype) and len(types) == 1 else None


def number_as_tensor(tx: TraceContext, number: Value, how: dict[str, Value]) -> Value:
    """A tensor without dimensions of a number."""
    if isinstance(number, ArrayValue):
        return tx.graph.call("call_method", "to", [number.tensor], {**how, "copy": Constant(True)})
    if isinstance(number, VaryingScalar):
        number = number.number
    return tx.graph.function(torch.scalar_tensor, number, **how)


def is_numeric_item(item: Value) -> bool:
    if isinstance(item, Constant):
        return type(item.object) in (int, float) or is_scalar(item.object)
    if isinstance(item, ArrayValue):
        return item.is_scalar and item.fake.dtype is not torch.bool
    return isinstance(item, VaryingScalar) or (
        isinstance(item, SymbolicNumber) and item.python_type() in (int, float)
    )


def is_tensor_of_number(item: Value) -> bool:
    """Whether an item is a tensor on the CPU that torch reads as a number, without a warning that
    its gradient is lost."""
    if not isinstance(item, TensorValue) or item.fake.device.type != "cpu":
        return False
    return item.fake.dim() == 0 and not item.fake.requires_grad


def numbers_in(
    tx: TraceContext, data: Value, is_item: Callable[[Value], bool] = is_numeric_item
) -> tuple[list[int], list[Value]] | None:
    """The sizes and the items of nested lists of equal lengths; None for other data."""
    data = tx.look(data)
    if not isinstance(data, Sequence):
        return ([], [data]) if is_item(data) else None
    parts = [numbers_in(tx, item, is_item) for item in data.items]
    first = parts[0] if parts else None
    if first is None:
        return None
    items: list[Value] = []
    for part in parts:
        if part is None or part[0] != first[0]:
            return None
        items += part[1]
    return [len(parts), *first[0]], items


def is_wide(dtype: torch.dtype) -> bool:
    """Whether both functions store any number of the symbols' in a dtype in the same way."""
    return dtype in (torch.int64, torch.float32, torch.float64)
