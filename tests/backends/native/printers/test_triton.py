"""Kernels as Triton, in processes of their own: its interpreter against the meaning of the loop IR,
its front end for CUDA for types and shapes (collected where it is installed)."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import framejit
import pytest
import torch
from framejit.backends.native import backend as native
from framejit.backends.native import gpu
from framejit.backends.native.ir.program import AnyKernel, with_buffers
from framejit.backends.native.ir.scalar_ops import SCALAR_OPS
from framejit.backends.native.printers.host import Namespace
from framejit.backends.native.printers.triton import scalars
from torch import nn


@pytest.mark.parametrize(
    ("script", "verdict"),
    [("interpreted.py", "kernels ran, 0 differ"), ("typed.py", "kernels passed, 0 refused")],
)
def test_every_kernel(script, verdict):
    path = Path(__file__).parents[1] / script
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(path)], capture_output=True, text=True, timeout=600
    )
    told = done.stdout[-4000:] + done.stderr[-4000:]
    assert done.returncode == 0 and done.stdout.splitlines()[-1].endswith(verdict), told
    assert int(done.stdout.splitlines()[-1].split()[0]) > 500


def test_every_operation_has_text():
    tables = (
        scalars.SYMBOLS,
        scalars.NATIVE,
        scalars.LIBDEVICE,
        scalars.OTHERS,
        scalars.FLOATS_AND_INTEGERS,
        {"bitnot"},
    )
    assert set(SCALAR_OPS) <= {name for table in tables for name in table}


@pytest.fixture
def program(monkeypatch):
    """That of some equal blocks, as if for a GPU."""
    found = []
    kept = native.reuse_memory
    monkeypatch.setattr(
        native, "reuse_memory", lambda program: (kept(program), found.append(program))
    )
    blocks = nn.Sequential(
        *(
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Softmax(-1))
            for _ in range(4)
        )
    )
    with torch.no_grad():
        framejit.compile(blocks, backend="native")(torch.ones(5, 8))
    (program,) = found
    for name, buffer in program.buffers.items():
        program.buffers[name] = replace(buffer, device=torch.device("cuda", 0))
    return program


def test_equal_kernels_are_printed_once_and_called_on_their_own_buffers(program, monkeypatch):
    printed, asked = [], []
    kept = gpu.print_step
    monkeypatch.setattr(gpu, "print_step", lambda *given: printed.append(given) or kept(*given))

    class KernelLoader:
        def __init__(self, jobs, device):
            asked.append(list(jobs))
            self.jobs = list(dict.fromkeys(asked[0]))

        def kernels(self):
            return {job: job.text for job in self.jobs}

    monkeypatch.setattr(gpu.load_triton, "KernelLoader", KernelLoader)
    kernels = {
        position: step for position, step in enumerate(program.steps) if isinstance(step, AnyKernel)
    }
    namespace = Namespace({})
    launches = gpu.launches(program, kernels, namespace, {})
    assert namespace.objects == {}
    launches.finish()
    assert (
        len(kernels)
        > len(printed)
        == len(set(launches.texts.values()))
        == len({id(job) for job in asked[0]})
        > 1
    )
    for position, kernel in kernels.items():
        alone = kept(with_buffers(kernel), program.buffers, None)
        call = launches.calls[position]
        assert (call.parameters, launches.texts[position]) == (
            alone.parameters,
            alone.annotated_text,
        )
        name, _, rest = call.call.partition("(")
        assert namespace.objects[name].endswith(alone.text)
        assert rest == f"{alone.programs}, stream, "
