"""Fake results of operators that keep the layout of their operands: elementwise ones, and some like
softmax.

Where all operands broadcast to the sizes of one of them as they are written, the result has those
sizes. Its dtype and layout, and whether the operator takes such operands, is found with static
tensors of the same dtypes and layouts, the twins, whose results are cached for the whole process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .fake_results import LITERALS, NewTensor, is_cacheable
from .fake_rules import FakeRules, broadcasts_to, strides_of

aten = torch.ops.aten
LIKE_THEIR_FIRST = frozenset({
    aten._softmax.default, aten._log_softmax.default, aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default, aten.native_dropout.default, aten.fill.Scalar,
    aten._to_copy.default, aten.copy_.default, aten.empty_like.default, aten.zeros_like.default,
    aten.ones_like.default, aten.full_like.default, aten.rand_like.default,
    aten.randn_like.default,
})  # fmt: skip
USUAL_FORMATS = (None, torch.preserve_format, torch.contiguous_format)
TWIN_SIZE = 2  # in place of a symbol


def results_like_operands(
    rules: FakeRules, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """The results of an operator on operands with symbols; None where torch's operator has to
    run."""
    if not keeps_layout(func) or kwargs.get("memory_format") not in USUAL_FORMATS:
        return None
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    others = [arg for arg in (*args, *kwargs.values()) if not isinstance(arg, torch.Tensor)]
    full = full_operand(rules, tensors)
    if full is None or any(isinstance(arg, torch.Tensor) for arg in kwargs.values()):
        return None
    if not all(type(arg) in LITERALS for arg in others):
        return None
    mode = rules.mode
    twins = [
        twin_of(rules, arg).make(mode, ()) if isinstance(arg, torch.Tensor) else arg for arg in args
    ]
    twin = twins[next(at for at, arg in enumerate(args) if arg is full)]
    try:
        made = mode.dispatch(func, (), twins, kwargs)
    except Exception:  # torch's operator raises it with the sizes of the program
        return None
    if writes_first(func):
        return full if full is args[0] and made is twins[0] else None
    items: Sequence[Any] = made if isinstance(made, tuple) else (made,)
    results = [result_of(rules, full, twin, item) for item in items]
    if any(result is None for result in results):
        return None
    return tuple(results) if items is made else results[0]


def result_of(rules: FakeRules, full: FakeTensor, twin: Any, made: Any) -> FakeTensor | None:
    """The result with the layout of the full operand, or contiguous, as the result for its twin
    is."""
    if (
        type(made) is not FakeTensor
        or made.shape != twin.shape
        or made.fake_device != full.fake_device
    ):
        return None
    if made.stride() == twin.stride():
        return rules.make_like(full, made.dtype)
    return rules.make(full, [*full.shape], made.dtype) if made.is_contiguous() else None


@cache
def keeps_layout(func: Any) -> bool:
    """Whether the results of an operator have the layout of its operands, if these have the same
    sizes and layouts."""
    if not is_cacheable(func) or func.is_view:
        return False
    return func in LIKE_THEIR_FIRST or (
        torch.Tag.pointwise in func.tags and (not func._schema.is_mutable or writes_first(func))
    )


@cache
def writes_first(func: Any) -> bool:
    """Whether an operator writes its first argument, and no other, and returns it."""
    schema = func._schema
    written = [arg.alias_info is not None and arg.alias_info.is_write for arg in schema.arguments]
    return written[:1] == [True] and sum(written) == len(schema.returns) == 1


def full_operand(rules: FakeRules, tensors: Sequence[Any]) -> FakeTensor | None:
    """The operand to whose sizes all others broadcast. Without dimensions a tensor of another dtype
    may be a number of the program, which has less weight than a tensor."""
    if not any(tensor._has_symbolic_sizes_strides for tensor in tensors):
        return None
    if not all(rules.is_strided(tensor) and rules.order(tensor) is not None for tensor in tensors):
        return None
    most = max(map(torch.Tensor.dim, tensors))
    full: Any
    for full in tensors:
        if full.dim() == most and all(broadcasts_to(other.shape, full.shape) for other in tensors):
            break
    else:
        return None
    usual = all(
        tensor.fake_device == full.fake_device and (tensor.dim() or tensor.dtype == full.dtype)
        for tensor in tensors
    )
    return full if usual else None


def twin_of(rules: FakeRules, tensor: Any) -> NewTensor:
    """How to make the twin of a dense tensor."""
    sizes = tuple(map(twin_size, tensor.shape))
    if rules.is_contiguous(tensor):
        strides: Any = tuple(strides_of(sizes))
    else:
        order, step, steps = rules.order(tensor) or [], 1, {}
        for dim in order:
            steps[dim] = step
            step *= sizes[dim]
        strides = tuple(steps[dim] for dim in range(len(sizes)))
    return NewTensor(sizes, strides, tensor.dtype, tensor.fake_device)


def twin_size(size: Any) -> int:
    """The size of a twin. A symbol that is known to be a number is that number, which another
    operand may have."""
    if isinstance(size, int):
        return size
    known: int | None = size.node.maybe_as_int()
    return TWIN_SIZE if known is None else known
