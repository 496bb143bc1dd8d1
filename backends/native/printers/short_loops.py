"""Joins a short innermost loop, as over the three coordinates of points, with the loop around it,
since alone it fills no vector register. This requires that stores are contiguous over both. Where
an index uses only one of the two variables, it is computed from the joint one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....records import record
from ..ir.index import ZERO, Index, Var, atom
from ..ir.program import Kernel, Store, scattered_value
from ..ir.scalar import INDEX, LOAD, Scalar, rewrite

SHORT = 8  # half of the numbers in the widest vector register
MOST = 1 << 31  # iterations, counted in 32 bits: vectors of these are divided fast


@record
class JointLoop:
    """The loop over `variable` in place of two."""

    variable: Var
    outer: Var
    inner: Var

    def declarations(self) -> list[str]:
        """The two variables, in C."""
        joint, size = self.variable.name, self.inner.size
        return [
            f"const int64_t {self.outer.name} = (int32_t){joint} / {size};",
            f"const int64_t {self.inner.name} = (int32_t){joint} - {size} * {self.outer.name};",
        ]


def join_short_loop(kernel: Kernel) -> tuple[Kernel, JointLoop | None]:
    """The kernel with its last two loops joined where that pays."""
    if kernel.inner or len(kernel.outer) < 2 or scattered_value(kernel) is not None:
        return kernel, None
    before, last = kernel.outer[-2:]
    if not joins_well(before, last, [store.index for store in kernel.stores]):
        return kernel, None
    joint = JointLoop(Var("joint", before.size * last.size), before, last)

    def index_by_joint(index: Index) -> Index:
        if not is_contiguous(before, last, index):
            return index
        return index.substitute({before: ZERO, last: atom(joint.variable)})

    def change(node: Scalar) -> Scalar:
        if node.op == LOAD:
            there = replace(node.attr, index=index_by_joint(node.attr.index))
            return Scalar(LOAD, node.args, node.dtype, there)
        if node.op == INDEX:
            return Scalar(INDEX, (), node.dtype, index_by_joint(node.attr))
        return node

    stores = (
        Store(store.buffer, index_by_joint(store.index), value)
        for store, value in zip(kernel.stores, rewrite(kernel.roots(), change), strict=True)
    )
    return replace(kernel, outer=(*kernel.outer[:-2], joint.variable), stores=tuple(stores)), joint


def joins_well(before: Var, last: Var, stored: Sequence[Index]) -> bool:
    """Whether the last loop is short, and all stores are contiguous over both."""
    sizes = before.size.value, last.size.value
    return (
        sizes[0] is not None
        and sizes[1] is not None
        and sizes[1] < SHORT
        and sizes[0] * sizes[1] < MOST
        and all(index.coefficient(last) == 1 for index in stored)
        and all(is_contiguous(before, last, index) for index in stored)
    )


def is_contiguous(before: Var, last: Var, index: Index) -> bool:
    """Whether an index steps over both loops as over one."""
    outer, inner = index.coefficient(before), index.coefficient(last)
    return outer is not None and inner is not None and inner != 0 and outer == inner * last.size
