"""Process groups and meshes as text, for graphs with collectives: equal in two processes if the
same names reach the same ranks."""

from __future__ import annotations

import sys
from typing import Any

import torch.distributed as dist

MESHES = "torch.distributed.device_mesh"


def text_of_distributed(obj: Any) -> str | None:
    """The text of a process group or a mesh; None for other objects. Raises ValueError where a
    group is closed."""
    if not dist.is_available():
        return None
    if isinstance(obj, dist.ProcessGroup):
        return text_of_group(obj)
    if MESHES in sys.modules and isinstance(obj, sys.modules[MESHES].DeviceMesh):
        return text_of_mesh(obj)
    return None


def text_of_group(group: Any) -> str:
    ranks = dist.get_process_group_ranks(group)
    return f"{group.group_name} of ranks {ranks}, rank {group.rank()}, {dist.get_backend(group)}"


def text_of_mesh(mesh: Any) -> str:
    groups = [*map(text_of_group, mesh.get_all_groups())]
    return f"{mesh.device_type} {mesh.mesh.tolist()} {mesh.mesh_dim_names} {groups}"


def own_rank() -> str:
    """The rank of this process in the default group, "" without one: each rank has files of its
    own."""
    return str(dist.get_rank()) if dist.is_available() and dist.is_initialized() else ""
