"""The forward and backward graphs of a captured graph, created once for all backends that are tried
on it, and for all graphs of its structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from ..graph.fake_values import fake_of
from ..graph.graph_structure import shared_results
from ..graph.passes.captured_nodes import NeedsWholeTrace
from ..graph.wrappers import has_wrappers
from .joint_graph import JointGraph
from .partitioner import Partition, partition
from .traced_operators import Differentiables

Decompositions = Mapping[Any, Callable[..., Any]]


def partition_once(gm: torch.fx.GraphModule, decompositions: Decompositions) -> Partition | None:
    """The forward and backward graphs of a captured graph; None where it cannot be assembled
    operator by operator."""
    shared = shared_results(gm)
    key = frozenset(decompositions)
    if key not in shared:
        shared[key] = trace_and_partition(gm, decompositions)
    partition_: Partition | None = shared[key]
    return partition_


def trace_and_partition(
    gm: torch.fx.GraphModule, decompositions: Decompositions
) -> Partition | None:
    fakes = (fake_of(node) for node in gm.graph.nodes)
    mode = next((fake.fake_mode for fake in fakes if isinstance(fake, FakeTensor)), None)
    # a graph that begins in no_grad is called only in no_grad
    if mode is None or not torch.is_grad_enabled() or has_wrappers(gm):
        return None
    try:
        return partition(JointGraph(gm.graph, Differentiables(gm, mode, decompositions)))
    except NeedsWholeTrace:
        return None
