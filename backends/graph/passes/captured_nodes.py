"""Facts about the nodes of a captured graph: their tensors, sizes and layouts, and what two calls
of an operator must have in common to be equal."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import _config

from ..copies import AnyNode
from ..fake_values import fake_of
from .symbolic_sizes import VaryingSize, comparable, has_known_hints

CONFIG: Any = _config
Window = tuple[Any, ...]
SEEDED = torch.Tag.nondeterministic_seeded
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
PLAIN = (
    int,
    bool,
    str,
    type(None),
    type(Ellipsis),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)


class NeedsWholeTrace(Exception):
    """The graph must be traced as a whole."""


def example(node: torch.fx.Node) -> Any:
    """A node's fake tensor; None where it is no tensor."""
    value = fake_of(node)
    return None if isinstance(value, torch.SymInt) else value


def size_of(node: torch.fx.Node) -> torch.SymInt | None:
    """A node's varying size; None where it is something else."""
    value = fake_of(node)
    return value if isinstance(value, torch.SymInt) else None


def is_item(node: torch.fx.Node) -> bool:
    """Whether a node selects one of an operator's results."""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, torch.fx.Node) and example(source) is None


def draws_random_numbers(node: AnyNode) -> bool:
    """Whether a node of an ATen graph draws random numbers, or may."""
    return SEEDED in getattr(node.target, "tags", ())


def is_understood(value: Any) -> bool:
    """Whether a value is a plain tensor whose sizes do not depend on values, or such a size."""
    if value is None or isinstance(value, torch.SymInt):
        return has_known_hints(value)
    plain = (
        type(value) is FakeTensor
        and value.layout == torch.strided
        and not (value.is_conj() or value.is_neg() or value.is_quantized)
    )
    return plain and has_known_hints(value)


def window_of(tensor: Any) -> Window:
    return (
        tensor.dtype,
        tensor.device,
        tensor.dim(),
        *map(comparable, tensor.shape),
        *map(comparable, tensor.stride()),
        comparable(tensor.storage_offset()),
    )


def signature(tree: Any, tensors: dict[int, tuple[int, FakeTensor]]) -> Any:
    """The part of the arguments that must be equal for equal operators. Tensors are replaced by
    their numbers in `tensors`."""
    if isinstance(tree, torch.fx.Node):
        if (size := size_of(tree)) is not None:
            return torch.SymInt, comparable(size)
        tensor = example(tree)
        if tensor is None:
            raise NeedsWholeTrace
        number, _ = tensors.setdefault(id(tensor), (len(tensors), tensor))
        return number, window_of(tensor)
    if isinstance(tree, (tuple, list)):
        return (
            list if isinstance(tree, list) else type(tree),
            *(signature(item, tensors) for item in tree),
        )
    if isinstance(tree, dict):
        return (dict, *((key, signature(item, tensors)) for key, item in tree.items()))
    if isinstance(tree, slice):
        return (slice, *(signature(item, tensors) for item in (tree.start, tree.stop, tree.step)))
    if isinstance(tree, SYMBOLIC):
        raise NeedsWholeTrace
    if isinstance(tree, PLAIN):
        return (type(tree), tree)
    return (type(tree), repr(tree) if isinstance(tree, float | complex) else id(tree))


def on_own_memory(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with the same layout on separate memory."""
    return tensor_with_window(window_of(tensor))


def tensor_with_window(seen: Window) -> torch.Tensor:
    """A tensor with this layout, on separate memory. Whether a size that varies is zero is not
    asked."""
    with CONFIG.patch(backed_size_oblivious=True):
        return make_tensor_with_window(seen)


def make_tensor_with_window(seen: Window) -> torch.Tensor:
    dtype, device, dims, *numbers = seen
    rest = [item.value if isinstance(item, VaryingSize) else item for item in numbers]
    shape, strides, offset = rest[:dims], rest[dims : 2 * dims], rest[-1]
    if isinstance(offset, int) and not offset:
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)
    span = (
        1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        if math.prod(size for size in shape if isinstance(size, int))
        else 0
    )
    return torch.empty(offset + span, dtype=dtype, device=device).as_strided(shape, strides, offset)
