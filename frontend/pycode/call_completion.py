"""What an instruction does with the result of the function that it called; after a break inside
that function this is still to be done.

In: the items that the instruction has kept on the stack for it, and what the function returned.
Out: what the instruction leaves.
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
    """`function` takes one tuple: the `takes` items kept, then the result, and says how it ends
    (None: the result is what is left, as it is). It is a call of something in C, so that what it
    raises comes from the instruction. `leaves`: whether anything is left. `refuses`: a result that
    only `function` knows what to do with."""

    function: Callable[[tuple[Any, ...]], Ending] | None = None
    takes: int = 0
    leaves: bool = True
    refuses: Callable[[Any], bool] = lambda result: False


def return_constant(value: Any) -> Ending:
    return ((value,),), FIRST


FIRST = operator.itemgetter(0)


def finish_initialization(items: tuple[Any, Any]) -> Ending:
    """cls(...), when __init__ has returned."""
    made, result = items
    if result is None:
        return return_constant(made)
    # refused by type.__call__
    return ((result,),), type(type(made).__name__, (), {"__init__": FIRST})


AS_IS = CallCompletion()
DROPPED = CallCompletion(leaves=False)
INITIALISED = CallCompletion(finish_initialization, 1, refuses=lambda result: result is not None)
