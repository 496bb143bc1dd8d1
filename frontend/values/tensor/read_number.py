"""Which tensors hold one number, and whether reading it can be a node of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from ....errors import GraphBreak

if TYPE_CHECKING:
    from ..base import Value
    from ..context import TraceContext

INDICES = (torch.int8, torch.int16, torch.int32, torch.int64)  # as an index, uint8 is a mask
INTEGERS = (*INDICES, torch.uint8)
FRACTIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
READ_BY = "read_by"  # in the meta of a node whose numbers are read: the call, if it is not item()


def can_be_node(tx: TraceContext, tensor: Any) -> bool:
    """Whether reading a tensor's numbers can be a node of the graph."""
    wanted, fake = tx.options.capture_scalar_outputs, tensor.fake
    return (
        wanted is not False
        and (bool(wanted) or fake.device.type == "cpu")
        and fake.dtype in (*INTEGERS, *FRACTIONS, torch.bool)
        and not is_functorch_wrapped_tensor(fake)
    )


def read_as(tx: TraceContext, text: str, tensor: Any) -> Value:
    """The number that a tensor holds, read by the call with this text."""
    tensor.node.meta[READ_BY] = text
    return tx.graph.call("call_method", "item", [tensor], {})


def whether_all(tx: TraceContext, text: str, facts: Value) -> Value:
    """Whether all elements of a tensor are true, read by the call with this text."""
    every: Any = facts.method(tx, "all", [], {})
    if not can_be_node(tx, every):
        raise GraphBreak("data-dependent-value", text)
    return read_as(tx, text, every)


def describe_reading(method: str, tensor: Any) -> str:
    """The call that reads a tensor's numbers, as the program spells it."""
    text: str = tensor.node.meta.get(READ_BY, f"`.{method}()` of {tensor.describe()}")
    return text


def is_integer_tensor(value: Value) -> bool:
    """Whether a value is a tensor of one integer, which `__index__` takes."""
    fake = getattr(value, "fake", None)
    return (
        isinstance(fake, torch.Tensor)
        and fake.dtype in INTEGERS
        and all(type(size) is int and size == 1 for size in fake.shape)
    )


def is_one_bool(tx: TraceContext, tensor: Any) -> bool:
    """Whether bool() of a tensor reads the one bool that it holds, as item() does."""
    fake = tensor.fake
    return (
        fake.dtype is torch.bool
        and all(type(size) is int and size == 1 for size in fake.shape)
        and can_be_node(tx, tensor)
    )


def is_single_index(tx: TraceContext, value: Value) -> bool:
    """Whether indexing with a value is, to torch, indexing with the one int that it holds."""
    if not is_integer_tensor(value):
        return False
    fake: torch.Tensor = value.fake  # type: ignore[attr-defined]
    number = fake.dim() == 0 and fake.dtype in INDICES and can_be_node(tx, value)
    return number and not indexes_by_tensors()


def indexes_by_tensors() -> bool:
    """Whether torch's mode for score_mod and mask_mod is on, in which a tensor stays an index."""
    stack = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    return any(type(mode).__name__ == "TransformGetItemToIndex" for mode in stack)
