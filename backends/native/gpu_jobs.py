"""Steps of a program as jobs of Triton's compiler."""

from __future__ import annotations

from collections.abc import Mapping

from .ir.program import Buffer, Kernel, Product
from .printers.products import Blocks, blocks_to_try, print_product
from .printers.tiles import Tiles
from .printers.triton.kernel import PrintedKernel, print_triton
from .printers.triton.scalars import POINTERS, PREAMBLE
from .toolchain.load_triton import Job

Choice = Tiles | Blocks
MOST_ALIGNED = 64  # types of arguments


def print_step(step: Kernel, buffers: Mapping[str, Buffer], choice: Choice | None) -> PrintedKernel:
    """A kernel or a product as text, with the chosen tiles or those of the table."""
    if isinstance(step, Product):
        return print_product(
            step, buffers, choice if isinstance(choice, Blocks) else blocks_to_try(step)[0]
        )
    return print_triton(step, buffers, choice if isinstance(choice, Tiles) else None)


def job(buffers: Mapping[str, Buffer], printed: PrintedKernel) -> Job:
    """A compiler job, for buffers that are aligned to 16 bytes, as torch's allocators align
    them."""
    parameters = printed.parameters
    names = [f"in{n}" for n in range(len(parameters.loaded))] + [
        f"out{n}" for n in range(len(parameters.stored))
    ]
    kinds = [POINTERS[buffers[name].dtype] for name in parameters.buffers] + ["i64"] * len(
        parameters.sizes
    )
    arguments = (*names, *parameters.sizes, *(name for name, _ in printed.blocks))
    signature = (*kinds, *("constexpr" for _ in printed.blocks))
    aligned = tuple(range(min(len(names), MOST_ALIGNED)))
    asserts = "tl.device_assert" in printed.text
    return Job(
        PREAMBLE + printed.text,
        arguments,
        signature,
        printed.blocks,
        aligned,
        printed.warps,
        printed.stages,
        asserts,
    )
