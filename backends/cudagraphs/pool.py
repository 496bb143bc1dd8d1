"""The memory that recorded graphs share: a pool for each device and stream, and how much of it may
be used.

Graphs of one pool run one after the other on one stream, and nothing in the pool is needed between
two replays but what each recording holds on to, so all share one. A pool lives as long as a
recording in it.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

SHARE = 0.25  # of a device's memory may lie in pools


class Pool:
    """`handle` is what torch knows it by, `bytes` what recordings took when they were made. torch
    forgets a handle when the last graph in it goes, so one that does nothing stays in it."""

    def __init__(self, device: int, stream: torch.cuda.Stream) -> None:
        self.handle = torch.cuda.graph_pool_handle()
        self.stream = stream
        self.bytes = 0
        self.keeper = trivial(device, stream, self.handle)


def trivial(device: int, stream: torch.cuda.Stream, handle: Any) -> torch.cuda.CUDAGraph:
    """A recording of next to nothing."""
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
    """The pool of what is replayed on a stream, given as its raw handle."""
    side = side_stream(device, stream)
    with _lock:
        pool = _pools.get((device, stream))
        if pool is None:
            pool = _pools[device, stream] = Pool(device, side)
        return pool


def side_stream(device: int, stream: int) -> torch.cuda.Stream:
    """The stream on which is recorded what will be replayed on another."""
    with _lock:
        side = _streams.get((device, stream))
        if side is None:
            side = _streams[device, stream] = torch.cuda.Stream(device)
        return side


def retire(device: int, stream: int) -> None:
    """After a recording failed halfway its pool is used no more: later ones get a new one."""
    with _lock:
        _pools.pop((device, stream), None)


def full(device: int, stream: int) -> bool:
    pool = _pools.get((device, stream))
    return (
        pool is not None
        and pool.bytes > SHARE * torch.cuda.get_device_properties(device).total_memory
    )
