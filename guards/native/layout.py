"""Where a C++ tensor keeps its facts, found by experiment, never assumed: offsets into THPVariable
and TensorImpl.

Runs once, at the first TENSOR guard. In: tensors whose facts torch tells us. Out: one `Layout`,
handed to C, or None if any offset is missing or ambiguous: then guards on tensors run
kinds/tensor.py's Python instead.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from functools import cache
from typing import Any

import torch
from torch import _C

from ...records import record
from ...torch_compat import SWITCHED_OFF, TENSOR_LAYOUT
from ..guard import TensorSpec
from . import _guards
from .fingerprint import address, load_library

REQUIRES_GRAD = "_ZNK3c1010TensorImpl13requires_gradEv"  # c10::TensorImpl::requires_grad() const
LEVELS = ("offsets", "python")


@record
class Layout:
    """Offsets in bytes from the start of each object; the order of the fields is that of set_layout
    in tensor_layout.c."""

    impl: int  # in THPVariable: TensorImpl*
    keys: int  # in TensorImpl: uint64
    dtype: int  # uint16
    device: int  # int8 type, int8 index
    sizes: int  # int64 dim; then inline_dims sizes and as many strides, or one pointer to both
    inline_dims: int
    storage_offset: int  # int64
    autograd: int  # AutogradMeta*, NULL for a tensor that autograd never saw
    leaf_requires: int  # in AutogradMeta: the mark that requires_grad_() sets, a byte
    # StorageImpl*; -1 where it was not found: then relations of memory run kinds/memory.py's Python
    storage: int
    data: int  # in StorageImpl: its memory, NULL for none
    requires_grad: int  # address of the C++ method; it knows of views and non-leaves
    plain_keys: int  # tensors with other keys may hide behind these fields: slow path


class Ambiguous(Exception):
    """An offset was found nowhere, or in several places."""


_forced: str | None = None


def force(level: str | None) -> None:
    """Builds TENSOR guards at this level from now on ("offsets", "python"; None: the best there
    is). For tests."""
    global _forced
    if level not in (None, *LEVELS):
        raise ValueError(level)
    _forced = level
    hand_over(None if level == "python" else layout())


def level() -> str:
    return _forced or ("offsets" if layout() is not None else "python")


def expected_facts(spec: TensorSpec) -> tuple[Any, ...] | None:
    """The spec as C compares it, or None where only Python can tell."""
    found = layout()
    if found is None or level() == "python" or not is_plain(spec, found):
        return None
    try:
        dtype, device = dtype_code(spec.dtype, found), device_code(str(spec.device), found)
    except Exception:
        # a device that this process has not got: such a guard fails, by the slow path
        return None
    return spec.type, spec.keys, dtype, device, spec.requires_grad, spec.sizes, spec.strides


def is_plain(spec: TensorSpec, found: Layout) -> bool:
    """Whether the TensorImpl of such a tensor has its real sizes, strides and dtype. It has not
    under functorch, for sparse layouts, and under Python dispatch (but for DTensor)."""
    known = found.plain_keys | (python_keys() if is_distributed(spec.type) else 0)
    return (
        spec.layout is torch.strided
        and len(spec.sizes) == len(spec.strides)
        and not spec.keys & ~known
    )


def is_distributed(cls: type) -> bool:
    """Whether a class is DTensor, whose sizes and strides torch writes into the TensorImpl."""
    return cls.__name__ == "DTensor" and cls.__module__.startswith("torch.distributed.tensor")


@cache
def python_keys() -> int:
    """The keys of Python dispatch."""
    snapshot = _C.DispatchKeySet(_C.DispatchKey.PythonTLSSnapshot)
    return snapshot.add(_C.DispatchKey.Python).raw_repr()


def is_plain_object(tensor: torch.Tensor, keys: int) -> bool:
    """Whether C can tell where the elements of a tensor with these dispatch keys are."""
    found = layout()
    known = found is not None and found.storage >= 0 and not keys & ~found.plain_keys
    return known and type(tensor) in (torch.Tensor, torch.nn.Parameter)


@cache
def layout() -> Layout | None:
    """Calibrated once; None where this torch, or this platform, gives no unique answer."""
    if TENSOR_LAYOUT in SWITCHED_OFF:
        return None
    try:
        with plain_torch():
            found = calibrate()
    except Exception:  # of a torch that stores tensors in another way: Python checks them
        return None
    hand_over(found)
    return found


def hand_over(found: Layout | None) -> None:
    """Passes a layout to the evaluator in C."""
    _guards.set_layout(
        None if found is None else (*astuple(found), torch.Tensor, torch.nn.Parameter)
    )


@cache
def dtype_code(dtype: torch.dtype, found: Layout) -> int:
    with plain_torch():
        return read_bytes(torch.empty(0, dtype=dtype, device="cpu"), found.dtype, "<H")


@cache
def device_code(device: str, found: Layout) -> int:
    with plain_torch():
        return read_bytes(torch.empty(0, device=device), found.device, "<H")


@contextmanager
def plain_torch() -> Iterator[None]:
    """No modes: tensors made here are what they seem."""
    with ExitStack() as stack:
        stack.enter_context(_C.DisableTorchFunction())
        stack.enter_context(_C._DisableTorchDispatch())
        stack.enter_context(_C._ExcludeDispatchKeyGuard(functorch_keys()))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        yield


def functorch_keys() -> _C.DispatchKeySet:
    keys = _C.DispatchKeySet(_C.DispatchKey.FuncTorchDynamicLayerFrontMode)
    return keys.add(_C.DispatchKey.FuncTorchDynamicLayerBackMode)


# --- calibration ---


def calibrate() -> Layout:
    """Finds the offsets of a tensor's fields by comparing its memory with what Python says. Raises
    if an offset is not unique, or if the result fails on other tensors."""
    tensors = samples()
    size = min(allocated_size(tensor._cdata) for tensor in tensors)
    images = [(tensor, ctypes.string_at(tensor._cdata, size)) for tensor in tensors]

    def where(test: Callable[[torch.Tensor, bytes, int], bool]) -> int:
        return single(
            offsets(size, lambda at: all(test(tensor, image, at) for tensor, image in images))
        )

    sizes = where(has_sizes)
    keys_of = {id(tensor): _C._dispatch_keys(tensor).raw_repr() for tensor in tensors}
    keys = where(lambda tensor, image, at: u64(image, at) == keys_of[id(tensor)])
    storage_offset = where(lambda tensor, image, at: u64(image, at) == tensor.storage_offset())
    taken = {
        *range(keys, keys + 8),
        *range(sizes, sizes + 8),
        *range(storage_offset, storage_offset + 8),
    }
    dtype = single(
        at for at in names(images, size, 2, lambda tensor: tensor.dtype) if at not in taken
    )
    devices = names(images, size, 1, lambda tensor: tensor.device.type)
    device = single(at for at in devices if at not in taken and is_device(images, at))
    autograd = where(has_autograd)
    found = Layout(
        impl_offset(tensors),
        keys,
        dtype,
        device,
        sizes,
        inline_dims(sizes),
        storage_offset,
        autograd,
        single(marks(autograd)),
        *storage_offsets(images, size),
        address(load_library("c10"), REQUIRES_GRAD),
        plain_keys(),
    )
    verify(found, tensors)
    return found


def impl_offset(tensors: list[torch.Tensor]) -> int:
    """Where a Python tensor keeps the address of its TensorImpl."""
    return single(
        offsets(
            torch.Tensor.__basicsize__,
            lambda at: all(word(id(tensor), at) == tensor._cdata for tensor in tensors),
            start=object.__basicsize__,
        )
    )


def storage_offsets(images: list[Any], size: int) -> tuple[int, int]:
    """Where a tensor keeps its StorageImpl, and where that keeps the address of its memory; -1
    twice where that is not found."""
    try:
        storage = single(
            offsets(
                size,
                lambda at: all(
                    u64(image, at) == tensor.untyped_storage()._cdata for tensor, image in images
                ),
            )
        )
        storages = [tensor.untyped_storage() for tensor, _ in images]
        shortest = min(allocated_size(one._cdata) for one in storages)
        data = single(
            offsets(
                shortest, lambda at: all(word(one._cdata, at) == one.data_ptr() for one in storages)
            )
        )
    except Ambiguous:
        return -1, -1
    return storage, data


def samples() -> list[torch.Tensor]:
    """Tensors that differ in each fact while the others stay."""
    leaf = torch.ones(3, 5, 7, 11, requires_grad=True)
    base = torch.empty(9999)
    return [
        leaf,
        leaf * 2,
        leaf.detach(),
        leaf[1:, 2:4],
        torch.nn.Parameter(torch.empty(4, 6)),
        base[17:21],
        base[101:],
        base.as_strided((2, 3, 4), (13, 29, 31), 8191),
        torch.empty(13, 17).t(),
        torch.empty(2, 3, 4, 5, 6),
        torch.empty(()),
        torch.empty(0, 5),
        torch.empty(3, 4, device="meta"),
        torch.empty(7, device="meta")[2:],
        torch.empty(3, dtype=torch.complex64).conj(),
        torch.frombuffer(bytearray(64), dtype=torch.float32)[3:],
        *(torch.empty(3, 4, dtype=dtype) for dtype in DTYPES),
        *(torch.empty(3, 4, dtype=dtype, device="meta") for dtype in DTYPES),
    ]


DTYPES = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
    torch.float64, torch.complex64, torch.complex128, torch.bool, torch.bfloat16,
)  # fmt: skip


def has_sizes(tensor: torch.Tensor, image: bytes, at: int) -> bool:
    """SizesAndStrides: dim, then (up to 5 dimensions) 5 sizes and 5 strides in place."""
    dim, gap = tensor.dim(), 8 * MAX_INLINE
    if at + 8 + 2 * gap > len(image) or u64(image, at) != dim:
        return False
    shape = struct.unpack_from(f"<{dim}q", image, at + 8)
    return (
        shape == tuple(tensor.shape)
        and struct.unpack_from(f"<{dim}q", image, at + 8 + gap) == tensor.stride()
    )


MAX_INLINE = 5


def has_autograd(tensor: torch.Tensor, image: bytes, at: int) -> bool:
    """A pointer, where the tensor has to do with autograd."""
    pointer = u64(image, at)
    if tensor.requires_grad or tensor._is_view():
        return pointer >= 1 << 16 and pointer % 8 == 0
    return pointer == 0


def marks(autograd: int) -> Iterator[int]:
    """Offsets of bytes that are 1 after requires_grad_(True), 0 after requires_grad_(False), and
    never anything else."""
    tensor = torch.ones(3, requires_grad=True)
    meta = read_bytes(tensor, autograd, "<Q")
    images = []
    for required in (True, False, True, False):
        tensor.requires_grad_(required)
        images.append(ctypes.string_at(meta, allocated_size(meta)))
    return (at for at in range(len(images[0])) if [image[at] for image in images] == [1, 0, 1, 0])


def inline_dims(sizes: int) -> int:
    """One more dimension than fits in place must be behind a pointer; else the layout is
    another."""
    tensor = torch.empty((2,) * MAX_INLINE + (3,))
    numbers = read_bytes(tensor, sizes + 8, "<Q")
    dim = tensor.dim()
    if numbers < 1 << 16 or allocated_size(numbers) < 16 * dim:  # a size, not an address
        raise Ambiguous("sizes")
    if struct.unpack(f"<{2 * dim}q", ctypes.string_at(numbers, 16 * dim)) != (
        *tensor.shape,
        *tensor.stride(),
    ):
        raise Ambiguous("sizes")
    return MAX_INLINE


def names(
    images: list[Any], size: int, width: int, fact: Callable[[torch.Tensor], Any]
) -> Iterator[int]:
    """Offsets of bytes that are equal exactly where the fact is equal."""
    facts = [fact(tensor) for tensor, _ in images]
    count = len(set(facts))
    for at in range(0, size - width + 1, width):
        values = [image[at : at + width] for _, image in images]
        if len(set(values)) == count == len(set(zip(facts, values, strict=True))):
            yield at


def is_device(images: list[Any], at: int) -> bool:
    """optional<Device>: type, index (-1 for cpu and meta), and a true flag; the type of the cpu is
    0."""
    return all(image[at + 1 : at + 3] == b"\xff\x01" for _, image in images) and all(
        (image[at] == 0) is (tensor.device.type == "cpu") for tensor, image in images
    )


def plain_keys() -> int:
    """Keys under which sizes, strides, dtype and device are in the TensorImpl itself."""
    key = _C.DispatchKey
    dense = [
        getattr(key, f"{prefix}{name}")
        for name in ("CPU", "CUDA", "Meta", "XPU")
        for prefix in ("", "Autograd")
    ]
    marks = [key.ADInplaceOrView, key.AutogradFunctionality, key.Conjugate, key.Negative]
    raw = 0
    for one in (*dense, *marks, key.AutocastCPU, key.AutocastCUDA):
        raw |= _C.DispatchKeySet(one).raw_repr()
    for device in ("cpu", "meta"):
        raw |= _C._dispatch_keys(torch.empty(0, device=device)).raw_repr()
    return raw


def verify(found: Layout, tensors: list[torch.Tensor]) -> None:
    """The same answers through C, for all samples, as torch gives."""
    hand_over(found)
    for tensor in tensors:
        code = read_bytes(tensor, found.dtype, "<H"), read_bytes(tensor, found.device, "<H")
        keys = _C._dispatch_keys(tensor).raw_repr()
        facts = (
            type(tensor),
            keys,
            *code,
            tensor.requires_grad,
            tuple(tensor.shape),
            tensor.stride(),
        )
        flipped = (*facts[:4], not tensor.requires_grad, *facts[5:])
        if not _guards.tensor_matches(facts, tensor) or _guards.tensor_matches(flipped, tensor):
            hand_over(None)
            raise Ambiguous("facts")
        if found.storage >= 0 and _guards.tensor_window(tensor) != window_facts(tensor):
            hand_over(None)
            raise Ambiguous("storage")


def window_facts(tensor: torch.Tensor) -> tuple[int, int, int, int]:
    """What C reads of where a tensor's elements are."""
    return (
        tensor.untyped_storage()._cdata,
        tensor.untyped_storage().data_ptr(),
        int(tensor.storage_offset()),
        tensor.dim(),
    )


# --- memory ---


def offsets(size: int, test: Callable[[int], bool], start: int = 0) -> Iterator[int]:
    """The offsets of aligned words of 8 bytes in an object that pass a test."""
    return filter(test, range(start, size - 7, 8))


def single(found: Iterator[int]) -> int:
    every = list(found)
    if len(every) != 1:
        raise Ambiguous(every)
    return every[0]


def word(address: int, at: int) -> int:
    return u64(ctypes.string_at(address + at, 8), 0)


def u64(image: bytes, at: int) -> int:
    return struct.unpack_from("<Q", image, at)[0]


def read_bytes(tensor: torch.Tensor, at: int, form: str) -> int:
    return struct.unpack(form, ctypes.string_at(tensor._cdata + at, struct.calcsize(form)))[0]


def allocated_size(address: int) -> int:
    """The bytes that may be read from here, so that the scan stays inside the object."""
    return min(usable_size()(address), 512)


@cache
def usable_size() -> Callable[[int], int]:
    """The C library's malloc_usable_size."""
    usable = ctypes.CDLL(None).malloc_usable_size
    usable.restype, usable.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    return usable
