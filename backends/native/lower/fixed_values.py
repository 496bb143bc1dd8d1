"""Operators on values that do not depend on any input, such as the frequencies of a position
encoding, `exp(arange(n) * c)`. Torch runs the inexact ones of them, so that they are eager's to the
last bit: a program may multiply a frequency by thousands before it takes the sine."""

from __future__ import annotations

import torch

from ...graph.copies import AnyNode
from .fake_layouts import number_now

MOST = 4096  # elements; a longer tensor is calculated where it is used, in a kernel
# operators that C's functions round otherwise than torch's
INEXACT = frozenset(
    getattr(torch.ops.aten, name)
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma",
        "pow", "sigmoid", "atan2", "hypot",
    )
)  # fmt: skip


class FixedValues:
    """The nodes read so far whose values do not depend on any input."""

    def __init__(self) -> None:
        self._nodes: set[AnyNode] = set()

    def add(self, node: AnyNode) -> None:
        """Reads the next node. Random numbers count as inputs."""
        if node.op == "get_attr" or (
            node.op == "call_function"
            and self._nodes.issuperset(node.all_input_nodes)
            and torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())
        ):
            self._nodes.add(node)

    def is_left_to_torch(self, node: AnyNode) -> bool:
        """Whether torch runs an operator, although there is a kernel for it."""
        if node not in self._nodes or getattr(node.target, "overloadpacket", None) not in INEXACT:
            return False
        fake = node.meta["val"]
        return fake.device.type == "cpu" and number_now(fake.numel()) <= MOST
