"""Kernels of a program on the GPU: printed as Triton, compiled side by side, launched through the driver."""
from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from .loops.ir import Call, Kernel, Program
from .printers.host import Launch, Namespace
from .printers.triton import POINTERS, PREAMBLE, Printed, print_triton
from .toolchain import load_triton
from .toolchain._launch import launch
from .toolchain.load_triton import Job

ALIGNMENT = 16  # bytes; torch's allocators give more


def check() -> None:
    """Raises RuntimeError where Triton has no compiler for the GPU."""
    major, minor = torch.cuda.get_device_capability()
    if (major, minor) < (7, 0):
        raise RuntimeError(f"the GPU's compute capability is {major}.{minor}, Triton needs 7.0")


def prepare() -> None:
    """Starts what compiles kernels, so that it is ready when there are some."""
    load_triton.workers()


def launches(program: Program, kernels: Mapping[int, Kernel], namespace: Namespace) -> tuple[dict[int, Launch], dict[int, str]]:
    """Prints and compiles kernels; equal ones once. What launches each, and its text."""
    device = device_of(program)
    ours = owned(program)
    printed = {position: print_triton(kernel, program.buffers) for position, kernel in kernels.items()}
    jobs = {position: job(program, one, ours) for position, one in printed.items()}
    loaded = load_triton.load(list(jobs.values()), device)
    namespace.objects["launch"] = launch
    found = {}
    for position, one in printed.items():
        kernel = loaded[jobs[position]]
        name = f"gpu_kernel_{list(loaded).index(jobs[position])}"
        namespace.objects[name] = kernel.function
        call = f"launch({name}, {programs(one)}, 1, 1, {kernel.threads}, {kernel.shared}, stream, "
        found[position] = Launch(call, one.parameters, ", 0, 0)")
    return found, {position: one.text for position, one in printed.items()}


def prologue(program: Program, namespace: Namespace) -> list[str]:
    """Lines before the first launch."""
    namespace.objects["current_stream"] = torch._C._cuda_getCurrentRawStream
    return [f"stream = current_stream({device_of(program)})"]


def device_of(program: Program) -> int:
    """The number of the one GPU. Raises NotImplementedError where there are several."""
    found = {buffer.device.index or 0 for buffer in program.buffers.values() if buffer.device.type == "cuda"}
    if len(found) != 1:
        raise NotImplementedError("a graph over several GPUs")
    return found.pop()


def owned(program: Program) -> set[str]:
    """Buffers that the program allocates itself, and so are aligned."""
    given = {*program.inputs, *program.constants}
    called = {name for step in program.steps if isinstance(step, Call) for name in step.results if name}
    return set(program.buffers) - given - called


def job(program: Program, printed: Printed, ours: set[str]) -> Job:
    parameters = printed.parameters
    names = [f"in{n}" for n in range(len(parameters.loaded))] + [f"out{n}" for n in range(len(parameters.stored))]
    kinds = [POINTERS[program.buffers[name].dtype] for name in parameters.buffers] + ["i64"] * len(parameters.sizes)
    arguments = (*names, *parameters.sizes, *(name for name, _ in printed.blocks))
    aligned = tuple(n for n, name in enumerate(parameters.buffers) if name in ours)
    signature = (*kinds, *("constexpr" for _ in printed.blocks))
    asserts = "tl.device_assert" in printed.text
    return Job(PREAMBLE + printed.text, arguments, signature, printed.blocks, aligned, printed.warps, printed.stages, asserts)


def programs(printed: Printed) -> str:
    """How many programs a kernel takes, as Python text."""
    if all(count.value is not None for count, _ in printed.grid):
        return str(math.prod(-(-(count.value or 0) // side) for count, side in printed.grid))
    return " * ".join(f"(-(-({count}) // {side}))" for count, side in printed.grid)
