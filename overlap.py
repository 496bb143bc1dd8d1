"""Whether tensors overlap in memory, judged from addresses, sizes and strides.

The answer is conservative: `may_overlap` is False only where no byte belongs to both. Interleaved
views that share no element (columns of one matrix, every second row, chunks along any dimension)
are recognised. guards/native/memory.c does the same at run time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from .records import record


@record
class Window:
    """Where a strided tensor's elements are. address: of its first element; itemsize: bytes of an
    element; strides: in elements."""

    address: int
    itemsize: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    storage: int = 0  # identifies the storage object

    @property
    def is_empty(self) -> bool:
        """Whether no memory belongs to it: a size of 0, or a tensor without data."""
        return 0 in self.sizes or not self.address

    @property
    def end(self) -> int:
        """The address after its last byte."""
        reach = sum(
            (size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True)
        )
        return self.address + (reach + 1) * self.itemsize

    @property
    def steps(self) -> list[tuple[int, int]]:
        """(stride in bytes, size) of each dimension that moves through memory."""
        pairs = zip(self.sizes, self.strides, strict=True)
        return [(stride * self.itemsize, size) for size, stride in pairs if size > 1 and stride > 0]


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor consists of strided memory of its own."""
    with torch._C.DisableTorchFunction():
        return (
            tensor.layout is torch.strided
            and not tensor.is_nested
            and not is_functorch_wrapped_tensor(tensor)
        )


def window_of(tensor: torch.Tensor, itemsize: int | None = None) -> Window:
    """The window of a real strided tensor. Raises for one without storage, or with symbolic
    sizes."""
    with torch._C.DisableTorchFunction():
        size = tensor.element_size() if itemsize is None else itemsize
        start = torch._C._data_address(tensor)  # type: ignore[attr-defined]
        sizes, strides = tuple(map(int, tensor.size())), tuple(map(int, tensor.stride()))
        address = start + int(tensor.storage_offset()) * size if start else 0
        return Window(address, size, sizes, strides, tensor.untyped_storage()._cdata)


def may_overlap(one: Window, other: Window) -> bool:
    """Whether two windows may have a byte in common."""
    if one.is_empty or other.is_empty or one.end <= other.address or other.end <= one.address:
        return False
    return not any(are_interleaved(one, other, cut) for cut, _ in (*one.steps, *other.steps))


def pairs_that_overlap(windows: Sequence[Window]) -> Iterator[tuple[int, int]]:
    """The positions, in order, of each two windows that may have a byte in common."""
    ends = [window.end for window in windows]
    reaching: list[int] = []  # those that begin before the present one, and end after its start
    for number in sorted(range(len(windows)), key=lambda number: windows[number].address):
        reaching = [other for other in reaching if ends[other] > windows[number].address]
        for other in reaching:
            if may_overlap(windows[number], windows[other]):
                yield min(number, other), max(number, other)
        reaching.append(number)


def are_interleaved(one: Window, other: Window, cut: int) -> bool:
    """Whether both consist of blocks that repeat at multiples of one period, and the blocks of one
    fit between those of the other. cut: strides below it (bytes) lie inside a block."""
    period = math.gcd(*(stride for stride, _ in (*one.steps, *other.steps) if stride >= cut))
    distance = (other.address - one.address) % period
    return distance >= block(one, cut) and period - distance >= block(other, cut)


def block(window: Window, cut: int) -> int:
    """The bytes that the dimensions with strides below a cut span."""
    return window.itemsize + sum(
        (size - 1) * stride for stride, size in window.steps if stride < cut
    )


def may_overlap_itself(window: Window) -> bool:
    """Whether two elements of one window may have a byte in common."""
    return not window.is_empty and may_repeat(window.sizes, window.strides)


def may_repeat(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two indices of a tensor with these sizes, none of them 0, may lead to one element."""
    reach = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1:
            if stride < reach:
                return True
            reach += (size - 1) * stride
    return False
