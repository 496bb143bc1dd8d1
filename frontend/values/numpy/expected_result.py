"""What NumPy returns for arrays like those of a call: NumPy runs on small stand-ins, of the same
dtypes and layouts, and says which type, dtype and memory the result has.

In: fake tensors. Out: stand-ins, and whether a fake result is like NumPy's. Knows no graph.
"""

from __future__ import annotations

import enum
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ....backends.graph.memory import memory_of
from ....errors import GraphBreak

EXAMPLE_SIZE = 3  # where values decide a size
LARGEST = 50_000  # elements of an array whose stand-in has the same sizes


def numpy() -> Any:
    """The module, which the program has loaded."""
    return sys.modules["numpy"]


def dtype_of(dtype: torch.dtype) -> Any:
    """NumPy's dtype of the same name."""
    return numpy().dtype(str(dtype).removeprefix("torch."))


def size_now(size: int | torch.SymInt, example: int = EXAMPLE_SIZE) -> int:
    """A size in this call, which is not relied on; of one that values decide, an example. Breaks
    where a size depends on more than one such number."""
    if isinstance(size, int):
        return size
    if size.node.hint is not None:
        return int(size.node.hint)
    expr = size.node.expr
    if len(expr.free_symbols) > 1:
        raise GraphBreak("data-dependent-shape", "an array")
    return int(expr.subs(dict.fromkeys(expr.free_symbols, example)))


class StandIns:
    """The stand-ins of one call. Where an array is large, all sizes become small ones; equal sizes
    stay equal. `outline`: keeps the sizes, and all elements are one; for indexing. `ones`: integers
    are 1, too; for functions that look for elements."""

    def __init__(
        self, fakes: Iterable[torch.Tensor], outline: bool = False, ones: bool = False
    ) -> None:
        self.made: list[tuple[Any, torch.Tensor]] = []
        shapes = [tuple(map(size_now, fake.shape)) for fake in fakes]
        self.outline, self.ones = outline, ones
        self.small: dict[int, int] = {}
        if not outline and any(torch.Size(shape).numel() > LARGEST for shape in shapes):
            sizes = sorted({size for shape in shapes for size in shape if size > 1})
            self.small = {size: number for number, size in enumerate(sizes, 2)}

    def make(self, fake: torch.Tensor, example: int = EXAMPLE_SIZE) -> Any:
        """An array like a tensor, with `example` for sizes that values decide. Numbers are 1, and 2
        on the diagonal, so that a matrix has an inverse; integers are 0, which is a valid index;
        bools are true."""
        np = numpy()
        now = [size_now(size, example) for size in fake.shape]
        sizes = [self.small.get(size, size) for size in now]
        dtype = dtype_of(fake.dtype)
        if self.outline:
            array = np.lib.stride_tricks.as_strided(
                np.zeros(1, dtype), sizes, [0] * len(sizes), writeable=True
            )
        else:
            zero = dtype.kind in "iu" and not self.ones
            array = np.zeros(sizes, dtype) if zero else np.ones(sizes, dtype)
            if dtype.kind not in "iub" and len(sizes) > 1:
                array += np.eye(*sizes[-2:], dtype=dtype)
            array = with_strides_like(array, fake)
        self.made.append((array, fake))
        return array


def with_strides_like(array: Any, fake: torch.Tensor) -> Any:
    """The array with strides in the order of a tensor's, and gaps where it has some."""
    strides = [size_now(stride) for stride in fake.stride()]
    if any(stride == 0 and size > 1 for stride, size in zip(strides, array.shape, strict=True)):
        raise GraphBreak("unsupported-value", "an array whose elements share memory")
    order = sorted(range(array.ndim), key=lambda dim: -strides[dim])
    if is_contiguous_now(fake):
        return array
    np = numpy()
    sizes = [array.shape[dim] for dim in order]
    sizes[-1] *= 2 - is_dense(fake)
    made = np.zeros(sizes, array.dtype)
    if not is_dense(fake):
        made = made[..., ::2]
    made = made.transpose(np.argsort(order))
    made[...] = array
    return made


def is_contiguous_now(fake: torch.Tensor) -> bool:
    """Whether a tensor is in the order of C, with its sizes in this call."""
    reach = 1
    for size, stride in zip(reversed(fake.shape), reversed(fake.stride()), strict=True):
        if size_now(size) != 1 and size_now(stride) != reach:
            return 0 in map(size_now, fake.shape)
        reach *= size_now(size)
    return True


def is_dense(fake: torch.Tensor) -> bool:
    """Whether no gaps are between the elements of a tensor."""
    strides, sizes = map(size_now, fake.stride()), map(size_now, fake.shape)
    pairs = sorted(zip(strides, sizes, strict=True))
    reach = 1
    for stride, size in pairs:
        if size > 1 and stride != reach:
            return False
        reach *= size
    return True


def run_on_stand_ins(function: Callable[[], Any]) -> Any:
    """What NumPy returns. Raises GraphBreak where it raises, or warns of anything but values."""
    np = numpy()
    try:
        with warnings.catch_warnings(record=True) as warned, np.errstate(all="ignore"):
            warnings.simplefilter("always")
            result = function()
    except Exception as error:
        raise GraphBreak("exception-leaves", f"{type(error).__name__} in NumPy") from error
    if warned:
        raise GraphBreak("output", f"a {warned[0].category.__name__} of NumPy")
    return result


def is_array(obj: Any) -> bool:
    return type(obj) is numpy().ndarray


def is_scalar(obj: Any) -> bool:
    return isinstance(obj, numpy().generic)


class ResultLayout(enum.Enum):
    """Where a result is: a view of an operand, or in memory of its own, in the order of C or of
    Fortran, or as it is, with gaps."""

    VIEW = enum.auto()
    GAPS = enum.auto()
    C = enum.auto()
    FORTRAN = enum.auto()


def shares_memory(fake: torch.Tensor, stand_ins: StandIns) -> bool:
    """Whether a fake result is a view of an operand, or the operand."""
    memory = memory_of(fake)
    return any(memory == memory_of(other) for _, other in stand_ins.made)


def compare_results(expected: Any, fake: torch.Tensor, stand_ins: StandIns) -> ResultLayout:
    """Where NumPy's result is. Raises GraphBreak unless a fake result can be made like it."""
    np = numpy()
    exact = not stand_ins.small and all(isinstance(size, int) for size in fake.shape)
    if (
        expected.dtype != dtype_of(fake.dtype)
        or expected.dtype.char != dtype_of(fake.dtype).char
        or expected.ndim != fake.dim()
        or (exact and expected.shape != tuple(fake.shape))
    ):
        raise GraphBreak(
            "unsupported-value",
            f"{dtype_of(fake.dtype)}{tuple(fake.shape)}, "
            f"which is {expected.dtype}{expected.shape} in NumPy",
        )
    if is_scalar(expected):
        return ResultLayout.C
    if any(np.may_share_memory(expected, array) for array, _ in stand_ins.made):
        if not shares_memory(fake, stand_ins):
            raise GraphBreak("unsupported-value", "a view that NumPy has and torch has not")
        return ResultLayout.VIEW
    if expected.flags.c_contiguous:
        return ResultLayout.C
    if expected.flags.f_contiguous:
        return ResultLayout.FORTRAN
    if expected.strides == tuple(step * expected.itemsize for step in fake.stride()):
        return ResultLayout.GAPS
    raise GraphBreak("unsupported-value", "a result with gaps or another order of dimensions")
