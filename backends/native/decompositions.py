"""The decompositions of operators without a lowering: torch's, and our own where these lead to
faster kernels or to other dtypes. One of ours returns NotImplemented for arguments that it leaves
to torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table

from ...skipped_imports import for_numbers
from . import batch_norms, efficient_attention
from .foreach import decompositions_of_lists
from .lower.lowerings import LOWERINGS

aten = torch.ops.aten
HALVES = (torch.bfloat16, torch.float16)
SPLIT = aten.split.Tensor
LAYER_NORM_BACKWARD = aten.native_layer_norm_backward.default
LARGE = 1 << 20  # elements; of fewer, what is stored for every element stays in the cache
MEAN = 1  # the number that torch's operators have for reduction="mean"


@cache
def of_numbers(operator: Any) -> Callable[..., Any]:
    """torch's decomposition of an operator, which loads SymPy only for sizes that vary."""
    return for_numbers(decomposition_table[operator])


# Layer and group norms on the CPU with half-precision input and float32 parameters, as under
# autocast. torch's kernels compute their statistics in float32, but FakeTensor gives them the
# input's dtype. Decomposed to norms in float32, both agree.


def is_mixed(x: torch.Tensor, parameters: tuple[torch.Tensor | None, ...]) -> bool:
    wider = any(other is not None and other.dtype == torch.float32 for other in parameters)
    return x.device.type == "cpu" and x.dtype in HALVES and wider


def layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    if not is_mixed(x, (weight, bias)):
        return NotImplemented
    result, mean, rstd = aten.native_layer_norm(x.float(), shape, weight, bias, eps)
    return result.to(x.dtype), mean, rstd


def group_norm(x: Any, weight: Any, bias: Any, *sizes_and_eps: Any) -> Any:
    if not is_mixed(x, (weight, bias)):
        return NotImplemented
    result, mean, rstd = aten.native_group_norm(x.float(), weight, bias, *sizes_and_eps)
    return result.to(x.dtype), mean, rstd


# The gradient of a layer norm over many elements, on the CPU: torch adds up the gradients of weight
# and bias while it computes that of the input. Kernels of ours would store both for every element
# and add them up afterwards.


def layer_norm_backward(gradient: torch.Tensor, x: torch.Tensor, *more: Any) -> Any:
    """The decomposition of layer_norm's backward pass, or NotImplemented to leave it to torch."""
    count = x.numel()
    if x.device.type == "cpu" and isinstance(count, int) and count >= LARGE:
        return NotImplemented
    return of_numbers(LAYER_NORM_BACKWARD)(gradient, x, *more)


# `split` along a dimension of size 0: one empty part. torch's decomposition fails there before
# 2.13.


def split(x: torch.Tensor, size: int, dim: int = 0) -> Any:
    """The views of x, [..., n, ...] along `dim`, of at most `size` each."""
    if x.shape[dim] == 0:
        return [torch.ops.aten.alias.default(x)]
    return of_numbers(SPLIT)(x, size, dim)


# The parts of a cross entropy, decomposed so that training stores nothing of the logits' size. The
# forward pass keeps the logits themselves, which are an input, and two numbers of each row: its
# largest logit and the logarithm of the sum of the exponentials. From these the backward pass
# computes the log-probabilities again, element by element, next to where they are read. The
# gradient of the negative log-likelihood is a comparison with the label instead of a tensor of
# zeros into which one number of each row is written.


def log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    """The decomposition of log_softmax: halves are computed in float32, as in torch."""
    if not x.dim() or 0 in x.shape:
        return NotImplemented
    halves = x.dtype in HALVES
    work = x.float() if halves else x
    shifted = work - work.amax(dim, keepdim=True)
    result = (shifted - shifted.exp().sum(dim, keepdim=True).log()).contiguous()
    return result if half_to_float or not halves else result.to(x.dtype)


