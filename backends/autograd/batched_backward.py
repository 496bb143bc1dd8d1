"""Backward graphs under vmap.

`autograd.grad(..., is_grads_batched=True)` and `jacobian(vectorize=True)` pass gradients with a
hidden batch dimension. Compiled kernels cannot read these; torch's operators can, so the backward
graph then runs operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
import torch.fx

from ..graph.copies import Copies
from .partitioner import with_code


def is_batched(item: Any) -> bool:
    """Whether an argument is a tensor with a hidden batch dimension of autograd's vmap.
    (torch.func's vmap does not accept compiled functions.)"""
    return isinstance(item, torch.Tensor) and torch._C._functorch.is_legacy_batchedtensor(item)


def any_batched(items: Iterable[Any]) -> bool:
    """Whether one of the items is batched; False at once where this thread is not inside such a
    vmap."""
    return bool(torch._C._dispatch_tls_local_include_set().raw_repr() & inside_vmap()) and any(
        map(is_batched, items)
    )


@cache
def inside_vmap() -> int:
    """The bit of the dispatch key that a thread includes inside autograd's vmap."""
    outside = torch._C._dispatch_tls_local_include_set().raw_repr()
    torch._C._vmapmode_increment_nesting()
    try:
        return torch._C._dispatch_tls_local_include_set().raw_repr() & ~outside
    finally:
        torch._C._vmapmode_decrement_nesting()


inside_vmap()  # determined before any vmap runs


def with_batches(
    compile_part: Callable[[Any], Callable[..., Any]], part: Any
) -> Callable[..., Any]:
    """Compiles a backward graph, and runs it operator by operator where gradients are batched."""
    graph: torch.fx.GraphModule | Copies = part.graph
    if not isinstance(graph, Copies):  # the compiler may change its nodes
        graph = torch.fx.GraphModule(graph, copy_graph(graph.graph))
    compiled = compile_part(part)
    boxed = getattr(compiled, "_boxed_call", False)
    known: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        given: Any = args[0] if boxed else args
        if not any_batched(given):
            return compiled(*args)
        if not known:
            known.append(with_code(graph.module() if isinstance(graph, Copies) else graph))
        inputs = list(given)
        if boxed:
            given.clear()
        return known[0](*inputs)

    call._boxed_call = boxed  # type: ignore[attr-defined]
    return call


def copy_graph(graph: torch.fx.Graph) -> torch.fx.Graph:
    made = torch.fx.Graph()
    made.output(made.graph_copy(graph, {}))
    return made
