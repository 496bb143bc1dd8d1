"""The lock under which torch traces. Only one thread may do so at a time, as torch.fx keeps its
patches of Python, and what is being traced, in global variables."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch.fx
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.proxy_tensor import make_fx

from ...garbage_collection import permanent_objects
from .operator_recorder import CannotRecord, record_operators
from .whole_upsampling import whole_upsampling

DESCRIBE = "_extract_tensor_metadata"
# a garbage collection inside may run a finalizer that compiles
tracing_lock: Any = threading.RLock()
# a forked process has none of the threads that may hold it (autotune/isolation.py)
os.register_at_fork(after_in_child=tracing_lock._at_fork_reinit)


def trace_operators(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    decompositions: Mapping[Any, Callable[..., Any]],
    *,
    sizes: bool = False,
) -> torch.fx.GraphModule:
    """The operators that function(*inputs) calls, decomposed, as a graph. sizes: in the graph,
    sizes that vary need not be computed from its inputs."""
    with tracing_lock, whole_upsampling():
        try:
            return record_operators(function, inputs, decompositions, sizes=sizes)
        except CannotRecord:
            load_for_tracing()
            with without_memory_formats():
                return make_fx(function, decomposition_table=dict(decompositions))(*inputs)


@cache
def load_for_tracing() -> None:
    """Imports the modules that torch imports when tracing begins."""
    with permanent_objects():
        importlib.import_module("torch._dynamo")


@contextmanager
def without_memory_formats() -> Iterator[None]:
    """Lets make_fx leave memory formats out of the metadata of nodes: to find these, torch asks
    whether sizes that vary are one, which takes long and adds guards."""
    describe = getattr(proxy_tensor, DESCRIBE, None)
    if describe is None:  # another version of torch
        yield
        return
    setattr(proxy_tensor, DESCRIBE, partial(describe, include_contiguity=False))
    try:
        yield
    finally:
        setattr(proxy_tensor, DESCRIBE, describe)
