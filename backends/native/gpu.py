"""Compiles a program's kernels for the GPU: printed as Triton, compiled in parallel, launched
through the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch

from ...records import record
from .gpu_jobs import Choice, job, print_step
from .ir.patterns import Patterns
from .ir.program import AnyKernel, Bound, Product, Program, reads, with_buffers, writes
from .printers.host import Launch, Namespace
from .printers.products import precision
from .printers.triton.kernel import PrintedKernel
from .tile.on_device import OnDevice
from .tile.tuner import Tuner
from .toolchain import load_triton
from .toolchain.load_triton import Job


def check_compiler() -> None:
    """Raises RuntimeError if Triton has no compiler for the GPU."""
    major, minor = torch.cuda.get_device_capability()
    if (major, minor) < (7, 0):
        raise RuntimeError(f"the GPU's compute capability is {major}.{minor}, Triton needs 7.0")


def prepare() -> None:
    """Starts the compiler processes, so that they are ready when there are kernels."""
    load_triton.workers()


@record
class Launches:
    """How each kernel of a program is launched, and its text, by position of its step. `finish`:
    puts the compiled kernels into the namespace; nothing may be launched before."""

    calls: dict[int, Launch]
    texts: dict[int, str]
    finish: Callable[[], None]


def launches(
    program: Program,
    kernels: Mapping[int, AnyKernel],
    namespace: Namespace,
    choices: Mapping[int, Choice],
) -> Launches:
    """Prints kernels and compiles them in the background; equal ones once. choices: tuned tiles, by
    position."""
    device = device_of(program)
    patterns = Patterns()
    once: dict[Any, tuple[tuple[str, ...], PrintedKernel, Job]] = {}
    printed: dict[int, PrintedKernel] = {}
    jobs: dict[int, Job] = {}
    for position, kernel in kernels.items():
        alike, names = what_is_printed(kernel, program, choices.get(position), patterns)
        if alike not in once:
            one = print_step(with_buffers(kernel), program.buffers, choices.get(position))
            once[alike] = names, one, job(program.buffers, one)
        first, one, jobs[position] = once[alike]
        printed[position] = replace(
            one, parameters=one.parameters.on(dict(zip(first, names, strict=True)))
        )
    loading = load_triton.KernelLoader(jobs.values(), device)
    called = {one: f"gpu_kernel_{number}" for number, one in enumerate(loading.jobs)}
    calls = {
        position: Launch(f"{called[jobs[position]]}({one.programs}, stream, ", one.parameters)
        for position, one in printed.items()
    }

    def finish() -> None:
        namespace.objects.update((called[one], kernel) for one, kernel in loading.kernels().items())

    return Launches(
        calls, {position: one.annotated_text for position, one in printed.items()}, finish
    )


def what_is_printed(
    kernel: AnyKernel, program: Program, choice: Choice | None, patterns: Patterns
) -> tuple[Any, tuple[str, ...]]:
    """The properties that determine a kernel's text, and the names of its buffers."""
    if isinstance(kernel, Product):
        return id(kernel), tuple(reads(kernel).union(writes(kernel)))
    bound = kernel if isinstance(kernel, Bound) else patterns.bind(kernel)
    kinds = tuple(
        (buffer.dtype, buffer.size, buffer.stride)
        for buffer in map(program.buffers.__getitem__, bound.names)
    )
    return (bound.alike, kinds, choice), bound.names


def tune_program(program: Program) -> dict[int, Choice]:
    """Tunes tiles for a program's kernels, and joins products with their consumers where that is
    faster. Returns the choices, by position of a step."""
    return Tuner(OnDevice(device_of(program))).tune(program)


def prologue(
    program: Program, namespace: Namespace, again: Callable[[], Callable[..., Any]], *, boxed: bool
) -> list[str]:
    """Lines before the first launch. again: compiles the program's graph untuned, for calls under
    another precision than products were tuned for. boxed: whether the function takes one list of
    arguments."""
    namespace.objects["current_stream"] = torch._C._cuda_getCurrentRawStream
    lines = [f"stream = current_stream({device_of(program)})"]
    if any(
        isinstance(step, Product) and precision(step.left.dtype) == "tf32" for step in program.steps
    ):
        namespace.objects |= {
            "precision": partial(precision, torch.float32),
            "untuned": cache(again),
        }
        inputs = ", ".join(program.inputs)
        lines.insert(
            0, f"if precision() != 'tf32': return untuned()({f'[{inputs}]' if boxed else inputs})"
        )
    return lines


def device_of(program: Program) -> int:
    """The number of the one GPU. Raises NotImplementedError where there are several."""
    found = {
        buffer.device.index or 0
        for buffer in program.buffers.values()
        if buffer.device.type == "cuda"
    }
    if len(found) != 1:
        raise NotImplementedError("a graph over several GPUs")
    return found.pop()
