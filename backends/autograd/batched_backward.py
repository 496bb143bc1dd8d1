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

from ..graph.copies import Copies, with_code
from ..graph.graph_rows import GraphRows


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


class BackwardGraph:
    """A compiled backward graph, which runs operator by operator where gradients are batched.
    uncompiled: the graph, or its function."""

    def __init__(
        self,
        compiled: Callable[..., Any],
        uncompiled: Copies | GraphRows | torch.fx.GraphModule | Callable[..., Any],
    ) -> None:
        self.compiled, self._uncompiled = compiled, uncompiled
        self._boxed_call = getattr(compiled, "_boxed_call", False)

    def __call__(self, *args: Any) -> Any:
        given: Any = args[0] if self._boxed_call else args
        if not any_batched(given):
            return self.compiled(*args)
        inputs = list(given)
        if self._boxed_call:
            given.clear()
        return self.by_operators()(*inputs)

    def by_operators(self) -> Callable[..., Any]:
        """The function of the uncompiled graph."""
        if isinstance(self._uncompiled, Copies | GraphRows):
            self._uncompiled = self._uncompiled.module()
        if isinstance(self._uncompiled, torch.fx.GraphModule):
            self._uncompiled = with_code(self._uncompiled).forward
        return self._uncompiled

    def __reduce__(self) -> Any:
        graph = self._uncompiled
        if isinstance(graph, Copies):
            return BackwardGraph, (self.compiled, GraphRows.of(graph))
        return BackwardGraph, (
            self.compiled,
            graph if isinstance(graph, GraphRows) else self.by_operators(),
        )


def with_batches(compile_part: Callable[[Any], Callable[..., Any]], part: Any) -> BackwardGraph:
    """Compiles a backward graph."""
    graph: torch.fx.GraphModule | Copies = part.graph
    if not isinstance(graph, Copies):  # the compiler may change its nodes
        graph = torch.fx.GraphModule(graph, copy_graph(graph.graph))
    return BackwardGraph(compile_part(part), graph)


def copy_graph(graph: torch.fx.Graph) -> torch.fx.Graph:
    made = torch.fx.Graph()
    made.output(made.graph_copy(graph, {}))
    return made
