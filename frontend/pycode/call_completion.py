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

Ending = tuple[
    tuple[Any, ...], Callable[..., Any]
]  # the call, its arguments first, that gives what the instruction leaves, or raises


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


def named_like(obj: Any) -> Any:
    """An object that can do nothing, of a class with the same name."""
    return type(type(obj).__name__, (), {})()


def finish_initialization(items: tuple[Any, Any]) -> Ending:
    """cls(...), when __init__ has returned."""
    made, result = items
    if result is None:
        return return_constant(made)
    return ((result,),), type(
        type(made).__name__, (), {"__init__": FIRST}
    )  # refused by type.__call__


def is_not_implemented(result: Any) -> bool:
    return result is NotImplemented


AS_IS = CallCompletion()
DROPPED = CallCompletion(leaves=False)
INITIALISED = CallCompletion(finish_initialization, 1, refuses=lambda result: result is not None)
CONTAINED = CallCompletion(lambda items: (items, operator.truth))
NOT_CONTAINED = CallCompletion(lambda items: (items, operator.not_))


def binary(function: Callable[[Any, Any], Any], reflected: str) -> CallCompletion:
    """function(left, right), an operator, when left's method has returned; `reflected`: the method
    of right's that is asked next."""

    def finish(items: tuple[Any, Any, Any]) -> Ending:
        left, right, result = items
        if result is NotImplemented and type(left) is not type(right):
            method = getattr(type(right), reflected, None)
            result = NotImplemented if method is None else method(right, left)
        if result is NotImplemented:
            return (named_like(left), named_like(right)), function
        return return_constant(result)

    return CallCompletion(finish, 2, refuses=is_not_implemented)


def comparison(function: Callable[[Any, Any], Any], reflected: str) -> CallCompletion:
    """function(left, right), a comparison, when left's method has returned."""

    def finish(items: tuple[Any, Any, Any]) -> Ending:
        left, right, result = items
        if result is NotImplemented:
            result = getattr(type(right), reflected)(right, left)
        if result is not NotImplemented:
            return return_constant(result)
        identity = IDENTITY.get(function)
        return (
            ((left, right), identity)
            if identity
            else ((named_like(left), named_like(right)), function)
        )

    return CallCompletion(finish, 2, refuses=is_not_implemented)


IDENTITY = {operator.eq: operator.is_, operator.ne: operator.is_not}
NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul", "<<": "lshift",
    ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
FORWARD = {
    sign: binary(getattr(operator, f"__{name}__"), f"__r{name}__") for sign, name in NAMES.items()
}
COMPARED = {
    sign: comparison(getattr(operator, name), f"__{reflected}__")
    for sign, name, reflected in (
        ("<", "lt", "gt"), ("<=", "le", "ge"), ("==", "eq", "eq"), ("!=", "ne", "ne"), (">", "gt", "lt"), (">=", "ge", "le"),
    )
}  # fmt: skip
