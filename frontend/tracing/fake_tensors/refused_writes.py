"""Writes that end a graph: those that torch refuses because tensors overlap in memory, which fake
tensors do not check, and those that no graph can do as eager does."""

from __future__ import annotations

import operator
from typing import Any

import torch

from ....backends.graph.memory import share_memory
from ....backends.graph.mutations import named_as_writer
from ....backends.graph.node_targets import target_name
from ....backends.graph.overlapping_writes import is_strided

IN_PLACE = frozenset({
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
    operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor, operator.ilshift,
    operator.irshift, operator.imatmul,
})  # fmt: skip
# write one value, wherever it may land twice
FILLS = frozenset({"fill_", "zero_", "masked_fill_", "index_fill_"})
FILLS_OF_NUMBERS = frozenset({"setitem", "fill_", "masked_fill_", "index_fill_"})


def refuses_operation(target: Any, args: list[Any]) -> bool:
    """Whether torch raises because a written tensor overlaps itself, or a part of an operand."""
    if target is operator.setitem:
        return refuses_item_assignment(*args)
    name = target_name(target)
    return (
        name not in FILLS
        and writes_first_argument(target, args)
        and refuses_write(args[0], [a for a in args[1:] if isinstance(a, torch.Tensor)])
    )


def gives_integers_history(target: Any, args: list[Any]) -> bool:
    """Whether torch gives a tensor of integers a gradient history, as it does where it fills one
    with a number that has a history. A compiled graph's results of integers never have one."""
    name = "setitem" if target is operator.setitem else target
    return (
        name in FILLS_OF_NUMBERS
        and isinstance(args[0], torch.Tensor)
        and not (args[0].is_floating_point() or args[0].is_complex())
        and torch.is_grad_enabled()
        and any(isinstance(a, torch.Tensor) and a.requires_grad and a.dim() == 0 for a in args[1:])
    )


def writes_first_argument(target: Any, args: list[Any]) -> bool:
    """Whether an operation is an in-place method or operator, applied to a tensor."""
    name = target_name(target)
    in_place = not isinstance(target, str) and target in IN_PLACE
    return (in_place or named_as_writer(name)) and bool(args) and isinstance(args[0], torch.Tensor)


def refuses_item_assignment(tensor: Any, key: Any, value: Any) -> bool:
    if (
        not isinstance(value, torch.Tensor)
        or not isinstance(tensor, torch.Tensor)
        or not has_static_layout(tensor)
        or value.dim() == 0
    ):
        return False
    if not overlaps_itself(tensor) and not share_memory(tensor, value):
        return False
    part = tensor[key]
    return share_memory(part, tensor) and refuses_write(part, [value])


def refuses_write(written: torch.Tensor, operands: list[torch.Tensor]) -> bool:
    if not is_strided(written):
        return False
    return overlaps_itself(written) or (
        has_static_layout(written)
        and any(has_static_layout(other) and overlap_in_part(written, other) for other in operands)
    )


def has_static_layout(tensor: torch.Tensor) -> bool:
    """Whether the memory layout of a tensor is known in numbers."""
    numbers = (
        (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        if is_strided(tensor)
        else (None,)
    )
    return all(type(number) is int for number in numbers)


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements of a tensor share memory, by torch's rules. A size that varies is read
    only where it matters."""
    repeats = (
        type(stride) is int and stride == 0 and size > 1
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return any(repeats) and tensor.numel() > 0


def overlap_in_part(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two dense tensors overlap without being the same memory."""
    if one is other or not share_memory(one, other) or 0 in (one.numel(), other.numel()):
        return False
    if not (is_dense(one) and is_dense(other)):
        return False
    starts = [tensor.storage_offset() * tensor.element_size() for tensor in (one, other)]
    ends = [
        start + tensor.numel() * tensor.element_size()
        for start, tensor in zip(starts, (one, other), strict=True)
    ]
    same = starts[0] == starts[1] and ends[0] == ends[1] and one.stride() == other.stride()
    return not same and max(starts) < min(ends)


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements fill one stretch of memory, each once."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
