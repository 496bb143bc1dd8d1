"""Results that autograd keeps from being written because a higher-order operator, such as map,
returned them as views. Compiled functions return others, so their results are marked afterwards.

In: the results of a captured graph. Out: what marks them after the graph has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._C._autograd import CreationMeta, _get_creation_meta, _set_creation_meta

from ...factory_call import record_factory
from ...records import record
from .gradient_history import is_one_of_several_views, is_view_of_a_function
from .views_without_writes import is_only_a_view

Marks = tuple[tuple[int, bool], ...]  # a result's position, and whether it is one of several views


@record
class ProtectedResults:
    marks: Marks

    def wrap(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs the graph and marks its results."""
        return then_protect(run, self.marks) if self.marks else run


def find_protected_results(outputs: Sequence[torch.fx.Node]) -> ProtectedResults:
    """The results that have to be marked."""
    return ProtectedResults(
        tuple(
            (position, is_one_of_several_views(node))
            for position, node in enumerate(outputs)
            if node.op != "placeholder"
            and (is_view_of_a_function(node) or is_one_of_several_views(node))
            and not is_only_a_view(node)
        )
    )


def then_protect(run: Callable[..., Any], marks: Marks) -> Callable[..., Any]:
    """A function that runs a graph and marks results."""

    def call(*args: Any) -> Any:
        results = list(run(*args))
        for position, one_of_several in marks:
            if results[position].requires_grad:
                results[position] = protect(results[position], one_of_several)
        return tuple(results)

    return record_factory(call, then_protect, run, marks)


def protect(result: torch.Tensor, one_of_several: bool) -> torch.Tensor:
    """A view of a result that autograd lets nobody write; the result itself if it is one."""
    mark = CreationMeta.MULTI_OUTPUT_NODE if one_of_several else CreationMeta.IN_CUSTOM_FUNCTION
    if not result._is_view():
        with torch.enable_grad():
            result = result.view_as(result)
    if _get_creation_meta(result) == CreationMeta.DEFAULT:
        _set_creation_meta(result, mark)
    return result
