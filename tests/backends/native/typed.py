"""Kernels as Triton through its front end for CUDA, without a GPU: it holds shapes and types, which
the interpreter lets pass. A script: Triton must not be in interpreting mode. Prints what is refused
and how many passed; ends with 1 if any was."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.gpu_jobs import job
from framejit.backends.native.ir.program import Buffer
from framejit.backends.native.printers.products import blocks_to_try, print_product
from framejit.backends.native.printers.triton.kernel import PrintedKernel, print_triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

sys.path.insert(0, str(Path(__file__).parent))
import kernels
import products

TARGET = GPUTarget("cuda", 90, 32)


def refused(printed: PrintedKernel, buffers: Mapping[str, Buffer], path: Path) -> str:
    """What Triton's front end says against a kernel, "" if nothing."""
    made_for = job(buffers, printed)
    path.write_text(made_for.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    signature = dict(zip(made_for.arguments, made_for.signature, strict=True))
    constants = {(made_for.arguments.index(name),): value for name, value in made_for.constants}
    backend, context = make_backend(TARGET), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    options = backend.parse_options({"debug": True})
    try:
        source = ASTSource(module.kernel, signature=signature, constexprs=constants)
        made = source.make_ir(
            TARGET,
            options,
            backend.get_codegen_implementation(options),
            backend.get_module_map(),
            context,
        )
        return "" if made.verify() else "the module does not verify"
    except Exception as error:
        return f"{error}\n{printed.text}"


def all_printed() -> Iterator[tuple[str, PrintedKernel, Mapping[str, Buffer]]]:
    for name, case in kernels.atomic_cases().items():
        for tiles in kernels.tiles_of(case):
            yield (
                f"{name} {tiles}",
                print_triton(simplify(case.kernel), case.buffers, tiles),
                case.buffers,
            )
    for name, case in products.JOINED.items():
        (found,), buffers = products.found(case), products.program(case).buffers
        for blocks in (products.BLOCKS, blocks_to_try(found.product)[0]):
            yield f"{name} {blocks}", print_product(found.product, buffers, blocks), buffers


def main() -> int:
    told, passed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, printed, buffers) in enumerate(all_printed()):
            reason = refused(printed, buffers, Path(folder) / f"kernel{number}.py")
            told += [f"{name}: {reason}"] if reason else []
            passed += not reason
    print("\n".join(told))
    print(f"{passed} kernels passed, {len(told)} refused")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
