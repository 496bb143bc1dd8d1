"""Triton text to launchable kernels, compiled in parallel by worker processes and loaded here from
Triton's cache."""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
import triton

from ....options import cache_dir_is_chosen, inherited_environment
from ....records import record
from . import triton_worker
from ._launch import Kernel
from .artifact_cache import cache_folder, content_key

MOST_WORKERS = 12


@record
class Job:
    """A module's text, and the arguments for which its function `kernel` is compiled. `aligned`:
    positions of arguments that are assumed to be multiples of 16."""

    text: str
    arguments: tuple[str, ...]
    signature: tuple[str, ...]
    constants: tuple[tuple[str, int], ...]
    aligned: tuple[int, ...]
    warps: int
    stages: int = 1
    asserts: bool = False  # the launcher checks its arguments


class Workers:
    """Compiler processes. They start at once, and are ready when they have imported Triton."""

    def __init__(self, count: int) -> None:
        script = str(Path(triton_worker.__file__))
        environment = inherited_environment(TRITON_CACHE_DIR=str(triton.knobs.cache.dir))
        self.idle: queue.Queue[subprocess.Popen[str]] = queue.Queue()
        self.processes = [
            subprocess.Popen(
                [sys.executable, script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
            for _ in range(count)
        ]
        for process in self.processes:
            self.idle.put(process)
        atexit.register(self.stop)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()

    def compile(self, job: dict[str, Any]) -> str | None:
        """Compiles in a free worker; returns the error, if there was one."""
        process = self.idle.get()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            return json.loads(line)["error"] if line else "the worker process ended"
        except OSError as error:
            return str(error)
        finally:
            self.idle.put(process)


@lru_cache(1)
def workers() -> Workers:
    """The processes, started by the first call."""
    if cache_dir_is_chosen():
        triton.knobs.cache.dir = str(cache_folder("triton"))
    return Workers(max(1, min(MOST_WORKERS, (os.cpu_count() or 2) - 1)))


def as_message(job: Job, device: int) -> dict[str, Any]:
    """A job as the line that a worker reads; writes the module's file."""
    key = content_key(job.text)
    path = cache_folder("triton_text") / f"kernel_{key[:32]}.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        fresh.write_text(job.text)
        fresh.replace(path)
    major, minor = torch.cuda.get_device_capability(device)
    checks = {"debug": True, "sanitize_overflow": False} if job.asserts else {}
    return {
        "module": path.stem,
        "path": str(path),
        "arguments": list(job.arguments),
        "signature": dict(zip(job.arguments, job.signature, strict=True)),
        "constants": dict(job.constants),
        "aligned": list(job.aligned),
        "target": ["cuda", major * 10 + minor, 32],
        "options": {"num_warps": job.warps, "num_stages": job.stages} | checks,
    }


_loaded: dict[tuple[Job, int], Kernel] = {}


class KernelLoader:
    """Kernels being compiled, all in parallel, while the caller continues."""

    def __init__(self, jobs: Iterable[Job], device: int) -> None:
        self.jobs, self.device = list(dict.fromkeys(jobs)), device
        self.errors: dict[Job, str | None] = {}
        self.threads: dict[Job, threading.Thread] = {}
        fresh = [job for job in self.jobs if (job, device) not in _loaded]
        if len(fresh) > 1:
            pool, messages = workers(), {job: as_message(job, device) for job in fresh}
            for job in fresh:
                self.threads[job] = threading.Thread(
                    target=self.compile, args=(pool, job, messages[job])
                )
                self.threads[job].start()

    def compile(self, pool: Workers, job: Job, message: dict[str, Any]) -> None:
        self.errors[job] = pool.compile(message)

    def finish(self) -> dict[Job, Kernel | str]:
        """The kernels; an error in place of one that failed."""
        found: dict[Job, Kernel | str] = {}
        for job in self.jobs:
            if job in self.threads:
                self.threads[job].join()
            try:
                found[job] = (
                    self.errors.get(job)
                    or _loaded.get((job, self.device))
                    or _load(job, self.device)
                )
            # a Triton error: the kernel does not compile, or needs more of the device than there is
            except Exception as error:
                found[job] = f"{type(error).__name__}: {error}"
        return found

    def kernels(self) -> dict[Job, Kernel]:
        """The kernels. Raises RuntimeError with what Triton said."""
        found: dict[Job, Kernel] = {}
        for job, made in self.finish().items():
            if isinstance(made, str):
                raise RuntimeError(f"Triton failed to compile a kernel: {made}\n{job.text}")
            found[job] = made
        return found


def _load(job: Job, device: int) -> Kernel:
    compiled = triton_worker.compile_kernel(as_message(job, device))
    compiled._init_handles()
    aligned = sum(1 << position for position in job.aligned)
    threads, shared = compiled.metadata.num_warps * 32, compiled.metadata.shared
    kernel = Kernel(
        compiled.function, threads, shared, aligned, partial(compile_unaligned, job, device)
    )
    _loaded[job, device] = kernel
    return kernel


def compile_unaligned(job: Job, device: int) -> Kernel:
    """The kernel for any addresses, compiled when such addresses occur."""
    unaligned = replace(job, aligned=())
    return KernelLoader([unaligned], device).kernels()[unaligned]
