"""The fake tensor mode of a capture: operators calculate sizes, dtypes and strides, and never read
or write memory.

torch's own mode has two ways to memory. An operator without a meta kernel runs for real, on zeros
of the same sizes: an operator that takes lengths or offsets may then read outside of them. And C++
code above the mode, such as the packed RNNs, reads the numbers of a CPU tensor; a fake tensor's
storage is a null pointer, of which torch notices only where no size is a symbol, else the process
crashes. Here the first is off, and every fake storage raises a RuntimeError when anything asks for
its memory; the graph builder makes a graph break of it. Operators whose arguments are all constants
of the program still run on those.
"""

from __future__ import annotations

import ctypes
import gc
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

STORAGE_BYTES = (
    96  # of a c10::StorageImpl that are compared; it has more than that in each supported torch
)
# Operators for which torch has no meta kernel, and whose result is laid out as their first
# argument.
LIKE_ITS_FIRST = frozenset(
    {torch.ops.aten._sample_dirichlet.default, torch.ops.aten._dirichlet_grad.default}
)
NO_LEAF = (
    "ignore",
    re.compile("The .grad attribute of a Tensor that is not a leaf"),
    UserWarning,
    None,
    0,
)


class CaptureFakeMode(FakeTensorMode):
    """torch's mode, whose tensors have no memory that could be read."""

    def __init__(self) -> None:
        super().__init__(allow_fallback_kernels=False)
        self._allow_unsafe_data_ptr_access = (
            False  # writing access raises: torch sets that for each tensor
        )

    def open_to_backends(self) -> None:
        """Ends the capture: from now on operators without a meta kernel run on zeros, of sizes that
        the capture has seen to agree. The derivatives of some have none, and no program of the
        user's calls those."""
        self.allow_fallback_kernels = True

    def from_tensor(self, tensor: torch.Tensor, **named: Any) -> FakeTensor:
        if tensor.is_leaf or tensor.retains_grad:
            return seal(super().from_tensor(tensor, **named))
        with without_gradient_warning():
            return seal(super().from_tensor(tensor, **named))

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in LIKE_ITS_FIRST:
            func, args, kwargs = torch.ops.aten.empty_like.default, args[:1], {}
        result = super().dispatch(func, types, args, kwargs)
        if type(result) is FakeTensor:
            seal(result)
        elif isinstance(result, tuple | list):
            for part in result:
                if type(part) is FakeTensor:
                    seal(part)
        return result


@cache
def load_torch() -> None:
    """Makes a first fake mode, which loads half of torch. Functions that run at import ask for
    their frames, cycles that lead to every frame around them: the program's objects should not wait
    there for a collection, which may be switched off."""
    CaptureFakeMode()
    gc.collect(1)


@contextmanager
def without_gradient_warning() -> Iterator[None]:
    """torch looks at .grad to describe a tensor, and warns of it where that is no leaf. The filter
    is put in without a word to the warnings module, which would forget what it has shown once."""
    warnings.filters.insert(0, NO_LEAF)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        warnings.filters.remove(NO_LEAF)  # type: ignore[attr-defined]


def seal(fake: Any) -> Any:
    """Makes reading the memory of a fake tensor with symbols an error of torch's; the tensor comes
    back. Without symbols reading raises anyway, and torch's cache of fake results needs the
    storage."""
    if (
        fake._has_symbolic_sizes_strides
        and fake.layout is torch.strided
        and torch._C._has_storage(fake)
    ):
        offset = reading_check()
        if offset:
            ctypes.c_bool.from_address(fake.untyped_storage()._cdata + offset).value = True
    return fake


@cache
def reading_check() -> int:
    """Where a storage says that reading it raises, in bytes from its start; 0 where this torch does
    not keep that as expected.

    Python can only forbid to write. The flag for reading is stored beside that: `has check, no
    writing, no reading, warn`.
    """
    scratch = torch.empty(1, device="meta")
    storage = scratch.untyped_storage()
    before = bytes_of(storage)
    torch._C._set_throw_on_mutable_data_ptr(scratch)
    forbidden = bytes_of(storage)
    torch._C._set_warn_deprecated_on_mutable_data_ptr(scratch)
    warned = bytes_of(storage)
    writing = [at for at in range(STORAGE_BYTES) if before[at] != forbidden[at]]
    warning = [at for at in range(STORAGE_BYTES) if forbidden[at] != warned[at]]
    if (
        len(writing) != 2
        or warning != [writing[1] + 2]
        or writing[1] != writing[0] + 1
        or warned[writing[1] + 1] != 0
    ):
        return 0
    return writing[1] + 1 if makes_reading_fail(writing[1] + 1) else 0


def makes_reading_fail(offset: int) -> bool:
    """Whether setting the byte at `offset` of a storage forbids to read it, and nothing else."""
    scratch = torch.ones(2)
    flag = ctypes.c_bool.from_address(scratch.untyped_storage()._cdata + offset)
    flag.value = True
    try:
        scratch + 1
        return False
    except RuntimeError:
        flag.value = False
        return scratch.tolist() == [1.0, 1.0]


def lacks_dimension(target: Any, args: list[Any]) -> bool:
    """Whether an operator asks for the size of a dimension that its tensor does not have: its C++
    code then reads what lies behind the sizes, and a symbol that is none crashes the process."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return (
        name in BY_CHANNEL
        and bool(args)
        and isinstance(args[0], torch.Tensor)
        and args[0].dim() < 2
    )


BY_CHANNEL = frozenset({"batch_norm", "_batch_norm_impl_index"})


def bytes_of(storage: torch.UntypedStorage) -> bytes:
    return bytes((ctypes.c_ubyte * STORAGE_BYTES).from_address(storage._cdata))
