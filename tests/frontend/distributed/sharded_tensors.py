"""What the ranks run: programs on distributed tensors, compiled and in eager."""

from __future__ import annotations

import copy

import framejit
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

MESHES = []


def mesh():
    """One for all programs of a process."""
    if not MESHES:
        MESHES.append(init_device_mesh("cpu", (2,)))
    return MESHES[0]


def pointwise(d, w):
    return d.sin() * 2 + d.relu()


def total(d, w):
    return (d * d).sum()


def mean_of_rows(d, w):
    return d.mean(1) + d.amax(1)


def product(d, w):
    return F.linear(d, w).tanh()


def normalized(d, w):
    return F.layer_norm(d, (8,)).softmax(-1)


def over_the_divided_dimension(d, w):
    return d.softmax(0) + d.cumsum(0)


def views(d, w):
    return d.view(8, 2, 4).transpose(1, 2).reshape(8, 8) + d


def written(d, w):
    y = d * 2
    y.add_(1)
    y.mul_(d.detach())
    return y


def gathered(d, w):
    return d.redistribute(d.device_mesh, [Replicate()]).cos()


def divided_otherwise(d, w):
    return d.redistribute(placements=[Shard(1)]).cos() * 2


def whole(d, w):
    return d.full_tensor() @ w.full_tensor()


def local(d, w):
    return d.to_local().sin() + 1


def from_local(d, w):
    part = d.to_local() * 2
    return DTensor.from_local(part, d.device_mesh, [Shard(0)], run_check=False).exp()


def partial(d, w):
    part = DTensor.from_local(d.to_local(), d.device_mesh, [Partial()])
    return part.redistribute(placements=[Replicate()]).to_local() + 1


def asked(d, w):
    """Attributes decide what runs."""
    if d.placements == (Shard(0),) and not d.placements[0].is_replicate():
        d = d + d.placements[0].dim + d.device_mesh.size()
    return d * len(d.placements) * d.shape[0] + (1 if isinstance(d, DTensor) else 0)


def view_of_an_input(d, w):
    return d.view(2, 4, 8)


PROGRAMS = (
    view_of_an_input, pointwise, total, mean_of_rows, product, normalized, over_the_divided_dimension, views, written,
    gathered, divided_otherwise, whole, local, from_local, partial, asked,
)  # fmt: skip


def inputs(rank, placements):
    torch.manual_seed(0)
    d = distribute_tensor(torch.randn(8, 8), mesh(), placements).requires_grad_()
    w = distribute_tensor(torch.randn(8, 8), mesh(), [Replicate()]).requires_grad_()
    return d, w


def described(result):
    """A result and where it lies."""
    placed = str(result.placements) if isinstance(result, DTensor) else ""
    part = result.to_local() if placed else result
    return type(result).__name__, placed, tuple(result.shape), result.stride(), part


def outcome(function, rank, grad):
    d, w = inputs(rank, [Shard(0)])
    with torch.set_grad_enabled(grad):
        result = function(d, w)
    found = [*described(result)]
    found.append(found[-1].data_ptr() == d._local_tensor.data_ptr())
    if grad:
        end = result.full_tensor() if isinstance(result, DTensor) else result
        (end * torch.arange(end.numel()).view_as(end)).sum().backward()
        found += [part for one in (d, w) if one.grad is not None for part in described(one.grad)]
    return found


def compare_programs(rank, backend, grad):
    """By program: what differs from eager, and breaks."""
    found = {}
    for function in PROGRAMS:
        wanted = outcome(function, rank, grad)
        handle = framejit.compile(function, backend=backend)
        wrong = []
        for _ in range(2):
            got = outcome(handle, rank, grad)
            for one, other in zip(got, wanted, strict=True):
                if isinstance(one, torch.Tensor):
                    largest = one.abs().amax().item() if one.numel() else 0  # of what was summed
                    same = torch.allclose(one, other, atol=1e-5 * max(1, largest / 10))
                else:
                    same = one == other
                if not same:
                    wrong.append(f"{one} is not {other}")
        report = handle.framejit.explain()
        found[function.__name__] = wrong, len(report.breaks), len(report.captures)
    return found


