"""A node that calls flex_attention, as a call of kernels with gradients.

In: a node of a captured graph. Out: a callable on its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import once_differentiable

from ...graph.fake_values import fake_of
from ...graph.gradient_history import needs_gradient
from ...graph.higher_order_call import HigherOrderCall
from .attend import AttentionKernels, Load, load_kernels
from .kernels import BY_KEYS, BY_QUERIES
from .modification import POSITIONS, SCORE, SLOPE, Untranslatable, translate
from .sides import AttentionCall

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 256
SHORTEST_SIDE = 16  # of a block
MOST = 1 << 31  # of 32-bit numbers
# A BlockMask as the operator gets it: behind the lengths of queries and keys, four tables for
# blocks of queries and four for blocks of keys; at the end, a block's sides and mask_mod.
TABLES, SIDES, MASK = slice(2, 10), slice(-3, -1), -1
LEARNED = "query", "key", "value"


class FlexCall:
    """A node's target."""

    def __init__(self, call: HigherOrderCall, kernels: AttentionKernels) -> None:
        self.__name__, self.call, self.kernels = call.__name__, call, kernels

    def __call__(self, *operands: Any) -> Any:
        attention = self.kernels.attention
        given = tensors_of_call(self.call.arguments_for(operands), attention)
        if torch._C._is_any_autocast_enabled() or not are_in_reach(given):
            return self.call(*operands)
        learned = [given[name] for name in LEARNED]
        if not (torch.is_grad_enabled() and any(one.requires_grad for one in learned)):
            return self.kernels.forward(given)
        if attention.slope is None or BY_KEYS[0] not in given:
            return self.call(*operands)  # which raises, if there are no tables
        return FlexAttention.apply(self.kernels, tuple(given), *given.values())


class FlexAttention(torch.autograd.Function):
    """Attention with the gradients of query, key and value, which are the first tensors given."""

    @staticmethod
    def forward(
        ctx: Any, kernels: AttentionKernels, names: tuple[str, ...], *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        result, sums, tops = kernels.forward(dict(zip(names, tensors, strict=True)))
        ctx.mark_non_differentiable(tops)
        ctx.set_materialize_grads(False)
        ctx.kernels, ctx.names = kernels, (*names, "result", "sums")
        ctx.save_for_backward(*tensors, result, sums)
        return result, sums, tops

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any, sums_gradient: Any, _: Any) -> Any:
        given = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        if gradient is None:
            gradient = torch.zeros_like(given["result"])
        if sums_gradient is None:
            sums_gradient = torch.zeros_like(given["sums"])
        gradients = ctx.kernels.backward(given, gradient, sums_gradient)
        others = len(given) - len(("result", "sums")) - len(gradients)
        return None, None, *gradients, *(None for _ in range(others))


def tensors_of_call(arguments: Sequence[Any], attention: AttentionCall) -> dict[str, torch.Tensor]:
    """The tensors that kernels get, by their names. arguments: the operator's."""
    query, key, value, _, block_mask, _, _, score_buffers, mask_buffers = arguments
    found = dict(zip(LEARNED, (query, key, value), strict=True))
    names = (*BY_QUERIES, *BY_KEYS)
    tables = zip(names, block_mask[TABLES], strict=True)
    found |= {name: table.contiguous() for name, table in tables if table is not None}
    for one, buffers in ((attention.score, score_buffers), (attention.mask, mask_buffers)):
        found |= {one.captured[number]: buffers[number] for number in one.read}
    if attention.slope is not None:
        found |= {attention.slope.captured[n]: score_buffers[n] for n in attention.slope.read}
    return found


def are_in_reach(given: Mapping[str, torch.Tensor]) -> bool:
    """Whether kernels can read the tensors of a call: elements of a query lie next to each other,
    32 bits count those of a head, and there are some."""
    return all(
        given[name].stride(-1) == 1
        and given[name].numel() > 0
        and given[name].shape[2] * given[name].stride(2) < MOST
        and max(given[name].stride()) < MOST
        for name in LEARNED
    )


def flex_call(node: torch.fx.Node, load: Load = load_kernels) -> FlexCall:
    """The target by which a node that calls flex_attention runs as kernels. Raises Untranslatable,
    and what a tracer may raise."""
    call: Any = node.target
    arguments = call.arguments_for([fake_of(argument) for argument in node.args])
    trained = any(map(needs_gradient, node.users))
    return FlexCall(call, AttentionKernels(attention_of(arguments, trained), load))


def check(arguments: Sequence[Any], trained: bool) -> None:
    """Raises Untranslatable for what there are no kernels for."""
    query, key, value, _, block_mask, scale, _, *buffers = arguments
    captured = [one for tensors in buffers for one in tensors]
    if not all(isinstance(fake, FakeTensor) for fake in (query, key, value, *captured)):
        raise Untranslatable("numbers that vary")
    if query.dtype not in DTYPES or not query.dtype == key.dtype == value.dtype:
        raise Untranslatable("the dtypes of query, key and value")
    if query.shape[0] != key.shape[0]:
        raise Untranslatable("keys that are broadcast over a batch")
    if max(query.shape[3], value.shape[3]) > WIDEST:
        raise Untranslatable(f"heads wider than {WIDEST}")
    if not isinstance(scale, float) or not all(map(is_tileable, block_mask[SIDES])):
        raise Untranslatable("the scale, or the size of a block")
    if trained and any(one.requires_grad for one in captured):
        raise Untranslatable("gradients for tensors that score_mod captures")


def is_tileable(side: Any) -> bool:
    return isinstance(side, int) and side >= SHORTEST_SIDE and side & (side - 1) == 0


def attention_of(arguments: Sequence[Any], trained: bool) -> AttentionCall:
    """What is known of a call. Raises Untranslatable."""
    check(arguments, trained)
    query, key, value, score_mod, block_mask, scale, _, score_buffers, mask_buffers = arguments
    sizes = (*query.shape[:3], key.shape[2])
    given = SCORE, *POSITIONS
    score = translate(score_mod, given, score_buffers, sizes, query, "score_")
    mask = translate(block_mask[MASK], POSITIONS, mask_buffers, sizes, query, "mask_")
    if score.value.dtype != torch.float32 or mask.value.dtype != torch.bool:
        raise Untranslatable("scores of another dtype")
    slope = None
    if trained:
        derivative = derivative_of(score_mod)
        slope = translate(derivative, (*given, SLOPE), score_buffers, sizes, query, "score_")
    query_side, key_side = block_mask[SIDES]
    return AttentionCall(
        score,
        mask,
        slope,
        query.dtype,
        query.shape[3],
        value.shape[3],
        query.shape[1] // key.shape[1],
        scale,
        query_side,
        key_side,
        block_mask[TABLES][2] is not None,
    )


def derivative_of(score_mod: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """From a score, its positions and the gradient of score_mod's result to the gradient of the
    score."""

    def derivative(score: torch.Tensor, *others: Any) -> torch.Tensor:
        count = len(POSITIONS)
        with torch.enable_grad():
            learned = score.detach().requires_grad_()
            result = score_mod(learned, *others[:count], *others[count + 1 :])
            (gradient,) = torch.autograd.grad(result, learned, others[count])
        return gradient

    return derivative
