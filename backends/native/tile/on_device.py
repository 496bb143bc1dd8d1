"""The GPU on which kernels are measured: compiles, allocates, and times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
import triton
from torch.utils._python_dispatch import _disable_current_modes

from ..ir.program import Buffer
from ..toolchain._launch import Kernel
from ..toolchain.load_triton import Job, KernelLoader

ROUNDS = 3
SHORTEST = 1e-3  # target seconds of a batch
MOST_RUNS = 100  # of a batch
CYCLES = 2e9  # of the GPU's clock in a second, roughly


class OnDevice:
    """One GPU. `identity`: the properties for which a result is valid."""

    kind = "cuda"

    def __init__(self, number: int) -> None:
        self.device = torch.device("cuda", number)
        properties = torch.cuda.get_device_properties(number)
        kind = (
            f"{properties.name}, {properties.multi_processor_count} processors, "
            f"{properties.total_memory} bytes"
        )
        self.identity = (
            f"{kind}, torch {torch.__version__}, Triton {triton.__version__}, "
            f"{torch.backends.cuda.matmul.fp32_precision}"
        )

    def compile(self, jobs: Iterable[Job]) -> dict[Job, Kernel]:
        """The jobs that can be compiled, in parallel."""
        return {
            job: made
            for job, made in KernelLoader(jobs, self.device.index).finish().items()
            if not isinstance(made, str)
        }

    @property
    def stream(self) -> int:
        return torch._C._cuda_getCurrentRawStream(self.device.index)

    @contextlib.contextmanager
    def memory(
        self, elements: Mapping[str, int], buffers: Mapping[str, Buffer]
    ) -> Iterator[dict[str, torch.Tensor]]:
        """Temporary flat tensors by name, filled with 0.5 (integers with 0). Raises
        torch.OutOfMemoryError."""
        reserved = torch.cuda.memory_reserved(self.device)
        given: dict[str, torch.Tensor] = {}
        try:
            with _disable_current_modes(), torch.no_grad():
                for name, count in elements.items():
                    dtype = buffers[name].dtype
                    given[name] = torch.full(
                        (count,),
                        0.5 if dtype.is_floating_point else 0,
                        dtype=dtype,
                        device=self.device,
                    )
                yield given
        finally:
            given.clear()
            if torch.cuda.memory_reserved(self.device) > reserved:
                torch.cuda.empty_cache()

    def seconds(self, runs: Sequence[Callable[[], object]]) -> list[float | None]:
        """The GPU time of each, without launches; None for one that fails. The best of several
        rounds."""
        best: list[float | None] = []
        with (
            _disable_current_modes(),
            torch.no_grad(),
            torch._C._DisableAutocast(),
            torch.cuda.device(self.device),
        ):
            batches = [self.batch(run) for run in runs]
            best = [None if batch is None else float("inf") for batch in batches]
            for _ in range(ROUNDS):
                for place, (run, batch) in enumerate(zip(runs, batches, strict=True)):
                    if batch is not None:
                        best[place] = min(best[place] or 0.0, self.time_on_device(run, *batch))
        return best

    def batch(self, run: Callable[[], object]) -> tuple[int, int] | None:
        """How often to call it, and for how many cycles the GPU should wait first, so that all
        calls are launched when it begins."""
        try:
            run()  # first calls initialise
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            launched = time.perf_counter() - start
            torch.cuda.synchronize()
            both = time.perf_counter() - start
        except RuntimeError:
            return None
        count = max(3, min(MOST_RUNS, int(SHORTEST / both)))
        return count, int(CYCLES * min(1.5 * launched * count, 5e-3))

    def time_on_device(self, run: Callable[[], object], count: int, cycles: int) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(cycles)
        start.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / count
