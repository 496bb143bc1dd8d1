"""What the ranks run to see which entries on disk they use."""

from __future__ import annotations

import framejit
import torch
import torch.distributed as dist
from framejit.events import Captured, Stored
from torch.distributed._functional_collectives import all_reduce
from torch.distributed.device_mesh import init_device_mesh

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
    for function in (in_place, functional, over_a_mesh, by_name):
        seen = []
        framejit.config.sinks = (seen.append,)
        handle = framejit.compile(function, backend=backend, options={"store": True})
        x = torch.arange(4.0) + rank
        found[function.__name__] = [
            torch.allclose(handle(x), function(x)),
            sum(isinstance(event, Captured) and not event.from_disk for event in seen),
            sum(isinstance(event, Stored) and event.taken for event in seen),
        ]
    return found
