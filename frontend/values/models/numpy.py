"""NumPy's functions that make arrays, and what turns arrays into tensors and back."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant, fold
from ..containers.sequence import Sequence, nested_items
from ..context import TraceContext
from ..deferred_literal import is_dynamic
from ..numpy.array import ARRAYS, ArrayValue, arrays_in
from ..numpy.expected_result import is_array, run_on_stand_ins
from ..numpy.new_array import alias, array_over, literal_array
from ..numpy.numpy_function import call_function
from ..numpy.numpy_number import VaryingScalar, calculate_scalar
from ..registry import method, models
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import TensorValue

MOST = 64  # numbers that vary, or are beside one: each becomes an operation
NUMPY: Any = sys.modules.get("numpy")  # which torch has loaded, if there is one


@method(torch.Tensor, "numpy", "__array__")
def tensor_numpy(tx: TraceContext, self: TensorValue) -> Value:
    return array_over(tx, self, ".numpy()")


@models(torch.from_numpy)
def from_numpy(tx: TraceContext, array: Value) -> Value:
    """A tensor over the memory of an array."""
    array = tx.look(array)
    if not isinstance(array, ArrayValue) or not array.is_writable:
        raise GraphBreak("unknown-call", f"torch.from_numpy() of {array.describe()}")
    return alias(tx, array.tensor)


def _array_function(name: str) -> None:
    function = getattr(NUMPY, name)

    @models(function)
    def make(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        given = [tx.look(arg) for arg in args]
        return call_function(tx, function, given, {k: tx.look(v) for k, v in kwargs.items()})


def _array(name: str, called: str = "") -> None:
    """numpy's function of this name. `called`: another function that does the same for arrays that
    are of no subclass."""
    function = getattr(NUMPY, name)

    @models(getattr(NUMPY, called or name))
    def make(tx: TraceContext, data: Value, *args: Value, **kwargs: Value) -> Value:
        data = tx.look(data)
        if isinstance(data, TensorValue):
            data = array_over(tx, data, f"numpy.{name}()")
        elif isinstance(data, Sequence) and (arrays_in([data]) or has_few_varying(tx, data)):
            data = stack_lists(tx, data)
        elif not isinstance(data, ARRAYS):
            data = literal_array(tx, NUMPY.array(data.literal(tx)))
        given = [tx.look(arg) for arg in args]
        return call_function(
            tx, function, [data, *given], {k: tx.look(v) for k, v in kwargs.items()}
        )


def has_few_varying(tx: TraceContext, data: Sequence) -> bool:
    """Whether some numbers in nested lists vary, and not too many to be stacked one by one."""
    numbers = list(nested_items(tx, data))
    return len(numbers) <= MOST and any(
        isinstance(number, SymbolicNumber | VaryingScalar) for number in numbers
    )


def stack_lists(tx: TraceContext, data: Value) -> Value:
    """The array of nested lists of arrays and numbers."""
    data = tx.look(data)
    if isinstance(data, Sequence):
        rows = [stack_lists(tx, item) for item in data.items]
        return call_function(tx, NUMPY.stack, [tx.make.list_of(rows)], {})
    if isinstance(data, ARRAYS):
        return call_function(tx, NUMPY.asarray, [data], {})
    if isinstance(data, VaryingScalar):
        dtype: Any = getattr(torch, data.cls.__name__, None)
        data = data.number
    else:
        dtype = torch.float64 if data.python_type() is float else torch.int64
    if isinstance(data, SymbolicNumber) and data.python_type() in (int, float):
        tensor = tx.graph.function(torch.scalar_tensor, data, dtype=Constant(dtype))
        assert isinstance(tensor, TensorValue)
        return ArrayValue(tensor, NUMPY.ndarray)
    return literal_array(tx, NUMPY.array(data.literal(tx)))


def _function_of_literals(name: str) -> None:
    """NumPy makes the arrays while tracing."""
    function = getattr(NUMPY, name)

    @models(function)
    def make(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        if not all(map(is_specialised, (*args, *kwargs.values()))):
            raise GraphBreak("unknown-call", f"numpy.{name}")
        given = [arg.literal(tx) for arg in args]
        made = run_on_stand_ins(lambda: function(*given, **literals(tx, kwargs)))
        if type(made) is tuple and all(map(is_array, made)):
            return tx.make.tuple_of([literal_array(tx, array) for array in made])
        if not is_array(made):
            raise GraphBreak("unknown-call", f"numpy.{name}")
        return literal_array(tx, made)


def _class_of_scalars(cls: type) -> None:
    @models(cls)
    def make(tx: TraceContext, *args: Value) -> Value:
        found = calculate_scalar(tx, cls, *map(tx.look, args))
        return fold(tx, cls, [*args], {}) if found is None else found


def is_specialised(value: Value) -> bool:
    """Whether a number, or a tuple of numbers, is written in the program, or guarded already."""
    if isinstance(value, Sequence):
        return all(map(is_specialised, value.items))
    return isinstance(value, Constant) and not is_dynamic(value)


def literals(tx: TraceContext, values: dict[str, Value]) -> dict[str, Any]:
    return {name: value.literal(tx) for name, value in values.items()}


if NUMPY is not None:
    for _name in "float32 float64 int32 int64".split():
        _class_of_scalars(getattr(NUMPY, _name))
    for _name in "zeros ones empty full eye identity arange".split():
        _array_function(_name)
    for _name in """
        bartlett blackman hamming hanning kaiser tri indices tril_indices triu_indices diag_indices
        geomspace logspace
    """.split():
        _function_of_literals(_name)
    for _name in "array asarray ascontiguousarray".split():
        _array(_name)
    _array("asarray", "asanyarray")
