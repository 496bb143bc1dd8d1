"""Kernels as Triton, run by Triton's interpreter on the CPU, against the meaning of the loop IR. A
script: the interpreter is chosen before Triton is imported. Prints what differs and how many
kernels ran; ends with 1 if any differs."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import numpy
import torch
import triton.language as tl
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.printers.products import print_product
from framejit.backends.native.printers.triton.kernel import print_triton
from framejit.backends.native.printers.triton.scalars import LIBDEVICE, PREAMBLE
from triton.runtime.interpreter import TensorHandle

sys.path.insert(0, str(Path(__file__).parent))
import kernels
import products
from evaluate import evaluate

TORCH = {
    **{there: here for here, there in LIBDEVICE.items()},
    "fmod": "fmod",
    "signbit": "signbit",
    "rint": "round",
}


class LibDevice:
    """CUDA's functions, which the interpreter does not have, by torch's."""

    def __getattr__(self, name):
        function = getattr(torch, TORCH[name])

        def call(*args):
            like = next(arg for arg in args if isinstance(arg, tl.tensor))
            values = [
                torch.from_numpy(numpy.array(a.handle.data))
                if isinstance(a, tl.tensor)
                else torch.tensor(a)
                for a in args
            ]
            found = function(*torch.broadcast_tensors(*values))
            kind = tl.int32 if found.dtype == torch.bool else like.dtype
            found = (
                found.to(torch.int32) if found.dtype == torch.bool else found.to(values[0].dtype)
            )
            return tl.tensor(
                TensorHandle(found.numpy(), kind), tl.block_type(kind, list(found.shape))
            )

        return call


def run(folder, printed, memory, sizes):
    """Runs a printed kernel on memory."""
    text = printed.text
    for size in printed.parameters.sizes:  # the interpreter's range() takes no other numbers
        text = text.replace(f"{size}, ", f"{size}: tl.constexpr, ", 1)
    path = (
        Path(folder) / f"kernel_{len(os.listdir(folder))}.py"
    )  # a file of its own: Python keeps what it compiled of another
    path.write_text(PREAMBLE + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.libdevice = LibDevice()
    arguments = [memory[buffer] for buffer in printed.parameters.buffers] + [
        sizes[size] for size in printed.parameters.sizes
    ]
    count = eval(printed.programs, dict(sizes))
    if count:
        module.kernel[(count, 1, 1)](*arguments, **dict(printed.blocks))


def run_case(folder, name, case, tiles):
    """How a case's results differ."""
    want, got = (
        {buffer: tensor.clone() for buffer, tensor in case.memory.items()} for _ in range(2)
    )
    evaluate(case.kernel, want, case.sizes)
    run(folder, print_triton(simplify(case.kernel), case.buffers, tiles), got, case.sizes)
    return [
        *filter(None, (kernels.told_difference(name, got[buffer], want[buffer]) for buffer in want))
    ]


def run_product(folder, name, case):
    """How a product's results differ from eager's."""
    (found,), memory = products.found(case), products.memory(case)
    printed = print_product(found.product, products.program(case).buffers, products.BLOCKS)
    if case.dtype == torch.bfloat16:  # the interpreter multiplies its bits
        text = printed.text.replace(
            "tl.dot(left, right,", "tl.dot(left.to(tl.float32), right.to(tl.float32),"
        )
        printed = replace(printed, text=text)
    run(folder, printed, memory, {})
    return [*filter(None, [products.told_difference(name, case, products.result(case, memory))])]


def main():
    works = [
        (f"{name} {tiles}", partial(run_case, name=name, case=case, tiles=tiles))
        for name, case in kernels.atomic_cases().items()
        for tiles in kernels.tiles_of(case)
    ]
    works += [
        (name, partial(run_product, name=name, case=case)) for name, case in products.JOINED.items()
    ]
    return run_works(works)


def run_works(works):
    """Runs (name, function of a folder that returns what differs); prints what differs or fails.
    Returns 1 if anything does."""
    told, ran = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, work in works:
            try:
                told += work(folder)
                ran += 1
            except Exception as error:
                told.append(f"{name}: {type(error).__name__}: {error}")
    print("\n".join(told))
    print(f"{ran} kernels ran, {len(told)} differ")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
