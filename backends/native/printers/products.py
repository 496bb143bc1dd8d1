"""A Product as Triton: blocks of rows and columns are multiplied on tensor cores, and each block's
elements go through the kernel's operations on their way to memory.

In: a Product of a known size. Out: as for any kernel. Sums are kept in float32; a float32 product
is computed as torch's setting allows.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ....records import record
from ..ir.index import Index, Var, atom
from ..ir.program import Buffer, Product, View
from ..ir.scalar import LOAD
from .base import Parameters, Scope
from .tiles import Axis, power_of_two
from .triton.kernel import PrintedKernel, TritonFunction, function
from .triton.scalars import bracket

SHORTEST = 16  # side of a block that tensor cores take
# rows of blocks that are worked on together, so that their columns are read from the cache
BAND = 8


@record
class Blocks:
    """Sides of the blocks of a product: rows, columns, and how much of the depth is read at once;
    the warps on a block, and how many reads are under way."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


# rows, columns, depth in bytes, warps, stages
TRIED = (
    (16, 128, 256, 4, 4), (32, 64, 256, 4, 4), (64, 64, 128, 4, 4), (64, 128, 128, 4, 4),
    (128, 64, 128, 4, 4), (128, 128, 128, 8, 3), (128, 256, 128, 8, 3), (64, 32, 256, 4, 3),
)  # fmt: skip


def blocks_to_try(product: Product) -> list[Blocks]:
    """What tuning compares: no side is longer than the product's own, rounded up."""
    *_, rows, columns = (_side(variable.size) for variable in product.outer)
    depth, bytes_each = _side(product.left.size[-1]), product.left.dtype.itemsize
    made = (
        Blocks(
            min(m, rows), min(n, columns), min(max(SHORTEST, k // bytes_each), depth), warps, stages
        )
        for m, n, k, warps, stages in TRIED
    )
    return list(dict.fromkeys(made))


def _side(size: Index) -> int:
    return 1 << 20 if size.value is None else max(SHORTEST, power_of_two(size.value))


def precision(dtype: torch.dtype) -> str:
    """How operands enter the product: with tf32's ten bits only where torch's own products may have
    them."""
    if dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision == "tf32":
        return "tf32"
    return "ieee"


def print_product(product: Product, buffers: Mapping[str, Buffer], blocks: Blocks) -> PrintedKernel:
    """A product as text. Its sizes are numbers."""
    return ProductFunction(product, buffers, blocks).print_kernel()


class ProductFunction(TritonFunction):
    """Writes one product."""

    kernel: Product

    def __init__(self, product: Product, buffers: Mapping[str, Buffer], blocks: Blocks) -> None:
        super().__init__(product, buffers)
        self.sides = blocks
        *_, rows, columns = product.outer
        self.depth = Var("k", product.left.size[-1])
        self.axes = Axis("m", (rows,), "[:, None]"), Axis("n", (columns,), "[None, :]")

    def parameters_of(self) -> Parameters:
        found = super().parameters_of()
        product = self.kernel
        loaded = dict.fromkeys((product.left.buffer, product.right.buffer, *found.loaded))
        del loaded[product.result]
        return Parameters(tuple(loaded), found.stored, found.sizes)

    def print_kernel(self) -> PrintedKernel:
        """The whole kernel of a product: the loop over the depth, then the epilogue on the sum."""
        blocks = (
            ("MBLOCK", self.sides.rows),
            ("NBLOCK", self.sides.columns),
            ("KBLOCK", self.sides.depth),
        )
        *batch, rows, columns = self.kernel.outer
        grid = (
            *((variable.size, 1) for variable in batch),
            (rows.size, self.sides.rows),
            (columns.size, self.sides.columns),
        )
        sides = [f"{name}: tl.constexpr" for name, _ in blocks]
        arguments = [
            *self.pointers.values(),
            *self.targets.values(),
            *self.parameters.sizes,
            *sides,
        ]
        top = Scope(frozenset(self.kernel.outer))
        top.lines += [*self.place(), *self.print_depth_loop()]
        top.names |= {
            id(node): "total"
            for node in self.plan.nodes
            if node.op == LOAD and node.attr.buffer == self.kernel.result
        }
        self.stores(top, 0, None)
        return PrintedKernel(
            function(arguments, self.kernel, top.lines),
            self.parameters,
            self.sides.warps,
            self.sides.stages,
            blocks,
            grid,
        )

    def place(self) -> list[str]:
        """The block that a program works on. Blocks come in bands of rows, and in a band column by
        column."""
        *batch, rows, columns = self.kernel.outer
        lines = [
            f"tile = tl.program_id(0).to({'tl.int64' if self.wide else 'tl.int32'})",
            f"mtiles = ({self.index(rows.size)} + MBLOCK - 1) // MBLOCK",
            f"ntiles = ({self.index(columns.size)} + NBLOCK - 1) // NBLOCK",
        ]
        if batch:
            lines += [
                f"{batch[0].name} = tile // (mtiles * ntiles)",
                "tile = tile % (mtiles * ntiles)",
            ]
        lines += [
            f"band = tile // ({BAND} * ntiles)",
            f"height = min(mtiles - {BAND} * band, {BAND})",
            f"tile = tile % ({BAND} * ntiles)",
            f"mindex = (({BAND} * band + tile % height) * MBLOCK + tl.arange(0, MBLOCK))[:, None]",
            "nindex = ((tile // height) * NBLOCK + tl.arange(0, NBLOCK))[None, :]",
        ]
        for axis in self.axes:
            (variable,) = axis.variables
            lines += [
                f"{axis.mask} = {axis.number} < {self.index(variable.size)}",
                f"{variable.name} = {axis.number}",
            ]
        return lines

    def print_depth_loop(self) -> list[str]:
        """The loop over the depth. What is beyond a side that is no multiple of its block's
        counts as 0."""
        product, depth = self.kernel, self.index(self.depth.size)
        *_, rows, columns = product.outer
        beyond = [f"k < {depth}"] * needs_mask(self.depth, self.sides.depth)
        left = ["mmask"] * needs_mask(rows, self.sides.rows) + beyond
        right = ["nmask"] * needs_mask(columns, self.sides.columns) + beyond
        *images, m, n = map(atom, product.outer)
        k, wide = atom(self.depth), ".to(tl.int64)" if self.wide else ""
        return [
            "total = tl.zeros([MBLOCK, NBLOCK], tl.float32)",
            f"for kstart in range(0, {depth}, KBLOCK):",
            f"    k = (kstart + tl.arange(0, KBLOCK))[None, :]{wide}",
            f"    left = {self.operand(product.left, [*images, m, k], left)}",
            f"    k = (kstart + tl.arange(0, KBLOCK))[:, None]{wide}",
            f"    right = {self.operand(product.right, [*images, k, n], right)}",
            "    total = tl.dot(left, right, total, "
            f"input_precision='{precision(product.left.dtype)}')",
        ]

    def operand(self, view: View, point: list[Index], masks: list[str]) -> str:
        source = f"{self.pointers[view.buffer]} + {bracket(self.index(view.at(point)))}"
        if masks:
            return f"tl.load({source}, {' & '.join(map(bracket, masks))}, other=0)"
        return f"tl.load({source})"


def needs_mask(variable: Var, side: int) -> bool:
    return variable.size.value is None or variable.size.value % side != 0
