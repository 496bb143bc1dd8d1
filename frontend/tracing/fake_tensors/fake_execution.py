"""The fake tensor mode of a capture: operators calculate sizes, dtypes and strides, and never read
or write memory.

torch's own mode can reach memory in two ways. An operator without a meta kernel runs for real, on
zeros of the same sizes: an operator that takes lengths or offsets may then read out of bounds. And
C++ code above the mode, such as the packed RNNs, reads the values of a CPU tensor. A fake tensor's
storage is a null pointer, which torch checks only where no size is a symbol; otherwise the process
crashes.

Here the first is disabled, and every fake storage raises a RuntimeError when its memory is read;
the graph builder turns that into a graph break. Operators whose arguments are all constants of the
program still run on those.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import torch
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ....backends.graph.memory_formats import is_in_format, nearest_format
from ....backends.graph.node_targets import target_name
from ....skipped_imports import without_dynamo
from .elementwise_layouts import is_one
from .fake_results import cached_results
from .fake_rules import FakeRules
from .fakes_by_metadata import fake_from_metadata, follows_from_metadata, is_noted
from .meta_converter import skip_imports
from .static_twins import results_by_twins

# of a c10::StorageImpl that are compared; it has more than that in each supported torch
STORAGE_BYTES = 96
ATEN = torch.ops.aten
DEVICE = torch.ops.prim.device.default
# Operators for which torch has no meta kernel, and whose result has the sizes of their first
# argument.
LIKE_ITS_FIRST = frozenset({ATEN._sample_dirichlet.default, ATEN._dirichlet_grad.default})
# Operators whose (first) result has other strides on fake tensors than on real ones. It is in truth
# contiguous:
CONTIGUOUS = frozenset(
    {
        ATEN._sample_dirichlet.default, ATEN._standard_gamma.default, ATEN.normal.Tensor_Tensor,
        ATEN.normal.Tensor_float,
        ATEN.poisson.default, ATEN.rrelu_with_noise.default,
        ATEN.rrelu_with_noise_functional.default,
    }
)  # fmt: skip
# or has the memory format (contiguous, channels-last) that is nearest to the first argument's:
FORMAT_OF_FIRST = frozenset(
    {
        ATEN._batch_norm_with_update.default, ATEN._native_batch_norm_legit.default,
        ATEN._native_batch_norm_legit.no_stats,
        ATEN.channel_shuffle.default, ATEN.max_unpool2d.default, ATEN.native_batch_norm.default,
        ATEN.native_channel_shuffle.default,
        ATEN.replication_pad2d.default,
    }
)  # fmt: skip


def joins_slices(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> bool:
    """Whether torch.roll() concatenates slices, in their memory format. Otherwise its result is
    contiguous."""
    if x.device.type != "cpu" or x.numel() == 0:
        return False
    moved = [shift % x.shape[dim] != 0 for shift, dim in zip(shifts, dims, strict=False)]
    return bool(moved) and all(moved)


def is_on_cpu(x: torch.Tensor, *_: Any) -> bool:
    return x.device.type == "cpu"


# or does so if this holds of its arguments:
FORMAT_OF_FIRST_IF = {
    ATEN.roll.default: joins_slices,
    ATEN.native_group_norm.default: is_on_cpu,
    **{
        getattr(getattr(ATEN, name), overload): is_on_cpu
        for name in (
            "upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d",
            "_upsample_bilinear2d_aa", "upsample_bicubic2d", "_upsample_bicubic2d_aa",
        )
        for overload in ("default", "vec")
    },
}  # fmt: skip
# or has that of a sum of the first two:
FORMAT_OF_SUM = frozenset(
    {ATEN.copysign.Tensor, ATEN.div.Tensor_mode, ATEN.floor_divide.default, ATEN.xlogy.Tensor}
)
CONSTRUCT = without_dynamo(FakeTensorMode.__init__)
STATIC = {"static_shapes": True}  # the arguments of from_tensor where no size is a symbol
NO_LEAF = (
    "ignore",
    re.compile("The .grad attribute of a Tensor that is not a leaf"),
    UserWarning,
    None,
    0,
)


class CaptureFakeMode(FakeTensorMode):
    """torch's mode, with tensors that have no readable memory."""

    supports_higher_order_operators = True  # they call __torch_dispatch__
    _dispatch_impl = without_dynamo(FakeTensorMode._dispatch_impl)

    def __init__(self) -> None:
        CONSTRUCT(self, allow_fallback_kernels=False)
        skip_imports(self)
        # writing access raises: torch sets that for each tensor
        self._allow_unsafe_data_ptr_access = False
        self.cache_enabled = False  # fake_results.py has one, and torch's keys import SymPy

    @cached_property
    def avoid_device_init(self) -> bool:
        """As torch's, which looks for devices whenever the mode is entered."""
        return super().avoid_device_init

    def open_to_backends(self) -> None:
        """Ends the capture: from now on operators without a meta kernel run on zeros, with sizes
        that the capture has checked. Some derivatives have no meta kernel, and no program calls
        those."""
        self.allow_fallback_kernels = True

    def from_tensor(self, tensor: torch.Tensor, **named: Any) -> FakeTensor:
        if named == STATIC and follows_from_metadata(tensor) and not is_noted(self, tensor):
            return fake_from_metadata(self, tensor)
        if tensor.is_leaf:
            return forbid_reads(super().from_tensor(tensor, **named))
        with without_gradient_warning():
            return forbid_reads(super().from_tensor(tensor, **named))

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch wraps __torch_dispatch__ to keep TorchDynamo out of it: the hook is off in
        a capture, and the wrapper imports TorchDynamo and takes longer than a cached result."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is DEVICE:
            return args[0].fake_device
        if type(func) is OpOverload:  # as nearly always
            return self.dispatch(func, types, args, kwargs)
        if isinstance(func, HigherOrderOperator) and func not in registered_hop_fake_fns:
            with shape_environment(self):
                return func.python_key_table[FakeTensorMode](self, *args, **(kwargs or {}))
        return self.dispatch(func, types, args, kwargs)

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        return cached_results(self, func, args, named, lambda: self._run(func, types, args, named))

    def _run(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operator, whose memory cannot be read."""
        asked = func
        if func in LIKE_ITS_FIRST:
            func, args, kwargs = ATEN.empty_like.default, args[:1], {}
        result = self._result_by_rule(func, args, kwargs)
        if result is None:
            result = super().dispatch(func, types, args, kwargs)
        if result is NotImplemented:  # the arguments' own class decides
            return result
        result = self._with_strides_of_eager(asked, result, types, args)
        for part in result if isinstance(result, tuple | list) else (result,):
            if type(part) is FakeTensor:
                forbid_reads(part)
        return result

    def _result_by_rule(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operator where sizes may be symbols; None where torch has to run it."""
        if self.shape_env is None:
            return None
        rules = FakeRules(self)
        result = rules.results(func, args, kwargs)
        return results_by_twins(rules, func, args, kwargs) if result is None else result

    def _with_strides_of_eager(self, func: Any, result: Any, types: Any, args: Any) -> Any:
        """What an operator returned, with eager's strides where torch's fake result has others."""
        if getattr(result, "constant", None) is not None:
            return result  # it ran for real, and a copy would not have its value
        if func in CONTIGUOUS:
            return in_format(result, torch.contiguous_format)
        if func in FORMAT_OF_FIRST or (
            func in FORMAT_OF_FIRST_IF and FORMAT_OF_FIRST_IF[func](*args)
        ):
            return in_format(result, nearest_format(args[0]))
        if func in FORMAT_OF_SUM:
            total = self.dispatch(ATEN.add.Tensor, types, args[:2])
            return torch.empty_like(total, dtype=result.dtype)
        return result


@contextmanager
def shape_environment(mode: FakeTensorMode) -> Iterator[None]:
    """A state in which a mode has a ShapeEnv: while_loop needs one, even where no size is a
    symbol."""
    before = mode.shape_env
    if before is None:
        # its module takes half a second to load
        symbolic_shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
        mode.shape_env = symbolic_shapes.ShapeEnv()
    try:
        yield
    finally:
        mode.shape_env = before


def in_format(result: Any, memory_format: torch.memory_format | None) -> Any:
    """What an operator returned, its first tensor with the strides of a memory format."""
    if isinstance(result, tuple | list):
        return (in_format(result[0], memory_format), *result[1:])
    if memory_format is None or (
        is_in_format(result, memory_format) and not any(map(is_one, result.shape))
    ):
        return result  # the strides of a dimension of one element could still be others
    return torch.empty_like(result, memory_format=memory_format)


@cache
def load_torch() -> None:
    """Makes a first fake mode, which imports half of torch."""
    CaptureFakeMode()


@contextmanager
def without_gradient_warning() -> Iterator[None]:
    """Suppresses the warning that torch gives when it describes a tensor that is no leaf and reads
    its .grad. The filter is inserted without the warnings module's functions, which would reset
    the registry of warnings shown once."""
    warnings.filters.insert(0, NO_LEAF)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        warnings.filters.remove(NO_LEAF)  # type: ignore[attr-defined]


def forbid_reads(fake: Any) -> Any:
    """Makes reading the memory of a fake tensor with symbols an error; returns the tensor. Without
    symbols reading raises anyway, and torch's cache of fake results needs the storage."""
    if (
        fake._has_symbolic_sizes_strides
        and fake.layout is torch.strided
        and torch._C._has_storage(fake)
    ):
        with torch._C._DisableFuncTorch():  # its own tensors are none of a transform's
            offset = reading_check()
        if offset:
            ctypes.c_bool.from_address(fake.untyped_storage()._cdata + offset).value = True
    return fake


@cache
def reading_check() -> int:
    """The offset in a storage of the flag that forbids reading, in bytes; 0 if this torch has no
    such flag where it is expected. Python can set only the flag for writing. The flag for reading
    is stored beside that: `has check, no writing, no reading, warn`."""
    scratch = torch.empty(1, device="meta")
    storage = scratch.untyped_storage()
    before = struct_bytes(storage)
    torch._C._set_throw_on_mutable_data_ptr(scratch)
    forbidden = struct_bytes(storage)
    torch._C._set_warn_deprecated_on_mutable_data_ptr(scratch)
    warned = struct_bytes(storage)
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
    """Whether an operator reads the size of a dimension that its tensor lacks. Its C++ code then
    reads past the sizes, and crashes the process on something that is no symbol."""
    name = target_name(target)
    return (
        name in BY_CHANNEL
        and bool(args)
        and isinstance(args[0], torch.Tensor)
        and args[0].dim() < 2
    )


BY_CHANNEL = frozenset({"batch_norm", "_batch_norm_impl_index"})


def struct_bytes(storage: torch.UntypedStorage) -> bytes:
    return bytes((ctypes.c_ubyte * STORAGE_BYTES).from_address(storage._cdata))
