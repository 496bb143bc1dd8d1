"""Results of operators on fake tensors, cached for the whole process.

The key is the operator, the metadata of its tensors, and its other arguments. Equal layers of a
model, and later captures, then cost a lookup and the creation of the results. torch's own cache
sits beneath; its keys take ten times as long to make.

Only operators of torch's on tensors of static sizes are cached, and only where what the cache makes
is exactly what the operator returned: new tensors, views of one operand, or operands themselves.

An operator that is not in the cache yet is calculated by rule (fake_rules.py), or by torch's C++ if
it is a view. Else torch's mode runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.utils import _pytree as pytree

from ....backends.graph.memory import memory_of, share_memory
from ....records import record
from . import (  # noqa: F401 - they register
    convolution_rules,
    factory_rules,
    indexing_rules,
    operator_rules,
    view_rules,
)
from .constant_results import constant_results
from .elementwise_layouts import as_laid_out
from .fake_creation import make_fake
from .fake_rules import FakeRules
from .results_by_example import results_by_example

aten = torch.ops.aten
MOST_RESULTS = 20_000
NAMESPACES = ("aten", "prims")
VARIABLE = frozenset({  # what they return depends on data, or they change metadata
    torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view,
})  # fmt: skip
LITERALS = frozenset({
    bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout,
    torch.memory_format,
})  # fmt: skip

# Views that torch's mode makes by decompositions in Python; their C++ takes a hundredth of the time
# and is the same for all devices.
VIEWS = frozenset({
    aten.alias.default, aten.detach.default, aten.diagonal.default, aten.expand.default,
    aten.select.int, aten.slice.Tensor, aten.split.Tensor,
    aten.split_with_sizes.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims,
    aten.t.default, aten.transpose.int, aten.unbind.int, aten.unfold.default,
    aten.unsqueeze.default, aten.view.default,
})  # fmt: skip
# Operators for which torch's mode only calls the meta kernel, after many checks.
KERNELS = frozenset({
    aten._log_softmax.default, aten._softmax.default, aten.gather.default,
    aten.nll_loss_forward.default, aten.index_select.default, aten.bmm.default,
    aten.baddbmm.default, aten._scaled_dot_product_flash_attention_for_cpu.default,
    aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.amax.default,
    aten.amin.default, aten.argmax.default, aten.argmin.default, aten.max.dim, aten.min.dim,
    aten.all.default, aten.all.dim, aten.any.default, aten.any.dim, aten.cumsum.default,
    aten.cat.default, aten.stack.default, aten.unsafe_split.Tensor,
    aten.native_layer_norm_backward.default,
})  # fmt: skip
# Operators that make a tensor of numbers. torch's mode calls their decompositions in Python, whose
# checks import SymPy.
FACTORIES = frozenset({
    aten.empty.memory_format, aten.empty_strided.default, aten.zeros.default, aten.ones.default,
    aten.full.default, aten.rand.default, aten.randn.default, aten.randint.default,
    aten.randint.low, aten.randperm.default, aten.eye.default, aten.eye.m, aten.linspace.default,
    aten.scalar_tensor.default,
})  # fmt: skip


@record
class SameOperand:
    """A result that is the operand at a position."""

    position: int

    def make(self, mode: FakeTensorMode, args: Sequence[Any]) -> Any:
        return args[self.position]


@record
class NewTensor:
    """A result with memory of its own."""

    sizes: tuple[int | torch.SymInt, ...]
    strides: tuple[int | torch.SymInt, ...]
    dtype: torch.dtype
    device: torch.device

    def make(self, mode: FakeTensorMode, args: Sequence[Any]) -> Any:
        meta = torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device="meta")
        return make_fake(mode, meta, self.device)


@record
class ViewOfOperand:
    """A result that shares the memory of the operand at a position."""

    position: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def make(self, mode: FakeTensorMode, args: Sequence[Any]) -> Any:
        base = args[self.position]
        with in_kernel_invocation_manager(mode):
            meta = torch.as_strided(base, self.sizes, self.strides, self.offset)
        return make_fake(mode, meta, base.fake_device)


@record
class Several:
    """Several results, in a tuple or a list."""

    cls: type
    items: tuple[Any, ...]

    def make(self, mode: FakeTensorMode, args: Sequence[Any]) -> Any:
        return self.cls([item.make(mode, args) for item in self.items])


@record
class Nothing:
    """None, as operators return that write into lists of tensors."""

    def make(self, mode: FakeTensorMode, args: Sequence[Any]) -> None:
        return None


_results: dict[Any, Any] = {}  # how to make the results, by key; None: the operator has to run


def cached_results(
    mode: FakeTensorMode,
    func: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    run: Callable[[], Any],
) -> Any:
    """The results of an operator, from the cache if it can be cached, else of `run`."""
    key = call_key(mode, func, args, kwargs) if is_cacheable(func) else None
    if key is None:
        results = constant_results(mode, func, args, kwargs)
        if results is None and func is aten.index.Tensor:
            results = FakeRules(mode).results(func, args, kwargs)
        return as_laid_out(func, args, kwargs, run() if results is None else results)
    if (found := _results.get(key)) is not None:
        return found.make(mode, args)
    results = views_of(mode, args, func) if func in VIEWS and not kwargs else None
    if results is None:
        results = FakeRules(mode).results(func, args, kwargs)
    if results is None and func in FACTORIES:
        results = factory_results(mode, func, args, kwargs)
    if results is None:
        results = results_by_example(FakeRules(mode), func, args, kwargs)
    if results is None and has_kernel(func):
        results = kernel_results(mode, func, args, kwargs)
    if results is None:
        results = run()
    results = as_laid_out(func, args, kwargs, results)
    if key not in _results and len(_results) < MOST_RESULTS:
        _results[key] = recipe_of(mode, func, args, kwargs, key, results)
    return results


def views_of(mode: FakeTensorMode, args: Sequence[Any], func: OpOverload) -> Any:
    """What a view operator returns for a tensor of static sizes."""
    device = args[0].fake_device
    # in Python, which tracing switches on, expand gives a dimension of one element another stride
    with torch._C._DisablePythonDispatcher(), in_kernel_invocation_manager(mode):
        metas = func(*args)
    if isinstance(metas, torch.Tensor):
        return make_fake(mode, metas, device)
    return [make_fake(mode, meta, device) for meta in metas]


def kernel_results(
    mode: FakeTensorMode, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """What an operator's meta kernel returns for tensors of static sizes on one device; None where
    it does not take them."""
    devices = {leaf.fake_device for leaf in pytree.tree_leaves(args) if type(leaf) is FakeTensor}
    if len(devices) != 1 or any(isinstance(arg, torch.Tensor) for arg in kwargs.values()):
        return None
    (device,) = devices
    try:
        with torch._C._DisablePythonDispatcher(), in_kernel_invocation_manager(mode):
            metas = func(*args, **kwargs)
    except Exception:  # torch's mode raises what the user may see
        return None
    if not isinstance(metas, tuple | list):
        return metas if metas is args[0] else make_fake(mode, metas, device)
    made = [None if meta is None else make_fake(mode, meta, device) for meta in metas]
    return made if isinstance(metas, list) else tuple(made)


def factory_results(
    mode: FakeTensorMode, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> FakeTensor | None:
    """What a factory makes of plain numbers; None where its C++ does not take them."""
    try:
        with torch._C._DisablePythonDispatcher(), torch._C._DisableTorchDispatch():
            meta = func(*args, **{**kwargs, "device": "meta"})
    except Exception:  # torch's mode raises what the user may see
        return None
    return make_fake(mode, meta, torch.device(kwargs.get("device") or "cpu"))


@cache
def has_kernel(func: OpOverload) -> bool:
    """Whether torch's mode only runs the operator's meta kernel, for tensors on one device."""
    return func in KERNELS or (
        torch.Tag.pointwise in func.tags and (not func._schema.is_mutable or writes_first(func))
    )


@cache
def writes_first(func: Any) -> bool:
    """Whether an operator writes its first argument, and no other, and returns it."""
    schema = func._schema
    written = [arg.alias_info is not None and arg.alias_info.is_write for arg in schema.arguments]
    return written[:1] == [True] and sum(written) == len(schema.returns) == 1


@cache
def is_cacheable(func: Any) -> bool:
    return (
        isinstance(func, OpOverload)
        and func.namespace in NAMESPACES
        and not VARIABLE.intersection(func.tags)
        and not func.name().startswith("aten::lift")
    )


def call_key(
    mode: FakeTensorMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, ...] | None:
    """What the results depend on; None if that is more than a key can say."""
    parts: list[Any] = [
        func,
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        mode.allow_fallback_kernels,
    ]
    mixed = is_on_some_constants(func, args)
    if not add_descriptions(mode, args, parts, mixed):
        return None
    if kwargs:
        parts.extend(kwargs)
        if not add_descriptions(mode, kwargs.values(), parts, mixed):
            return None
    return tuple(parts)


def is_on_some_constants(func: OpOverload, args: Sequence[Any]) -> bool:
    """Whether an operator reads constants and other tensors, so that its result is no constant."""
    known = {operand.constant is None for operand in args if type(operand) is FakeTensor}
    return len(known) > 1 and not func._schema.is_mutable


def add_descriptions(
    mode: FakeTensorMode, operands: Iterable[Any], parts: list[Any], constants: bool
) -> bool:
    """Appends descriptions of operands to `parts`; returns whether all can be described.
    constants: whether the metadata of tensors with a known value are sufficient."""
    for operand in operands:
        cls = type(operand)
        if cls is FakeTensor:
            described = static_metadata(mode, operand, constants)
            if described is None:
                return False
            parts.append(described)
        elif cls in LITERALS:
            parts.append(cls)  # as 1 == 1.0 == True
            parts.append(operand)
        elif isinstance(operand, list | tuple):
            parts.append((cls, len(operand)))
            if not add_descriptions(mode, operand, parts, constants):
                return False
        else:
            return False
    return True


def is_static(mode: FakeTensorMode, tensor: Any) -> bool:
    """Whether sizes and strides, all numbers, describe a tensor of this mode completely."""
    return type(tensor) is FakeTensor and static_metadata(mode, tensor, False) is not None


def static_metadata(
    mode: FakeTensorMode, tensor: FakeTensor, may_be_constant: bool
) -> tuple[Any, ...] | None:
    """The metadata of a tensor; None if they are not all numbers, or do not describe it completely:
    a part of static size may begin at a symbol, or lie in memory whose size is one."""
    if (
        tensor.fake_mode is not mode
        or not (may_be_constant or tensor.constant is None)
        or tensor._has_symbolic_sizes_strides
        or tensor.layout is not torch.strided
    ):
        return None
    found = metadata_of(tensor)
    _, _, offset, size, *_ = found
    return found if type(offset) is int and type(size) is int else None


def metadata_of(tensor: FakeTensor) -> tuple[Any, ...]:
    return (
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
        tensor.untyped_storage().nbytes(),
        tensor.dtype,
        tensor.fake_device,
        torch._C._dispatch_keys(tensor).raw_repr(),
    )


def recipe_of(
    mode: FakeTensorMode,
    func: OpOverload,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    key: tuple[Any, ...],
    results: Any,
) -> Any:
    """How to make these results again; None if they cannot be made from metadata."""
    if func._schema.is_mutable and call_key(mode, func, args, kwargs) != key:
        return None  # it has changed the metadata of an operand
    operands = pytree.arg_tree_leaves(*args, **kwargs)
    memory = {memory_of(operand) for operand in operands if isinstance(operand, FakeTensor)}
    make = several_of if isinstance(results, list | tuple) else single_of
    recipe = make(mode, func, args, results, memory)
    return recipe if recipe is not None and is_same(recipe.make(mode, args), results) else None


def several_of(
    mode: FakeTensorMode,
    func: OpOverload,
    args: Sequence[Any],
    results: Sequence[Any],
    memory: set[int],
) -> Any:
    items = tuple(single_of(mode, func, args, result, memory) for result in results)
    cls = tuple if isinstance(results, tuple) else list  # torch makes no other of a subclass
    return None if None in items else Several(cls, items)


def single_of(
    mode: FakeTensorMode, func: OpOverload, args: Sequence[Any], result: Any, memory: set[int]
) -> Any:
    """How to make one result again. memory: of the operands and of the results before this one."""
    if result is None:
        return Nothing()
    for position, arg in enumerate(args):
        if arg is result:
            return SameOperand(position)
    if not is_static(mode, result) or result.requires_grad:
        return None
    sizes, strides = tuple(result.shape), result.stride()
    tensors = [position for position, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    if func.is_view:
        if len(tensors) != 1 or not share_memory(args[tensors[0]], result):
            return None
        return ViewOfOperand(tensors[0], sizes, strides, result.storage_offset())
    if result.storage_offset() or memory_of(result) in memory:
        return None
    memory.add(memory_of(result))
    return NewTensor(sizes, strides, result.dtype, result.fake_device)


def is_same(made: Any, results: Any) -> bool:
    """Whether two results of an operator are the same objects, or have the same metadata."""
    if isinstance(results, list | tuple):
        return all(map(is_same, made, results))
    return made is results or metadata_of(made) == metadata_of(results)