def nll_loss_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    labels: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    """The gradient of nll_loss without a scatter: an element compares its class with the label."""
    dim = 0 if x.dim() < 2 else 1
    if reduction == MEAN:
        gradient = gradient / total_weight
    labels = labels.unsqueeze(dim)
    along = [1] * x.dim()
    along[dim] = x.shape[dim]
    if x.dim() > gradient.dim() > 0:
        gradient = gradient.unsqueeze(dim)
    if weight is not None:
        gradient = gradient * weight.reshape(along)
    classes = torch.arange(x.shape[dim], device=x.device).reshape(along)
    counts = (classes == labels) & (labels != ignore_index)
    return torch.where(counts, -gradient, 0.0)


# What torch.nn.TransformerEncoderLayer calls in inference, on the CPU and without a mask. torch
# computes norms, biases and activations one by one; decomposed, they are fused.


def encoder_layer(
    x: torch.Tensor,
    width: int,
    heads: int,
    qkv: torch.Tensor,
    qkv_bias: torch.Tensor,
    projection: torch.Tensor,
    projection_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *weights: Any,
) -> Any:
    """A layer of a Transformer encoder, x: [batch, length, width]. weights: weight and bias of both
    norms and of both linear layers, a mask, and the mask's type."""
    scale_1, shift_1, scale_2, shift_2, into, into_bias, out_of, out_of_bias, *mask = weights
    if x.device.type != "cpu" or any(item is not None for item in mask):
        return NotImplemented
    activation = F.gelu if use_gelu else F.relu

    def attend(x: torch.Tensor) -> torch.Tensor:
        parts = F.linear(x, qkv, qkv_bias).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind())
        return F.linear(mixed.transpose(1, 2).flatten(2), projection, projection_bias)

    def feed(x: torch.Tensor) -> torch.Tensor:
        return F.linear(activation(F.linear(x, into, into_bias)), out_of, out_of_bias)

    def norm_1(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (width,), scale_1, shift_1, eps)

    def norm_2(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (width,), scale_2, shift_2, eps)

    if norm_first:
        x = x + attend(norm_1(x))
        return x + feed(norm_2(x))
    x = norm_1(x + attend(x))
    return norm_2(x + feed(x))


OURS: dict[Any, Callable[..., Any]] = {
    aten.native_layer_norm.default: layer_norm,
    aten.native_group_norm.default: group_norm,
    LAYER_NORM_BACKWARD: layer_norm_backward,
    batch_norms.WITH_RUNNING: batch_norms.with_running_statistics,
    batch_norms.ALONE: batch_norms.alone,
    SPLIT: split,
    aten._log_softmax.default: log_softmax,
    aten.nll_loss_backward.default: nll_loss_backward,
    aten.nll_loss2d_backward.default: nll_loss_backward,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
    efficient_attention.EFFICIENT: efficient_attention.attend,
    efficient_attention.BACKWARD: efficient_attention.attend_backward,
}

# Operators that are called although torch could decompose them: decomposed, they would be slower.
WHOLE = (
    "_scaled_dot_product", "upsample_", "grid_sampler", "im2col", "col2im", "unfold_backward",
    "index_add", "index_copy", "index_fill",
    "addmm", "baddbmm", "_unsafe_view", "pixel_", "renorm", "bernoulli", "multi_margin",
    "multilabel", "reflection_pad", "replication_pad",
    "_unsafe_index", "embedding_dense_backward", "take", "_chunk_cat", "unfold", "max_pool",
    "avg_pool", "native_dropout",
    # and the operator raises for some numbers, which its decomposition does not
    "binary_cross_entropy.default",
)  # fmt: skip


@lru_cache(1)
def decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions of operators without a lowering; composite operators are decomposed
    anyway."""
    known = _core_aten_decompositions_post_autograd().items()
    made = {
        operator: rule
        for operator, rule in known
        if operator not in LOWERINGS and not any(word in str(operator) for word in WHOLE)
    }
    return made | decompositions_of_lists() | OURS
