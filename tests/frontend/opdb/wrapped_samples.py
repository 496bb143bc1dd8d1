"""Samples of the operator database whose tensors are wrapper subclasses: one that does nothing, and
DTensors of a single process."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map_only


class Wrapper(torch.Tensor):
    """A tensor around another, whose operators are those of the other."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )
        made.inner = inner
        return made

    def __repr__(self) -> str:
        return f"Wrapper({self.inner})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, metadata: Any, size: Any, stride: Any) -> Wrapper:
        return cls(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner_args, inner_kwargs = tree_map_only(cls, lambda item: item.inner, (args, kwargs or {}))
        result = tree_map_only(torch.Tensor, cls, func(*inner_args, **inner_kwargs))
        return return_and_correct_aliasing(func, args, kwargs or {}, result)


def mesh() -> DeviceMesh:
    """A mesh of this process alone."""
    if not dist.is_initialized():
        store = f"file://{tempfile.mkdtemp()}/store"
        dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    return mesh_of(dist.group.WORLD)


@functools.lru_cache(1)
def mesh_of(group: dist.ProcessGroup) -> DeviceMesh:
    """The mesh of a group, while there is no other."""
    return init_device_mesh("cpu", (1,))


def wrapped(tensor: torch.Tensor) -> Wrapper:
    return Wrapper(tensor.detach())


def replicated(tensor: torch.Tensor) -> DTensor:
    return DTensor.from_local(tensor.detach(), mesh(), [Replicate()])


def sharded(tensor: torch.Tensor) -> DTensor:
    """By the first dimension, where the tensor has one."""
    placement = Shard(0) if tensor.dim() else Replicate()
    return DTensor.from_local(tensor.detach(), mesh(), [placement])


# by the word of a setting
WRAPPERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "wrapped": wrapped,
    "replicated": replicated,
    "sharded": sharded,
}


def wrap(tensor: torch.Tensor, how: str) -> torch.Tensor:
    """A strided tensor, wrapped; a leaf where the tensor is one."""
    if tensor.layout is not torch.strided:
        return tensor
    return WRAPPERS[how](tensor).detach().requires_grad_(tensor.requires_grad)


def unwrap(tensor: Any) -> Any:
    """What a wrapper wraps; others as they are."""
    if isinstance(tensor, Wrapper):
        return tensor.inner
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def wrap_like(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """A tensor wrapped as another one is."""
    if isinstance(other, Wrapper):
        return Wrapper(tensor)
    if isinstance(other, DTensor):
        return distribute_tensor(tensor, other.device_mesh, other.placements)
    return tensor


def placements(tensor: torch.Tensor) -> Any:
    return getattr(tensor, "placements", None)
