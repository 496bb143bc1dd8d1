"""The rest of an instruction whose inlined call contained a break: what the instruction does with
the result of that call.

In: the items that the instruction keeps on the stack meanwhile, and the function's result. Out:
what the instruction leaves on the stack.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# the call, its arguments first, that gives what the instruction leaves, or raises
Ending = tuple[tuple[Any, ...], Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class CallCompletion:
    """`function` takes one tuple, of the `takes` kept items and the result, and computes what the
    instruction leaves (None: the result itself). It is called by a function in C, so errors that it
    raises come from the instruction. `leaves`: whether anything is left. `refuses`: a result that
    only `function` can handle."""

    function: Callable[[tuple[Any, ...]], Ending] | None = None
    takes: int = 0
    leaves: bool = True
    refuses: Callable[[Any], bool] = lambda result: False


FIRST = operator.itemgetter(0)


def finish_initialization(items: tuple[Any, Any]) -> Ending:
    """The rest of cls(...), after __init__ has returned."""
    made, result = items
    if result is None:
        return ((made,),), FIRST
    # refused by type.__call__
    return ((result,),), type(type(made).__name__, (), {"__init__": FIRST})


AS_IS = CallCompletion()
DROPPED = CallCompletion(leaves=False)
INITIALISED = CallCompletion(finish_initialization, 1, refuses=lambda result: result is not None)
