"""Version counters of inputs that a graph writes only through `.data`, or as running statistics of
batch norms.

Such a write does not count in eager (`.data` has a counter of its own, and a batch norm's kernel
writes its statistics uncounted), so a backward pass that saved the input before still runs. A
compiled graph writes the input itself, which counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ...factory_call import record_factory
from .hidden_writes import data_nodes
from .memory import memory_of, plain_memory_at
from .mutations import is_norm, may_write, written_nodes
from .node_targets import name_of


def keep_version_counters(
    run: Callable[..., Any], nodes: Sequence[torch.fx.Node], inputs: Sequence[torch.fx.Node]
) -> Callable[..., Any]:
    """The compiled form of a graph, with version counters as eager leaves them. nodes: those of the
    captured graph. inputs: the nodes of the arguments that `run` takes."""
    mutated = [position for position, node in enumerate(inputs) if node.meta.get("mutated")]
    made, counted = data_nodes(nodes), set[Any]()
    silent = made or any(map(is_batch_norm, nodes))
    if not mutated or not silent:
        return run
    for node in nodes:
        if node.op.startswith("call_") and may_write(node) and not is_batch_norm(node):
            counted |= {plain_memory_at(it) for it in written_nodes(node) if it not in made}
    uncounted = tuple(at for at in mutated if plain_memory_at(inputs[at]) not in counted)
    if not uncounted:
        return run
    return restoring_counters(run, uncounted, tuple(at for at in mutated if at not in uncounted))


def is_batch_norm(node: torch.fx.Node) -> bool:
    return is_norm(node) and "batch_norm" in name_of(node)


def restoring_counters(
    run: Callable[..., Any], uncounted: tuple[int, ...], counted: tuple[int, ...]
) -> Callable[..., Any]:
    """A function that runs a graph, then sets the counters of the arguments at `uncounted` back,
    except where views of the same memory at `counted` were written, which share the counter."""

    # the arguments of the last call, which are usually the same buffers, and whose counters to set
    # back
    known: tuple[tuple[int, ...], list[int]] = (), []

    def call(*args: Any) -> Any:
        nonlocal known
        ids, positions = known
        now = tuple([id(args[at]) for at in (*uncounted, *counted)])
        if now != ids:
            positions = with_own_counters(args, uncounted, counted)
            known = now, positions
        kept = [args[at] for at in positions]
        before = [tensor._version for tensor in kept]
        results = run(*args)
        torch._C._autograd._unsafe_set_version_counter(tuple(kept), tuple(before))
        return results

    return record_factory(call, restoring_counters, run, uncounted, counted)


def with_own_counters(
    args: tuple[Any, ...], uncounted: tuple[int, ...], counted: tuple[int, ...]
) -> list[int]:
    """Those of the arguments at `uncounted` that have a counter, and share it with none at
    `counted`."""
    shared = {storage_of(args[at]) for at in counted}
    return [
        at for at in uncounted if not args[at].is_inference() and storage_of(args[at]) not in shared
    ]


def storage_of(tensor: torch.Tensor) -> int:
    return memory_of(tensor) if tensor.layout is torch.strided else id(tensor)
