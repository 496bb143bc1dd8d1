"""A kernel that reduces rows of a few elements, as the three coordinates or colours of a point,
computes all elements of a row in one iteration: the loop over rows then fills vector registers,
which a loop along a row does not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product as combinations

from ..ir.index import Atom, Index, index
from ..ir.program import Kernel, Store
from ..ir.scalar import HALF, REDUCE, Scalar, const, rewrite, share, substitute
from ..ir.scalar import scalar as s
from .base import Plan

LONGEST = 4  # elements of a row
MOST_NODES = 200  # of the result
FEWEST_ROWS = 8  # side by side
JOINED_BY = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "or"}


def unroll_short_rows(kernel: Kernel) -> Kernel:
    """The kernel without inner loops, where these are short enough."""
    if not has_short_rows(kernel):
        return kernel
    points: list[dict[Atom, Index]] = [
        dict(zip(kernel.inner, map(index, numbers), strict=True))
        for numbers in combinations(*(range(loop.size.value or 0) for loop in kernel.inner))
    ]

    def change(node: Scalar) -> Scalar:
        if node.op != REDUCE:
            return node
        return join(node, [substitute(node.args, point)[0] for point in points])

    stores = []
    for store, value in zip(kernel.stores, rewrite(kernel.roots(), change), strict=True):
        along = store.index.variables() & set(kernel.inner)
        for point in points if along else points[:1]:
            place = store.index.substitute(point)
            stores.append(Store(store.buffer, place, substitute([value], point)[0]))
    values = share(store.value for store in stores)
    together = (
        Store(store.buffer, store.index, value) for store, value in zip(stores, values, strict=True)
    )
    return Kernel(kernel.outer, (), tuple(together), kernel.origins)


def join(node: Scalar, values: Sequence[Scalar]) -> Scalar:
    """A reduction's result from the values of a row. A sum of zeros with a sign has none."""
    start = [const(0, node.dtype)] if node.attr == "sum" else []
    return reduce(lambda left, right: s(JOINED_BY[node.attr], left, right), [*start, *values])


def has_short_rows(kernel: Kernel) -> bool:
    """Whether the inner loops are short, and many rows follow one another."""
    count, plan = kernel.columns.value, Plan(kernel)
    if not kernel.inner or not kernel.outer or type(kernel) is not Kernel:
        return False
    beside = kernel.outer[-1].size.value
    reductions = [node for node in plan.nodes if node.op == REDUCE]
    return (
        count is not None
        and 1 < count <= LONGEST
        and (beside is None or beside >= FEWEST_ROWS)
        and count * len(plan.nodes) <= MOST_NODES
        and not plan.is_across_rows()
        and all(node.attr in JOINED_BY and node.dtype not in HALF for node in reductions)
    )
