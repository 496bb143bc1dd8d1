"""Lowerings by operator. A lowering gets the Builder, which knows the node, and the arguments:
Views for tensors, Indexes for sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lowering = Callable[..., Any]

LOWERINGS: dict[Any, Lowering] = {}
SELDOM: set[Any] = set()  # operators whose lowerings refuse most arguments


class Unsupported(Exception):
    """The lowering does not support these arguments; the operator is called."""


def lowers(*operators: Any, seldom: bool = False) -> Callable[[Lowering], Lowering]:
    """Registers a lowering for operator overloads. Raises ValueError for one that has another
    already. seldom: it refuses most arguments."""

    def register(function: Lowering) -> Lowering:
        for operator in operators:
            if operator in LOWERINGS:
                raise ValueError(
                    f"{operator} is lowered twice: by {LOWERINGS[operator].__name__} and by "
                    f"{function.__name__}"
                )
            LOWERINGS[operator] = function
        if seldom:
            SELDOM.update(operators)
        return function

    return register
