"""Steps to what a tensor has."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from ..encoded import Encoded
from .path import Source, path


@path
class PlainTensor(Source):
    """The tensor `of`, an instance of a subclass, as a plain tensor."""

    cost = 2000
    written = "{0.of.name}.as_subclass(Tensor)"
    of: Source

    def read(self, of: torch.Tensor) -> torch.Tensor:
        return without_class(of)


def without_class(tensor: torch.Tensor) -> torch.Tensor:
    """An instance of a tensor subclass as a plain tensor."""
    with torch._C.DisableTorchFunctionSubclass(), torch.enable_grad():
        return tensor.as_subclass(torch.Tensor)


@path
class ArrayTensor(Source):
    """The tensor that shares the memory of the NumPy array `of`."""

    cost = 1500
    written = "torch.from_numpy({0.of.name})"
    of: Source

    def read(self, of: Any) -> torch.Tensor:
        return tensor_of_array(of)


ARRAY_DTYPES = (
    "bool int8 int16 int32 int64 uint8 float16 float32 float64 complex64 complex128".split()
)


@functools.cache
def array_dtypes() -> frozenset[str]:
    """The character codes of the dtypes of arrays that graphs take. Two of NumPy's dtypes may have
    one size and one tensor dtype; the code tells them apart."""
    numpy = sys.modules["numpy"]
    return frozenset(numpy.dtype(name).char for name in ARRAY_DTYPES)


def tensor_of_array(array: Any) -> torch.Tensor:
    """A tensor over the memory of an ndarray. Raises TypeError or ValueError for an array that no
    graph takes: read-only, misaligned, with strides that a tensor cannot have, of another byte
    order, or of a dtype that torch lacks."""
    dtype = array.dtype
    if not array.flags.behaved or dtype.char not in array_dtypes() or dtype.metadata:
        raise TypeError("no graph takes this array")
    return torch.from_numpy(array)


@path
class TensorProperty(Source):
    """A number of the tensor `of`: `what` is "size" or "stride" (with the dimension) or
    "storage_offset"."""

    cost = 5
    of: Source
    what: str
    dim: int

    @property
    def name(self) -> str:
        return f"{self.of.name}.{self.what}({self.dim if self.what != 'storage_offset' else ''})"

    def read(self, of: torch.Tensor) -> int:
        return PROPERTIES[self.what](of, self.dim)

    def encode(self) -> Encoded:
        fallback = PROPERTIES[self.what]  # for tensors that C cannot read
        return Encoded(f"TENSOR_{self.what.upper()}", fallback, self.dim, runs_python=True)


def tensor_size(tensor: Any, dim: int) -> int:
    return call_plainly(tensor, torch.Tensor.size)[dim]


def tensor_stride(tensor: Any, dim: int) -> int:
    return call_plainly(tensor, torch.Tensor.stride)[dim]


def tensor_storage_offset(tensor: Any, dim: int) -> int:
    return call_plainly(tensor, torch.Tensor.storage_offset)


def call_plainly(tensor: Any, method: Callable[[torch.Tensor], Any]) -> Any:
    """The result of a tensor's method without subclasses' __torch_function__. Raises TypeError for
    other objects."""
    with torch._C.DisableTorchFunction():
        return method(tensor)


PROPERTIES: dict[str, Callable[[Any, int], int]] = {
    "size": tensor_size,
    "stride": tensor_stride,
    "storage_offset": tensor_storage_offset,
}
