"""Functions of NumPy's, written with torch's where torch._numpy has none, or one with other values.

In: torch._numpy's arrays, of fake tensors, and literals. Out: such arrays. What they assume of
values they say to `OperationRecorder.expect`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .array_statistics import STATISTICS
from .expected_result import numpy
from .operation_recorder import OperationRecorder
from .torch_numpy import torch_numpy

STABLE = ("stable", "mergesort")
METHODS = frozenset({"argsort", "nonzero", "searchsorted"})  # which arrays have, too


def argsort(
    recorder: OperationRecorder,
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
) -> Any:
    """Sorts stably. How NumPy orders equal numbers otherwise is not defined, so there must be
    none."""
    tensor = a.tensor.flatten() if axis is None else a.tensor
    dim = -1 if axis is None else axis
    if order is not None or tensor.is_complex() or not tensor.dim():
        raise TypeError("not of these arguments")
    ordered, indices = torch.sort(tensor, dim=dim, stable=True)
    if not stable and kind not in STABLE:
        size = tensor.shape[dim]
        following = torch.narrow(ordered, dim, 1, size - 1)
        preceding = torch.narrow(ordered, dim, 0, size - 1)
        recorder.expect(torch.gt(following, preceding).all(), "of equal numbers")
    return torch_numpy().ndarray(indices)


def nonzero(recorder: OperationRecorder, a: Any) -> Any:
    """The columns of one array, as in NumPy."""
    if not a.tensor.dim():
        raise TypeError("not of a scalar")
    rows = torch.nonzero(a.tensor).clone(memory_format=torch.contiguous_format)
    return tuple(torch_numpy().ndarray(column) for column in rows.unbind(1))


def where(recorder: OperationRecorder, condition: Any, /, *choices: Any) -> Any:
    """torch._numpy's where; without choices it is `nonzero`."""
    if choices:
        return torch_numpy().where(condition, *choices)
    return nonzero(recorder, condition)


def linspace(
    recorder: OperationRecorder,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """NumPy's own steps: a range times the step, and the end as it was given."""
    first, last = number_of(recorder, start), number_of(recorder, stop)
    intervals = num - 1 if endpoint else num
    if retstep or axis or intervals < 1 or any(map(torch.is_complex, (first, last))):
        raise TypeError("not of these arguments")
    kept = torch.result_type(first, last)
    made = dtype_named(kept if kept.is_floating_point else torch.float64)
    step = (last - first) / intervals
    numbers = torch.arange(num, dtype=made, device="cpu") * step + first
    if endpoint:
        numbers[-1] = last
    wanted = made if dtype is None else dtype_named(dtype)
    if not wanted.is_floating_point:
        numbers = torch.floor(numbers)
    return torch_numpy().ndarray(numbers.to(wanted) if wanted != made else numbers)


def number_of(recorder: OperationRecorder, given: Any) -> torch.Tensor:
    """A number of the program as a tensor without dimensions."""
    if isinstance(given, torch_numpy().ndarray):
        tensor: torch.Tensor = given.tensor
        if tensor.dim():
            raise TypeError("not of arrays")
        return tensor if tensor.is_floating_point() else tensor.to(torch.float64)
    return torch.scalar_tensor(given, dtype=torch.float64, device="cpu")


def dtype_named(dtype: Any) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    found: torch.dtype = getattr(torch, numpy().dtype(dtype).name)
    return found


def divide(recorder: OperationRecorder, left: Any, right: Any, /, **how: Any) -> Any:
    """Integers are divided as float64; torch's default dtype would be the result's."""
    if all(map(is_whole, (left, right))):
        left, right = map(in_float64, (left, right))
    return torch_numpy().true_divide(left, right, **how)


def is_whole(given: Any) -> bool:
    if isinstance(given, torch_numpy().ndarray):
        dtype: torch.dtype = given.tensor.dtype
        return not dtype.is_floating_point and not dtype.is_complex
    return isinstance(given, int)


def in_float64(given: Any) -> Any:
    if isinstance(given, torch_numpy().ndarray):
        return torch_numpy().ndarray(given.tensor.to(torch.float64))
    return float(given)


def reshape(
    recorder: OperationRecorder,
    a: Any,
    shape: Any = None,
    order: str = "C",
    *,
    newshape: Any = None,
    copy: bool | None = None,
) -> Any:
    """Takes a size without a tuple around it, too."""
    if copy is not None or order != "C":
        raise TypeError("not of these arguments")
    return a.reshape(newshape if shape is None else shape)


def diag(recorder: OperationRecorder, v: Any, k: int = 0) -> Any:
    """The diagonal of a matrix is a view."""
    if v.tensor.dim() == 2:
        return torch_numpy().ndarray(v.tensor.diagonal(k))
    return torch_numpy().diag(v, k)


def identity(recorder: OperationRecorder, n: int, dtype: Any = None) -> Any:
    wanted = torch.float64 if dtype is None else dtype_named(dtype)
    return torch_numpy().ndarray(torch.eye(n, dtype=wanted, device="cpu"))


def scalar_of_one(name: str) -> Callable[..., Any]:
    """A statistic of torch._numpy, which gives an array of one number for a scalar."""

    def statistic(recorder: OperationRecorder, *args: Any, **kwargs: Any) -> Any:
        result = getattr(torch_numpy(), name)(*args, **kwargs)
        whole = kwargs.get("axis") is None and not kwargs.get("keepdims")
        if whole and result.tensor.shape == (1,):
            return torch_numpy().ndarray(result.tensor.reshape(()))
        return result

    return statistic


REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "argsort": argsort,
    "nonzero": nonzero,
    "where": where,
    "linspace": linspace,
    "reshape": reshape,
    "diag": diag,
    "identity": identity,
    "divide": divide,
    "true_divide": divide,
    **STATISTICS,
    **{name: scalar_of_one(name) for name in ("median", "percentile", "quantile")},
}
