"""The memory pools of recorded graphs, one for each device and stream, and how much they may use.

Graphs of one pool run one after the other on one stream, and need nothing in the pool between two
replays except what each recording holds, so they share it. A pool lives as long as a recording in
it.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

SHARE = 0.25  # the fraction of a device's memory that pools may use


class Pool:
    """`handle` is torch's name of the pool; `bytes`: what its recordings took. torch drops a pool
    when its last graph is gone, so an empty graph stays in it."""

    def __init__(self, device: int, stream: torch.cuda.Stream) -> None:
        self.handle = torch.cuda.graph_pool_handle()
        self.stream = stream
        self.bytes = 0
        self.keeper = trivial_recording(device, stream, self.handle)


def trivial_recording(device: int, stream: torch.cuda.Stream, handle: Any) -> torch.cuda.CUDAGraph:
    """A recording of almost nothing."""
    with torch.cuda.device(device), torch.cuda.stream(stream):
        spare, graph = torch.zeros(1, device=f"cuda:{device}"), torch.cuda.CUDAGraph()
        graph.capture_begin(pool=handle, capture_error_mode="thread_local")
        spare.add_(1)
        graph.capture_end()
    return graph


_pools: weakref.WeakValueDictionary[tuple[int, int], Pool] = weakref.WeakValueDictionary()
_streams: dict[tuple[int, int], torch.cuda.Stream] = {}
_lock = threading.RLock()  # a collection inside may run a finalizer that replays


def pool_of(device: int, stream: int) -> Pool:
    """The pool for graphs that are replayed on a stream, given as its raw handle."""
    side = side_stream(device, stream)
    with _lock:
        pool = _pools.get((device, stream))
        if pool is None:
            pool = _pools[device, stream] = Pool(device, side)
        return pool


def side_stream(device: int, stream: int) -> torch.cuda.Stream:
    """The stream on which graphs are recorded that will be replayed on another."""
    with _lock:
        side = _streams.get((device, stream))
        if side is None:
            side = _streams[device, stream] = torch.cuda.Stream(device)
        return side


def retire(device: int, stream: int) -> None:
    """Stops using a pool after a recording in it failed halfway; later ones get a new pool."""
    with _lock:
        _pools.pop((device, stream), None)


def is_full(device: int, stream: int) -> bool:
    pool = _pools.get((device, stream))
    return (
        pool is not None
        and pool.bytes > SHARE * torch.cuda.get_device_properties(device).total_memory
    )


def recorded_bytes() -> int:
    """What the recordings of all pools took."""
    with _lock:
        return sum(pool.bytes for pool in _pools.values())
