"""Floats that vary, for operators that take C's doubles (backends/graph/float_arguments.py): their
fake results are made with the number of this call, and the graph keeps the symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from ....backends.graph.float_arguments import NAMES

Decide = Callable[[Any], bool]


def with_known_floats(name: str, args: Any, kwargs: Any, decide: Decide) -> tuple[Any, Any]:
    """The arguments of the operator of this name, with numbers in place of symbolic floats. Guards
    on which side of 0 and 1 they are: what such an operator refuses, or treats otherwise (no
    dropout, a negative deviation), begins there."""
    if name not in NAMES:
        return args, kwargs

    def number_now(value: torch.SymFloat) -> Any:
        hint = value.node.hint
        if hint is None:  # of a tensor's value
            return value
        for border in (0.0, 1.0):
            if not decide(value < border) and decide(value == border):
                return border
        return hint

    made: tuple[Any, Any] = pytree.tree_map_only(torch.SymFloat, number_now, (args, kwargs))
    return made
