"""Fake results by example: the operator runs on small real tensors, whose result has the dtype, and
shows which dimensions are left or what becomes of an image. Its sizes and strides follow.

For static sizes. torch's fake operators find the same in Python, which takes a millisecond and
imports SymPy and TorchDynamo: a second of the first call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ....records import record
from .elementwise_layouts import CONTIGUOUS, KEEP_STRIDES, name_of, number_operands
from .elementwise_strides import broadcast, result_layout
from .fake_rules import FakeRules, strides_of

aten = torch.ops.aten
# Reductions that take any strided tensor without elements that are missing.
REDUCTIONS = frozenset({
    aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.prod.default,
    aten.prod.dim_int, aten.amax.default, aten.amin.default, aten.argmax.default,
    aten.argmin.default, aten.max.default, aten.min.default, aten.max.dim, aten.min.dim,
    aten.all.default, aten.all.dim, aten.any.default, aten.any.dim, aten.logsumexp.default,
    aten.var.correction, aten.std.correction, aten.linalg_vector_norm.default,
})  # fmt: skip
# Operators on each image of a batch. Their result has the memory format of their operand.
ON_IMAGES = frozenset({
    aten.max_pool2d_with_indices.default, aten.avg_pool2d.default,
    aten._adaptive_avg_pool2d.default, aten.upsample_nearest2d.vec, aten.upsample_nearest2d.default,
    aten.upsample_bilinear2d.vec, aten.upsample_bilinear2d.default, aten.constant_pad_nd.default,
})  # fmt: skip
# Elementwise operators that torch does not tag.
ELEMENTWISE = frozenset({aten.floor_divide.default, aten.floor_divide.Scalar})
# Those whose results TensorIterator does not lay out.
UNUSUAL_LAYOUTS = KEEP_STRIDES | CONTIGUOUS | {"mvlgamma"}
LARGEST_IMAGE = 1 << 16  # pixels of an example
MOST_DIMS = 6  # of an example


@record
class ExampleCall:
    """A call of an operator. tensors: those among its arguments."""

    fakes: FakeRules
    func: OpOverload
    args: Sequence[Any]
    kwargs: dict[str, Any]
    tensors: Sequence[FakeTensor]


def results_by_example(
    fakes: FakeRules, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The results of an operator on tensors of static sizes; None where torch's has to run."""
    make = (
        elementwise_result
        if is_elementwise(func)
        else reduction_results
        if func in REDUCTIONS
        else image_results
        if func in ON_IMAGES
        else None
    )
    tensors: list[Any] = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if make is None or not tensors or not all(map(fakes.is_strided, tensors)):
        return None
    if any(isinstance(arg, torch.Tensor) for arg in kwargs.values()):
        return None
    if len({one.fake_device for one in tensors}) > 1 or any(0 in one.shape for one in tensors):
        return None
    if any(one.is_conj() or one.is_neg() or one.dim() > MOST_DIMS for one in tensors):
        return None
    return make(ExampleCall(fakes, func, args, kwargs, tensors))


@cache
def is_elementwise(func: OpOverload) -> bool:
    """Whether each element of the result follows from the operands' elements at its place."""
    tags = func.tags
    return (
        (torch.Tag.pointwise in tags or func in ELEMENTWISE)
        and torch.Tag.nondeterministic_seeded not in tags
        and not func.is_view
        and len(func._schema.returns) == 1
        and (not func._schema.is_mutable or func._schema.name.endswith("_"))
    )


def elementwise_result(call: ExampleCall) -> Any:
    """The fake result of an elementwise operator: broadcast sizes, and the dtype of an example with
    one element; None where its layout is not known."""
    fakes, func, args, tensors = call.fakes, call.func, call.args, call.tensors
    if call.kwargs.get("memory_format") not in (None, torch.preserve_format):
        return None
    shapes = [tuple(one.shape) for one in tensors]
    sizes = broadcast(shapes)
    example = example_of(func, [as_example(arg, [1] * dims_of(arg)) for arg in args], call.kwargs)
    if sizes is None or example is None or example.dim() != len(sizes):
        return None
    if func._schema.is_mutable:
        return args[0] if tensors[0] is args[0] and sizes == shapes[0] else None
    dtype, device = example.dtype, tensors[0].fake_device
    if func is aten.pow.Scalar or all(map(fakes.is_contiguous, tensors)):
        return fakes.make_strided(sizes, strides_of(sizes), dtype, device)
    if name_of(func) in UNUSUAL_LAYOUTS:
        return None
    number = any(not isinstance(args[at], torch.Tensor) for at in number_operands(func, args))
    layout = result_layout(tensors, with_number=number)
    return layout and fakes.make_strided(*layout, dtype, device)


