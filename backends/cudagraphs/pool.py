"""The memory pools of recorded graphs, and how much they may use.

Graphs of one pool run one after the other on one stream. While one runs, it overwrites whatever was
free in the pool when it was recorded. So they share a pool of the device and stream as long as
nothing in it is needed between two replays: inputs are copied in before, and results are copied out
at once. What a forward graph saves for its backward graph, or passes to another subgraph, is needed
longer, and another graph, recorded earlier, may run meanwhile: such a forward graph has a pool of
its own, together with its backward graph.

A pool lives as long as a recording in it.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

SHARE = 0.25  # the fraction of a device's memory that pools may use


class Pool:
    """Memory for graphs that are replayed on a stream, given as its raw handle. `handle` is torch's
    name of the pool; `bytes`: what its recordings took; `shared`: whether unrelated graphs may use
    it; `lock`: held while one of them is replayed and its inputs and results are copied. torch
    drops a pool when its last graph is gone, so an empty graph stays in it."""

    def __init__(self, device: int, stream: int, *, shared: bool) -> None:
        self.place, self.shared = (device, stream), shared
        self.handle = torch.cuda.graph_pool_handle()
        self.stream = side_stream(device, stream)
        self.bytes = 0
        self.lock = threading.RLock()
        self.usable = True  # until a recording in it fails halfway
        self.keeper = trivial_recording(device, self.stream, self.handle)
        with _lock:
            _pools.add(self)


def trivial_recording(device: int, stream: torch.cuda.Stream, handle: Any) -> torch.cuda.CUDAGraph:
    """A recording of almost nothing."""
    with torch.cuda.device(device), torch.cuda.stream(stream):
        spare, graph = torch.zeros(1, device=f"cuda:{device}"), torch.cuda.CUDAGraph()
        graph.capture_begin(pool=handle, capture_error_mode="thread_local")
        spare.add_(1)
        graph.capture_end()
    return graph


def without_ownership(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor at the same memory that does not keep it allocated. Its pool keeps it mapped."""
    if tensor.is_conj() or tensor.is_neg():
        return tensor
    storage = tensor.untyped_storage()
    memory = torch._C._construct_storage_from_data_pointer(
        storage.data_ptr(), storage.device, storage.nbytes()
    )
    made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    with torch.no_grad():
        return made.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_streams: dict[tuple[int, int], torch.cuda.Stream] = {}
_lock = threading.RLock()  # a collection inside may run a finalizer that replays


def shared_pool(device: int, stream: int) -> Pool:
    """The pool of unrelated graphs that are replayed on a stream."""
    with _lock:
        found = (
            one for one in _pools if one.shared and one.usable and one.place == (device, stream)
        )
        return next(found, None) or Pool(device, stream, shared=True)


def side_stream(device: int, stream: int) -> torch.cuda.Stream:
    """The stream on which graphs are recorded that will be replayed on another."""
    with _lock:
        side = _streams.get((device, stream))
        if side is None:
            side = _streams[device, stream] = torch.cuda.Stream(device)
        return side


def is_full(device: int) -> bool:
    """Whether a device's pools use all that they may."""
    with _lock:
        taken = sum(one.bytes for one in _pools if one.place[0] == device)
    return taken > SHARE * torch.cuda.get_device_properties(device).total_memory


def recorded_bytes() -> int:
    """What the recordings of all pools took."""
    with _lock:
        return sum(one.bytes for one in _pools)
