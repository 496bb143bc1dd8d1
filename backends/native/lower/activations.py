"""Activations that a product with bias applies before its result is stored (cuBLASLt's epilogues),
on a GPU: relu, and the tanh form of gelu. Where nothing else uses the product, the two become one
call.

Some of cuBLASLt's kernels turn NaN into 0 there. Which kernel it takes depends on the sizes, so a
product of these sizes is tried.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...graph.copies import AnyNode
from ...graph.memory import memories
from ..ir.program import Call, View
from .build import Builder
from .registry import Unsupported

aten = torch.ops.aten
PRODUCT = aten._addmm_activation.default
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
DEVICES = ("cuda",)  # types
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def activated_product(build: Builder, bias: View, left: View, right: View) -> View:
    """activation(bias + left @ right), which the activation's node becomes, too. bias: [columns],
    left: [rows, terms], right: [terms, columns]. Raises Unsupported without such an activation."""
    activation = only_activation(build)
    if activation is None or not takes(bias, left, right):
        raise Unsupported("a product without an activation behind it")
    gelu = activation.target is aten.gelu.default
    if not passes_nan(bias, left, right, gelu):
        raise Unsupported("a product whose activation would lose NaN")
    build.applied.add(activation)
    buffer = build.new_buffer(build.node.name, build.fake)
    build.program.steps.append(
        Call(PRODUCT, (bias, left, right), {"use_gelu": gelu}, (buffer.name,), True, str(PRODUCT))
    )
    return build.window(buffer)


def only_activation(build: Builder) -> AnyNode | None:
    """The activation that alone uses the result of the node that is being lowered, perhaps through
    views."""
    node = build.node
    if not build.repeated.escaping.isdisjoint(memories(node)):
        return None
    while len(node.users) == 1:
        (node,) = node.users
        if is_activation(node):
            return node
        if node.target not in VIEWS:
            break
    return None


def is_activation(node: AnyNode) -> bool:
    if node.target is aten.gelu.default:
        return bool(node.kwargs.get("approximate", *node.args[1:2] or ("none",)) == "tanh")
    return node.target is aten.relu.default


def takes(bias: View, left: View, right: View) -> bool:
    """Whether the operator takes these operands: a bias for each column, known sizes."""
    numbers = [
        number for view in (bias, left, right) for number in (*view.size, *view.stride, view.offset)
    ]
    return (
        left.device.type in DEVICES
        and left.dtype in DTYPES
        and bias.size == right.size[1:]
        and all(number.value is not None for number in numbers)
    )


def passes_nan(bias: View, left: View, right: View, gelu: bool) -> bool:
    """Whether a row with a NaN becomes a row of NaN."""
    if left.size[0] == 0 or left.size[1] == 0 or right.size[1] == 0:
        return False
    try:
        with _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast():
            operands = [zeros_like(view) for view in (bias, left, right)]
            operands[1][0, 0] = torch.nan
            return bool(PRODUCT(*operands, use_gelu=gelu)[0].isnan().all())
    except torch.OutOfMemoryError:
        return False


def zeros_like(view: View) -> torch.Tensor:
    """Zeros in memory of their own, laid out as the view is."""
    size, stride = ([number.value or 0 for number in each] for each in (view.size, view.stride))
    offset = view.offset.value or 0
    last = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    memory = torch.zeros(offset + last + 1, dtype=view.dtype, device=view.device)
    return memory.as_strided(size, stride, offset)
