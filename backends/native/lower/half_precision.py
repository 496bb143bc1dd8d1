"""Half precision, rounded where eager does. Kernels compute halves in float32 and round what they
store; between fused operations values keep their precision, but for

- operands of another dtype, which torch converts to half precision first;
- what a mask, an integer or a whole number is calculated from: there the last bit of a value
  decides about another result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ...graph.copies import AnyNode
from ..ir.index import ONE
from ..ir.program import View
from ..ir.scalar import HALF, Scalar, round_to
from .fake_layouts import tensors_in
from .registry import LOWERINGS, SELDOM, Unsupported

aten = torch.ops.aten
OPERANDS = ("self", "other", "exponent")  # parameters whose numbers are operands
SUMS = {aten.add, aten.sub, aten.rsub}  # operators for whose `alpha` the same holds
WHOLE_QUOTIENTS = {aten.floor_divide.default, aten.div.Tensor_mode, aten.div.Scalar_mode}
# operators that read a second operand of one element in float32, on the CPU
WIDE = {aten.mul, aten.div, aten.true_divide, aten.floor_divide}
STEPS = {  # operators whose results are fractions, and jump
    aten.floor, aten.ceil, aten.trunc, aten.round, aten.frac, aten.remainder, aten.fmod, aten.sign,
    aten.sgn, aten.threshold,
}  # fmt: skip


def as_converted(
    node: AnyNode, given: Mapping[str, Any], operands: Mapping[str, Any], common: torch.dtype
) -> dict[str, Any]:
    """The operands of a node, in the precision of the type that torch converts them to. given: the
    arguments that they are made of."""
    if common not in HALF:
        return dict(operands)
    fake, numbers = node.meta["val"], {*OPERANDS}
    if node.target.overloadpacket in SUMS:  # type: ignore[union-attr]
        numbers.add("alpha")
    also_numbers = fake.device.type == "cpu" or fake.dtype == torch.bool
    return {
        name: round_to(operand, common)
        if isinstance(operand, Scalar)
        and (isinstance(given[name], View) or (also_numbers and name in numbers))
        and not is_wide(node, name, given[name])
        else operand
        for name, operand in operands.items()
    }


def is_wide(node: AnyNode, name: str, arg: Any) -> bool:
    """Whether torch computes with an argument in float32, also if others are in half precision."""
    if name != "other" or node.target.overloadpacket not in WIDE:  # type: ignore[union-attr]
        return False
    if not isinstance(arg, View):
        return True
    return arg.device.type == "cpu" and all(size == ONE for size in arg.size)


def refuse_halves(node: AnyNode, given: Sequence[Any], common: torch.dtype) -> None:
    """Raises Unsupported for an operator that rounds to half precision in between."""
    if common in HALF and (
        node.target is aten.nextafter.default
        or node.target in WHOLE_QUOTIENTS
        and not is_wide(node, "other", given[1])
    ):
        raise Unsupported("a formula that is computed in half precision")


def needed_as_rounded(nodes: Iterable[AnyNode]) -> set[AnyNode]:
    """The nodes whose results something discrete is calculated from, in kernels."""
    found: set[AnyNode] = set()
    for node in reversed([*nodes]):
        if node.op == "call_function" and (node in found or is_discrete(node)):
            found.update(other for other in node.all_input_nodes if continues(other))
    return found


def continues(node: AnyNode) -> bool:
    """Whether kernels calculate a node of floating point."""
    return (
        node.op == "call_function"
        and (node.target in LOWERINGS and node.target not in SELDOM or is_view(node))
        and any(fake.is_floating_point() for fake in tensors_in(node.meta.get("val")))
    )


def is_view(node: AnyNode) -> bool:
    return bool(getattr(node.target, "is_view", False))


def is_discrete(node: AnyNode) -> bool:
    """Whether an operator's result jumps where its operands change by little."""
    if getattr(node.target, "overloadpacket", None) in STEPS or node.target in WHOLE_QUOTIENTS:
        return True
    return any(not fake.is_floating_point() for fake in tensors_in(node.meta.get("val")))