def compiles_by_placement(rank):
    """Compiles after calls with other placements, and with the same ones again."""
    handle, counts = framejit.compile(pointwise, backend="eager"), []
    for placements in ([Shard(0)], [Shard(1)], [Replicate()], [Shard(0)], [Replicate()]):
        d, w = inputs(rank, placements)
        result = handle(d, w)
        assert result.placements == d.placements
        torch.testing.assert_close(result.to_local(), pointwise(d, w).to_local())
        counts.append(handle.framejit.compiles)
    return counts


def compiled_directions(rank):
    """Which graphs on the parts `native` compiles, of a program that gets gradients."""
    handle = framejit.compile(product, backend="native")
    outcome(handle, rank, True)
    text = str(handle.framejit.explain())
    return [way for way in ("forward", "backward") if f"compiled {way}" in text]


def exceptions(rank, backend):
    """What eager and the compiled function raise for a mixture of tensors."""

    def mixed(d, x):
        return d + x

    found = []
    for function in (mixed, framejit.compile(mixed, backend=backend)):
        try:
            function(inputs(rank, [Shard(0)])[0], torch.ones(8, 8))
        except Exception as error:
            found.append(type(error).__name__)
    return found


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


PLANS = {
    "tensor": lambda: {"up": ColwiseParallel(), "down": RowwiseParallel()},
    "sequence": lambda: {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    },
    "prepared": lambda: {
        "norm": SequenceParallel(use_local_output=True),
        "up": PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),), use_local_output=True
        ),
        "down": PrepareModuleOutput(
            output_layouts=(Replicate(),), desired_output_layouts=(Shard(1),)
        ),
    },
}


def train(rank, plan, backends, lengths):
    """The largest difference from eager after some steps, compiles and breaks. backends: one a
    rank, "" for a rank that compiles nothing."""
    backend = backends[rank]
    torch.manual_seed(0)
    first = Perceptron()
    results = []
    for compiled in (False, True):
        model = parallelize_module(copy.deepcopy(first), mesh(), PLANS[plan]())
        run = framejit.compile(model, backend=backend) if compiled and backend else model
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), []
        for step, length in enumerate(lengths):
            torch.manual_seed(step)
            loss = run(torch.randn(2, length, 8)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        parts = (getattr(one, "_local_tensor", one) for one in model.parameters())
        results.append([*losses, *(part.detach().clone() for part in parts)])
    difference = max((a - b).abs().max().item() for a, b in zip(*results, strict=True))
    if not backend:
        return difference, 1, 0
    return difference, run.framejit.compiles, len(run.framejit.explain().breaks)


def mixed_with_weight(d, w):
    return (torch.nn.functional.linear(d, w).relu() + d).redistribute(placements=[Replicate()])


def batches_of_sizes(rank, backend, sizes):
    """By placement: what differs from eager, and compiles. sizes: those of the batches."""
    found = []
    for placement in (Shard(0), Replicate()):
        handle, wrong = framejit.compile(mixed_with_weight, backend=backend), 0
        weights = [distribute_tensor(torch.ones(8, 8).tril(), mesh(), [Shard(1)]) for _ in range(2)]
        weights = [weight.requires_grad_() for weight in weights]
        for size in sizes:
            whole = torch.arange(size * 8.0).view(size, 8).cos()
            made = []
            for function, weight in zip((mixed_with_weight, handle), weights, strict=True):
                result = function(distribute_tensor(whole, mesh(), [placement]), weight)
                result.square().sum().backward()
                made.append([*described(result), *described(weight.grad)])
            for one, other in zip(*made, strict=True):
                wrong += not (
                    torch.allclose(one, other, 1e-4, 1e-4)
                    if isinstance(one, torch.Tensor)
                    else one == other
                )
        found.append((wrong, handle.framejit.compiles))
    return found
