"""A node that calls flex_attention, as a call of kernels with gradients.

In: a node of a captured graph. Out: a callable on its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import once_differentiable

from ...graph.fake_values import fake_of
from ...graph.gradient_history import needs_gradient
from ...graph.higher_order_call import HigherOrderCall
from .attend import AttentionKernels, Load, is_in_reach, load_kernels
from .attention_call import AttentionCall
from .kernels import BY_KEYS, BY_QUERIES
from .modification import POSITIONS, SCORE, SLOPE, Untranslatable, translate

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 256
SHORTEST_SIDE = 16  # of a block
# A BlockMask as the operator gets it: after the lengths of queries and keys, four tables for
# blocks of queries and four for blocks of keys; at the end, a block's sides and mask_mod.
TABLES, SIDES, MASK = slice(2, 10), slice(-3, -1), -1
TABLES_OF_BLOCKS = (*BY_QUERIES, *BY_KEYS)
LEARNED = "query", "key", "value"


class FlexCall:
    """A node's target. `positions`: of the tensors that kernels get, by name, among the node's
    arguments."""

    def __init__(self, call: HigherOrderCall, kernels: AttentionKernels) -> None:
        self.__name__, self.call, self.kernels = call.__name__, call, kernels
        named = arguments_by_name(call.arguments, kernels.attention)
        self.positions = {name: operand.position for name, operand in named.items()}

    def __call__(self, *operands: Any) -> Any:
        given = {name: operands[position] for name, position in self.positions.items()}
        learned = [given[name] for name in LEARNED]
        if is_cast(given["query"]) or not all(map(is_in_reach, learned)):
            return self.call(*operands)
        given |= {name: given[name].contiguous() for name in TABLES_OF_BLOCKS if name in given}
        if not (torch.is_grad_enabled() and any(one.requires_grad for one in learned)):
            return self.kernels.forward(given)
        if self.kernels.attention.slope is None or BY_KEYS[0] not in given:
            return self.call(*operands)  # which raises, if there are no tables
        return FlexAttention.apply(self.kernels, tuple(given), *given.values())


def is_cast(query: torch.Tensor) -> bool:
    """Whether autocast may cast the inputs of a call."""
    if not torch.is_autocast_enabled(query.device.type):
        return False
    return query.dtype != torch.get_autocast_dtype(query.device.type)


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


def arguments_by_name(arguments: Sequence[Any], attention: AttentionCall) -> dict[str, Any]:
    """The arguments of the operator that kernels get, the ones of LEARNED first."""
    query, key, value, _, block_mask, _, _, score_buffers, mask_buffers = arguments
    found = dict(zip(LEARNED, (query, key, value), strict=True))
    tables = zip(TABLES_OF_BLOCKS, block_mask[TABLES], strict=True)
    found |= {name: table for name, table in tables if table is not None}
    for one, buffers in (
        (attention.score, score_buffers),
        (attention.mask, mask_buffers),
        (attention.slope, score_buffers),
    ):
        if one is not None:
            found |= {one.captured[number]: buffers[number] for number in one.read}
    return found


def flex_call(node: torch.fx.Node, load: Load = load_kernels) -> FlexCall:
    """The target by which a node that calls flex_attention runs as kernels. Raises Untranslatable,
    and what a tracer may raise."""
    call: Any = node.target
    arguments = call.arguments_for([fake_of(argument) for argument in node.args])
    trained = any(map(needs_gradient, node.users))
    return FlexCall(call, AttentionKernels(attention_of(arguments, trained), load))


def check_supported(arguments: Sequence[Any], trained: bool) -> None:
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
    check_supported(arguments, trained)
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
