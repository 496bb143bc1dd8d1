"""The decomposition of attention over short sequences, in float32 on a GPU, where torch may round
the operands of products.

torch calls its memory-efficient kernel there, which computes each product three times in order not
to round, and computes the scores again for each of the gradients of keys and queries. Decomposed,
the scores are stored: few enough of them stay in the GPU's cache.
"""

from __future__ import annotations

import math

import torch

from ..graph.product_precision import rounds_matrix_products_on_cuda

LONGEST = 256  # queries, or keys, of a sequence
MOST_BYTES = 1 << 27  # of all scores


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    is_causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result of attention for query, key and value [batch, heads, length, width], and the
    logarithms of the sums of the scores' exponentials, [batch, heads, length]."""
    scores = scores_of(query, key, scale, is_causal)
    largest = scores.amax(-1, keepdim=True)
    weights = (scores - largest).exp()
    sums = weights.sum(-1, keepdim=True)
    result = split_heads(torch.bmm(weights / sums, merge_heads(value)), query)
    return result, (sums.log() + largest).view(query.shape[:3])


def gradients(
    gradient: torch.Tensor,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    saved: tuple[torch.Tensor, torch.Tensor],
    is_causal: bool,
    scale: float | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of query, key and value, the `inputs`, from that of the result. saved: what
    `attend` returned."""
    query, key, value = inputs
    result, logarithms = saved
    scores = scores_of(query, key, scale, is_causal)
    weights = (scores - logarithms.reshape(-1, logarithms.shape[2], 1)).exp()
    given = merge_heads(gradient)
    moved = (given * merge_heads(result)).sum(-1, keepdim=True)
    of_weights = torch.bmm(given, merge_heads(value).transpose(1, 2))
    of_scores = weights * (of_weights - moved) * factor(query, scale)
    return (
        split_heads(torch.bmm(of_scores, merge_heads(key)), query),
        split_heads(torch.bmm(of_scores.transpose(1, 2), merge_heads(query)), key),
        split_heads(torch.bmm(weights.transpose(1, 2), given), value),
    )


def is_worthwhile(query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether the scores are expected to stay in the cache."""
    sizes = (*query.shape[:3], key.shape[2])
    if query.dtype != torch.float32 or query.device.type != "cuda":
        return False
    if not rounds_matrix_products_on_cuda() or not all(type(size) is int for size in sizes):
        return False
    few = math.prod(sizes) * query.element_size() <= MOST_BYTES
    return (
        few and key.shape[1] == query.shape[1] and 1 < min(sizes[2:]) <= max(sizes[2:]) <= LONGEST
    )


def scores_of(
    query: torch.Tensor, key: torch.Tensor, scale: float | None, is_causal: bool
) -> torch.Tensor:
    """The scores of each query and key, [batch * heads, queries, keys]."""
    scores = torch.bmm(merge_heads(query), merge_heads(key).transpose(1, 2)) * factor(query, scale)
    if not is_causal:
        return scores
    rows, columns = (torch.arange(size, device=query.device) for size in scores.shape[1:])
    return torch.where(columns <= rows.unsqueeze(1), scores, -math.inf)


def factor(query: torch.Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def merge_heads(tensor: torch.Tensor) -> torch.Tensor:
    """[batch, heads, length, width] as [batch * heads, length, width]."""
    return tensor.reshape(-1, *tensor.shape[2:])


def split_heads(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """[batch * heads, length, width] as [batch, heads, length, width], laid out as [batch, length,
    heads, width], as torch's results are."""
    apart = tensor.view(*like.shape[:2], *tensor.shape[1:])
    return apart.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)
