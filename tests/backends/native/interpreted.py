"""Kernels as Triton, run by Triton's interpreter on the CPU, against the meaning of the loop IR. A script: the interpreter is
chosen before Triton is imported. Prints what differs and how many kernels ran; ends with 1 if any differs."""
from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import numpy  # noqa: E402
import torch  # noqa: E402
import triton.language as tl  # noqa: E402
from framejit.backends.loops.evaluate import evaluate  # noqa: E402
from framejit.backends.optimize.simplify import simplify  # noqa: E402
from framejit.backends.printers.triton import LIBDEVICE, PREAMBLE, Tiles, print_triton  # noqa: E402
from triton.runtime.interpreter import TensorHandle  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import kernels  # noqa: E402

TORCH = {**{there: here for here, there in LIBDEVICE.items()}, "fmod": "fmod", "signbit": "signbit", "rint": "round"}
LOOPED = Tiles(4, 16, 1, False)


class LibDevice:
    """CUDA's functions, which the interpreter does not have, by torch's."""

    def __getattr__(self, name):
        function = getattr(torch, TORCH[name])

        def call(*args):
            like = next(arg for arg in args if isinstance(arg, tl.tensor))
            values = [torch.from_numpy(numpy.array(a.handle.data)) if isinstance(a, tl.tensor) else torch.tensor(a) for a in args]
            found = function(*torch.broadcast_tensors(*values))
            kind = tl.int32 if found.dtype == torch.bool else like.dtype
            found = found.to(torch.int32) if found.dtype == torch.bool else found.to(values[0].dtype)
            return tl.tensor(TensorHandle(found.numpy(), kind), tl.block_type(kind, list(found.shape)))

        return call


def run(folder, case, tiles):
    """Runs a case's kernel on its memory."""
    text, parameters, tiles = print_triton(simplify(case.kernel), case.buffers, tiles)
    for size in parameters.sizes:  # the interpreter's range() takes no other numbers
        text = text.replace(f"{size}, ", f"{size}: tl.constexpr, ", 1)
    path = Path(folder) / "kernel.py"
    path.write_text(PREAMBLE + text)
    spec = importlib.util.spec_from_file_location("kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.libdevice = LibDevice()
    blocks = {"XBLOCK": tiles.xblock} | ({"RBLOCK": tiles.rblock} if case.kernel.inner else {})
    rows = case.sizes.get("s0", case.kernel.rows.value)
    arguments = [case.memory[buffer] for buffer in parameters.buffers] + [case.sizes[size] for size in parameters.sizes]
    module.kernel[(max(1, -(-rows // tiles.xblock)), 1, 1)](*arguments, **blocks)


def main():
    told, ran = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, case in kernels.all_cases().items():
            want = {buffer: tensor.clone() for buffer, tensor in case.memory.items()}
            evaluate(case.kernel, want, case.sizes)
            for tiles in (None, LOOPED) if case.kernel.inner else (None,):
                mine = kernels.Case(case.kernel, {buffer: tensor.clone() for buffer, tensor in case.memory.items()}, case.sizes)
                try:
                    run(folder, mine, tiles)
                except Exception as error:
                    told.append(f"{name} {tiles}: {type(error).__name__}: {error}")
                    continue
                ran += 1
                told += filter(None, (kernels.told_difference(f"{name} {tiles}", mine.memory[b], want[b]) for b in want))
    print("\n".join(told))
    print(f"{ran} kernels ran, {len(told)} differ")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
