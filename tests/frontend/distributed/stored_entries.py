"""What the ranks run to see which entries on disk they use."""

from __future__ import annotations

from pathlib import Path

import framejit
import torch
import torch.distributed as dist
from framejit.events import Captured, Stored
from framejit.frontend.runtime.stored.entry_writer import entry_writer
from torch import nn
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

GROUPS = {}  # a group, its name, and a mesh


def in_place(x):
    y = x * 2
    dist.all_reduce(y, group=GROUPS["group"])
    return y.sin() + dist.get_rank()


def functional(x):
    return all_reduce(x + 1, "sum", GROUPS["group"]).cos()


def over_a_mesh(x):
    return all_reduce(x + 1, "sum", GROUPS["mesh"]).cos()


def by_name(x):
    return all_reduce(x + 1, "sum", GROUPS["name"]).cos()


def sharded(x):
    d = DTensor.from_local(x, GROUPS["mesh"], [Shard(0)])
    return (d.sin() * 2).redistribute(placements=[Replicate()]).to_local()[: len(x)]


def parallel_model():
    """A model that is divided over the mesh."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(model, GROUPS["mesh"], plan)


def make_groups(rank, together):
    made = [dist.new_group(ranks) for ranks in ([[0, 1]] if together else [[0], [1]])]
    GROUPS["group"] = made[0 if together else rank]
    GROUPS["name"] = GROUPS["group"].group_name
    mesh = init_device_mesh("cpu", (1, 2) if together else (2, 1), mesh_dim_names=("a", "b"))
    GROUPS["mesh"] = mesh["b"]


def run(rank, together, backend):
    """Whether the results of each function are eager's, and how many entries were captured, and
    taken from disk. together: whether both ranks are in one group."""
    make_groups(rank, together)
    found = {}
    for function in (in_place, functional, over_a_mesh, by_name, sharded):
        found[function.__name__] = outcome(rank, function, function, backend)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            made = outcome(rank, parallel_model(), parallel_model(), backend)
            found[f"parallel, {grad=}"] = made
    return found


def equal_gradients(made, wanted, function, eager):
    """Whether all parameters get the same gradients, distributed alike."""
    made.square().sum().backward()
    wanted.square().sum().backward()
    pairs = zip(function.parameters(), eager.parameters(), strict=True)
    return all(
        torch.equal(one.grad.to_local(), two.grad.to_local())
        and one.grad.placements == two.grad.placements
        for one, two in pairs
    )


def outcome(rank, function, eager, backend):
    seen = []
    framejit.config.sinks = (seen.append,)
    handle = framejit.compile(function, backend=backend, options={"store": True})
    x = torch.arange(4.0) + rank
    made, wanted = handle(x), eager(x)
    equal = torch.allclose(made, wanted)
    if made.requires_grad:
        equal = equal and equal_gradients(made, wanted, function, eager)
    entry_writer.write(Path("last"), lambda: None)
    entry_writer.wait_for(Path("last"))  # the process may be killed now
    return [
        equal,
        sum(isinstance(event, Captured) and not event.from_disk for event in seen),
        sum(isinstance(event, Stored) and event.taken for event in seen),
    ]
