"""Versions of fake tensors that `_foreach_*` operators write. torch counts these writes for real
tensors, not for fake ones. A view whose version stays the same keeps its autograd history, so that
the write would seem to have given it no new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ....backends.graph.node_targets import target_name


@contextmanager
def counted_writes(target: Any, args: Sequence[Any]) -> Iterator[None]:
    """Counts, as for real tensors, the writes of a call to the tensors of its first list."""
    written = [
        one
        for one in written_list(target, args)
        if isinstance(one, torch.Tensor) and not one.is_inference()
    ]
    before = [one._version for one in written]
    yield
    if written and before == [one._version for one in written]:
        torch.autograd.graph.increment_version(written)


def written_list(target: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The tensors that an in-place `_foreach_*` operator writes; none for other calls."""
    name = target_name(target)
    in_place = name.startswith("_foreach_") and name.endswith("_") and bool(args)
    return args[0] if in_place and isinstance(args[0], list | tuple) else ()
