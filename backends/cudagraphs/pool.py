"""The memory that recorded graphs share: a pool for each device and stream, and how much of it may be used.

Graphs of one pool run one after the other on one stream, and nothing in the pool is needed between two replays but what each
recording holds on to, so all share one.
"""
from __future__ import annotations

import threading
from dataclasses import dataclass

import torch

SHARE = 0.25  # of a device's memory may lie in pools


@dataclass
class Pool:
    """`handle` is what torch knows it by. `bytes`: what recordings took when they were made."""

    handle: tuple[int, int]
    stream: torch.cuda.Stream  # that recordings are made on
    bytes: int = 0


_pools: dict[tuple[int, int], Pool] = {}
_lock = threading.Lock()


def pool_of(device: int, stream: int) -> Pool:
    """The pool of what is replayed on a stream, given as its raw handle."""
    with _lock:
        pool = _pools.get((device, stream))
        if pool is None:
            pool = _pools[device, stream] = Pool(torch.cuda.graph_pool_handle(), torch.cuda.Stream(device))
        return pool


def retire(device: int, stream: int) -> None:
    """After a recording failed halfway its pool is used no more: later ones get a new one."""
    with _lock:
        _pools.pop((device, stream), None)


def full(pool: Pool, device: int) -> bool:
    return pool.bytes > SHARE * torch.cuda.get_device_properties(device).total_memory
