"""Example inputs for a backend that may run a graph while compiling it: inputs that the graph
writes are copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from ..registry import GRAPHED, SHIPPED, Backend
from .memory_copies import copy_tensors, is_laid_out


def private_examples(
    backend: Backend, gm: torch.fx.GraphModule, examples: Sequence[Any]
) -> list[Any]:
    """The example inputs; those that the graph writes are copies. (framejit's own backends do not
    run graphs on them.)"""
    written = {
        index
        for index, node in enumerate(gm.graph.find_nodes(op="placeholder"))
        if node.meta.get("mutated")
    }
    wanted = {
        index
        for index in written
        if not isinstance(examples[index], FakeTensor) and is_laid_out(examples[index])
    }
    if not wanted or backend.name.removesuffix(GRAPHED) in SHIPPED:
        return list(examples)
    chosen = sorted(wanted)
    copies = dict(
        zip(
            chosen,
            copy_tensors([examples[index] for index in chosen], set(range(len(chosen)))),
            strict=True,
        )
    )
    return [copies.get(index, item) for index, item in enumerate(examples)]
