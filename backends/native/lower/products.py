"""Matrix products. Those with an inner dimension of at most four, such as the gradient of a layer
with few outputs, are computed where they are read on the CPU: writing the result takes longer than
computing it. Torch multiplies all others: on a GPU with padded operands (padded_products.py) or
with the activation that follows (activations.py), and where a CPU emulates half precision, in
float32 (half_products.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch

from ..ir.index import Index, index, product
from ..ir.program import View
from ..ir.scalar import Scalar
from . import padded_products
from .activations import activated_product
from .build import Builder
from .half_products import half_product, is_emulated
from .registry import Unsupported, lowers

aten = torch.ops.aten

MOST_TERMS = 4
SHORTEST_ROW = 16  # of the result: shorter ones fill no vectors
FEWEST = 1 << 16  # elements of the result


@lowers(aten.mm.default, seldom=True)
def mm(build: Builder, left: View, right: View) -> View:
    if build.fake.device.type in padded_products.DEVICES:
        return padded_products.padded_product(build, left, right)
    if is_emulated(build.fake):
        return half_product(build, 0, left, right, None, (0, 1))
    refuse_other_products(build, left, right)
    return build.pointwise(lambda at: element(build, left, right, at))


@lowers(aten.addmm.default, seldom=True)
def addmm(
    build: Builder, added: View, left: View, right: View, *, beta: Any = 1, alpha: Any = 1
) -> View:
    """left @ right + added: on a device padded to multiples that it is fast with, in float32 where
    half precision is emulated, otherwise as a kernel if it is small."""
    if build.fake.device.type in padded_products.DEVICES:
        try:
            return padded_products.padded_product(
                build, left, right, added, {"beta": beta, "alpha": alpha}
            )
        except Unsupported:
            if (beta, alpha) != (1, 1):
                raise
            return activated_product(build, added, left, right)
    if is_emulated(build.fake):
        return half_product(build, 1, left, right, added, (beta, alpha))
    refuse_other_products(build, left, right)
    if (beta, alpha) != (1, 1):
        raise Unsupported("a product times a number")
    return build.pointwise(lambda at: element(build, left, right, at) + build.read(added, at))


def refuse_other_products(build: Builder, left: View, right: View) -> None:
    """Raises Unsupported but for products of few terms and long rows, in single or double precision
    on the CPU: only for these are fused loops faster than torch's kernels."""
    like, terms = build.fake, left.size[1].value
    rows, columns = build.shape(like.shape)
    count = product([rows, columns]).value
    if (
        like.device.type != "cpu"
        or like.dtype not in (torch.float32, torch.float64)
        or terms is None
        or not 1 <= terms <= MOST_TERMS
        or count is None
        or count < FEWEST
        or columns.value is None
        or columns.value < SHORTEST_ROW
        or right.stride[1] != 1  # its elements would be gathered
    ):
        raise Unsupported("a product that torch computes faster")


def element(build: Builder, left: View, right: View, at: Sequence[Index]) -> Scalar:
    """An element of left @ right."""
    row, column = at
    terms = [
        build.read(left, [row, index(term)]) * build.read(right, [index(term), column])
        for term in range(left.size[1].value or 0)
    ]
    return reduce(lambda sum, term: sum + term, terms)
