"""The decomposition of torch's memory-efficient attention, which runs in float32 on a GPU, and of
its backward pass, where the kernel is slow: for one query a sequence, and for short sequences."""

from __future__ import annotations

from typing import Any

import torch

from . import one_row_attention, short_attention

EFFICIENT = torch.ops.aten._scaled_dot_product_efficient_attention.default
BACKWARD = torch.ops.aten._scaled_dot_product_efficient_attention_backward.default


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    compute_logsumexp: bool,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    """The results of EFFICIENT for query [batch, heads, queries, width], key and value [batch,
    groups, length, width]. The last two, and for one query all but the first, are not for use.
    NotImplemented with a bias or dropout, and where the kernel is fast."""
    if bias is not None or dropout:
        return NotImplemented
    if query.shape[2] == 1 and not (compute_logsumexp or is_causal):
        if query.dtype != torch.float32:
            return NotImplemented
        nothing = query.new_empty(0)
        mean = one_row_attention.weighted_mean(query, key, value, scale)
        return mean, nothing, nothing, nothing
    if not short_attention.is_worthwhile(query, key):
        return NotImplemented
    nothing = query.new_empty((), dtype=torch.int64)
    return *short_attention.attend(query, key, value, is_causal, scale), nothing, nothing


def attend_backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    result: torch.Tensor,
    logarithms: torch.Tensor,
    seed: torch.Tensor,
    offset: torch.Tensor,
    dropout: float,
    wanted: list[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    """The gradients of query, key and value, and None for that of the bias. NotImplemented where
    `attend` leaves training to torch."""
    if bias is not None or dropout or not short_attention.is_worthwhile(query, key):
        return NotImplemented
    inputs = query, key, value
    saved = result, logarithms
    return *short_attention.gradients(gradient, inputs, saved, is_causal, scale), None
