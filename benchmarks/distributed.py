"""Training on several processes of one machine, one a GPU (NCCL) or a few on the CPU (gloo): steps of AdamW on language models whose
gradients, parameters or layers are divided among the processes in the ways that torch has.

Each system trains a model of its own, from the same parameters on the same batches, in fresh processes.
"""
from __future__ import annotations

import datetime
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from . import systems
from .language_models import LanguageModel, Size

SIZES = {
    "small": {"gpt2": Size(2, 4, 64, 256, 211, 32, 4), "llama": Size(2, 4, 64, 176, 211, 32, 4)},
    "full": {"gpt2": Size(12, 12, 768, 3072, 50257, 512, 16), "llama": Size(12, 16, 1024, 2816, 32000, 1024, 8)},
}
STEADY = 20  # last steps, whose median counts
TIMEOUT_S = 240  # of a collective: longer than one process compiles while the others wait
COLUMNS = ("query", "key", "value", "up", "gate")  # layers whose outputs are divided


@dataclass
class Training:
    """What one system did with one model. losses: of the first process, one a step."""

    losses: list[float]
    first_s: float  # of the first step, with compiling
    step_ms: float  # median of the last steps
    peak_mib: float  # of GPU memory, 0 on the CPU


def data_parallel(model: LanguageModel, mesh: DeviceMesh) -> nn.Module:
    device = [torch.cuda.current_device()] if mesh.device_type == "cuda" else None
    return DistributedDataParallel(model, device_ids=device)


def shard(model: LanguageModel, mesh: DeviceMesh) -> LanguageModel:
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def tensor_parallel(model: LanguageModel, mesh: DeviceMesh) -> LanguageModel:
    plan: dict[str, ParallelStyle] = {
        name: ColwiseParallel() if name.rpartition(".")[2] in COLUMNS else RowwiseParallel()
        for name, module in model.blocks[0].named_modules()
        if isinstance(module, nn.Linear)
    }
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model


def both(model: LanguageModel, mesh: DeviceMesh) -> nn.Module:
    return shard(tensor_parallel(model, mesh["layers"]), mesh["batch"])


# how a model is divided, and the names of the mesh's dimensions; batches differ along the first one only
LAYOUTS: dict[str, tuple[Callable[[LanguageModel, DeviceMesh], nn.Module], tuple[str, ...]]] = {
    "ddp": (data_parallel, ("batch",)),
    "fsdp": (shard, ("batch",)),
    "tp": (tensor_parallel, ("layers",)),
    "fsdp+tp": (both, ("batch", "layers")),
}


def cases(processes: int) -> list[str]:
    """Names of models and layouts that a number of processes allows."""
    layouts = [name for name, (_, dims) in LAYOUTS.items() if processes % 2 ** len(dims) == 0]
    return [f"{model}, {layout}" for model in SIZES["full"] for layout in layouts]


def measure_case(
    name: str, chosen: tuple[str, ...], processes: int, device: str, dtype: str, size: str, steps: int, limit: float
) -> dict[str, Training | str]:
    """By system: its training, or what went wrong. limit: seconds for a system."""
    return {
        system: train_in_processes(processes, limit, (name, system, processes, device, dtype, size, steps)) for system in chosen
    }


def train_in_processes(processes: int, limit: float, task: tuple[Any, ...]) -> Training | str:
    """Starts a process for each rank, and returns what the first one found, or the first error of any."""
    context = multiprocessing.get_context("spawn")
    store = f"{tempfile.mkdtemp()}/store"
    pipes = [context.Pipe(duplex=False) for _ in range(processes)]
    ranks = [
        context.Process(target=run_rank, args=(rank, store, pipe, *task), daemon=True) for rank, (_, pipe) in enumerate(pipes)
    ]
    for rank in ranks:
        rank.start()
    ends = [end for end, _ in pipes]
    answers: dict[int, Training | str] = {}
    deadline = time.monotonic() + limit
    while len(answers) < processes:
        ready = wait([*(end for place, end in enumerate(ends) if place not in answers), *(rank.sentinel for rank in ranks)],
                     max(0.0, deadline - time.monotonic()))  # fmt: skip
        for place, end in enumerate(ends):
            if place not in answers and end.poll():
                answers[place] = end.recv()
        silent = [place for place, rank in enumerate(ranks) if place not in answers and not rank.is_alive() and not ends[place].poll()]
        answers |= {place: f"rank {place} died with {ranks[place].exitcode}" for place in silent}
        if not ready or any(isinstance(answer, str) for answer in answers.values()):
            break
    for rank in ranks:
        rank.kill() if len(answers) < processes else rank.join()
    failures = [answer for answer in answers.values() if isinstance(answer, str)]
    if failures or len(answers) < processes:
        return failures[0] if failures else f"not done in {limit:.0f} s"
    return answers[0]


def run_rank(rank: int, store: str, pipe: Connection, *task: Any) -> None:
    """One process: sends its training, or what it raised."""
    try:
        pipe.send(train(rank, store, *task))
    except Exception as problem:
        pipe.send(f"rank {rank}: {type(problem).__name__}: {str(problem)[:300]}")
    os._exit(0)  # a process group whose other ranks have failed would wait


def train(rank: int, store: str, name: str, system: str, processes: int, device: str, dtype: str, size: str, steps: int) -> Training:
    model_name, layout = name.split(", ")
    divide, dims = LAYOUTS[layout]
    if device == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=TIMEOUT_S)
    dist.init_process_group(
        {"cuda": "nccl", "cpu": "gloo"}[device], init_method=f"file://{store}", rank=rank, world_size=processes, timeout=timeout
    )
    shape = (processes,) if len(dims) == 1 else (processes // 2, 2)
    mesh = init_device_mesh(device, shape, mesh_dim_names=dims)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    scale = SIZES[size][model_name]
    model = LanguageModel(scale, llama=model_name == "llama").to(device, getattr(torch, dtype))
    model, _ = systems.make(system, divide(model, mesh))
    optimizer = torch.optim.AdamW(groups_of_parameters(model), lr=1e-4, foreach=True)
    batches = torch.Generator().manual_seed(mesh["batch"].get_local_rank() if "batch" in dims else 0)
    losses, times = [], []
    for _ in range(steps):
        tokens = torch.randint(scale.vocabulary, (scale.batch, scale.length + 1), generator=batches).to(device)
        start = time.perf_counter()
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
        if len(times) == steps - STEADY and device == "cuda":
            torch.cuda.reset_peak_memory_stats()
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0.0
    return Training(losses, times[0], statistics.median(times[-STEADY:]) * 1e3, peak)


def groups_of_parameters(model: nn.Module) -> list[dict[str, Any]]:
    """Parameters in groups of one kind, since an operator of an optimizer takes no mixture of plain and distributed tensors."""
    groups: dict[Any, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return [{"params": group} for group in groups.values()]


def difference(found: Training, eager: Training) -> float:
    """The largest difference of a loss to eager's, relative to it."""
    pairs = zip(found.losses, eager.losses, strict=True)
    return max(abs(mine - wanted) / abs(wanted) if math.isfinite(mine) else math.inf for mine, wanted in pairs)