def reduction_results(call: ExampleCall) -> Any:
    """The results of a reduction of a contiguous tensor, or to one number."""
    fakes, func, kwargs = call.fakes, call.func, call.kwargs
    (x, *rest), others = call.args, call.tensors[1:]
    names = [argument.name for argument in func._schema.arguments]
    given = {**dict(zip(names, call.args, strict=False)), **kwargs}
    dims, keeps = given.get("dim"), bool(given.get("keepdim", False))
    listed = [*range(x.dim())] if dims is None else [dims] if type(dims) is int else dims
    if others or not all(type(dim) is int and -x.dim() <= dim < x.dim() for dim in listed):
        return None
    if not listed or given.get("correction") not in (None, 0, 1):
        return None
    gone = {dim % x.dim() for dim in listed}
    found = example_of(func, [as_example(x, [2] * x.dim()), *rest], kwargs, several=True)
    left = [dim for dim in range(x.dim()) if keeps or dim not in gone]
    sizes = [1 if dim in gone else x.shape[dim] for dim in left]
    if found is None or not (fakes.is_contiguous(x) or all(size == 1 for size in sizes)):
        return None
    if any([*one.shape] != [1 if dim in gone else 2 for dim in left] for one in as_tuple(found)):
        return None
    made = [fakes.make(x, sizes, one.dtype) for one in as_tuple(found)]
    return tuple(made) if isinstance(found, tuple) else made[0]


def image_results(call: ExampleCall) -> Any:
    """The results of an operator on images of one channel each, of which the first is tried."""
    fakes, func = call.fakes, call.func
    x, *rest = call.args
    if len(call.tensors) != 1 or x.dim() != 4 or math.prod(x.shape[2:]) > LARGEST_IMAGE:
        return None
    if func is aten.constant_pad_nd.default and len(rest[0]) > 4:
        return None
    if not (fakes.is_contiguous(x) or (fakes.is_channels_last(x) and 1 not in x.shape)):
        return None
    found = example_of(
        func, [as_example(x, [1, 1, *x.shape[2:]]), *rest], call.kwargs, several=True
    )
    if found is None or any(one.dim() != 4 or not one.numel() for one in as_tuple(found)):
        return None
    made = []
    for one in as_tuple(found):
        sizes = [*x.shape[:2], *one.shape[2:]]
        strides = strides_of(sizes)
        if not fakes.is_contiguous(x):
            row = sizes[1] * sizes[3]
            strides = [row * sizes[2], 1, row, sizes[1]]
        made.append(fakes.make_strided(sizes, strides, one.dtype, x.fake_device))
    return tuple(made) if isinstance(found, tuple) else made[0]


def as_tuple(results: Any) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def dims_of(operand: Any) -> int:
    return operand.dim() if isinstance(operand, torch.Tensor) else 0


def as_example(operand: Any, sizes: Sequence[int]) -> Any:
    """A real tensor of the operand's dtype; other operands as they are."""
    if not isinstance(operand, torch.Tensor):
        return operand
    with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        return aten.ones.default(sizes, dtype=operand.dtype, device="cpu")


def example_of(
    func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], several: bool = False
) -> Any:
    """What an operator returns for small real tensors; None where it refuses them."""
    try:
        with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
            results = func(*args, **kwargs)
    except Exception:  # torch's mode raises what the user may see
        return None
    if not func._schema.is_mutable and any(one is arg for one in as_tuple(results) for arg in args):
        return None
    return results if several or isinstance(results, torch.Tensor) else None
