"""The layout of fake results, as kernels need it: plain strided tensors, and in which order their
elements are stored."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...graph.passes.symbolic_sizes import is_contiguous_for_all_sizes

DTYPES = frozenset({
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64,
})  # fmt: skip
# dtypes of which kernels for the CPU read elements, to convert them to others
FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
MADE_UP = 7919  # a prime that no tensor has as its size by chance


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of a node's result, which is one or several."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether sizes and strides describe a tensor completely, and kernels can read its dtype."""
    return (
        type(tensor) in (FakeTensor, torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.dtype in DTYPES | FLOAT8
        and not tensor.is_quantized
    )


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps or overlaps."""
    if is_contiguous_for_all_sizes(tensor):
        return True
    kept = [
        (number_now(stride), number_now(size))
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if not is_one(size)
    ]
    expected = 1
    for stride, size in sorted(kept):
        if stride != expected and size != 0:
            return False
        expected = stride * size
    return True


def number_now(number: Any) -> int:
    """The number that a size or stride has in the call that is compiled for; of one that depends on
    values a large prime stands for each symbol."""
    if isinstance(number, int):
        return number
    known: int | None = number.node.hint
    if known is None:
        expr = number.node.expr
        made_up = importlib.import_module("sympy").Integer(MADE_UP)
        known = int(expr.xreplace(dict.fromkeys(expr.free_symbols, made_up)))
    return known


def is_one(size: Any) -> bool:
    """Whether a size is one; that is guarded, but for one that depends on values, which is taken
    not to be (graph/data_dependent_sizes.py checks what that relies on)."""
    depends = isinstance(size, torch.SymInt) and size.node.hint is None
    return not depends and size == 1
