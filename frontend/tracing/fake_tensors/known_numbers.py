"""Numbers that vary, for operators that take C's doubles and ints
(backends/graph/number_arguments.py): their fake results are made with the number of this call, and
the graph keeps the symbol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree

from ....backends.graph.number_arguments import (
    FREE,
    FREE_BY_NAME,
    INTS,
    LENGTHS,
    NAMES,
    length_argument,
)

Decide = Callable[[Any], bool]


def with_known_numbers(name: str, args: Any, kwargs: Any, decide: Decide) -> tuple[Any, Any]:
    """The arguments of the operator of this name, with numbers in place of symbols. Guards on which
    side of 0 and 1 floats are: what such an operator refuses, or treats otherwise (no dropout, a
    negative deviation), begins there."""
    if is_size(given := kwargs.get(INTS.get(name, ""))):
        kwargs = {**kwargs, INTS[name]: hint_of(given)}
    if name in LENGTHS:
        return with_known_length(name, args, kwargs, decide)
    if name in FREE:
        made: tuple[Any, Any] = pytree.tree_map_only(torch.SymFloat, float_of, (args, kwargs))
        return made
    if name not in NAMES:
        return args, kwargs
    free = FREE_BY_NAME.get(name, "")
    if isinstance(kwargs.get(free), torch.SymFloat):
        kwargs = {**kwargs, free: float_of(kwargs[free])}
    made = pytree.tree_map_only(
        torch.SymFloat, partial(guarded_float, decide=decide), (args, kwargs)
    )
    return made


def with_known_length(name: str, args: Any, kwargs: Any, decide: Decide) -> tuple[Any, Any]:
    """The arguments of an operator that takes the length of its result, with that of this call."""
    length = length_argument(name, args, kwargs)
    if not is_size(length) or not decide(length > 0):
        return args, kwargs
    position, keyword = LENGTHS[name]
    if position < len(args):
        return [*args[:position], hint_of(length), *args[position + 1 :]], kwargs
    return args, {**kwargs, keyword: hint_of(length)}


def guarded_float(number: torch.SymFloat, decide: Decide) -> Any:
    """The number in this call, with guards on which side of 0 and 1 it is; the symbol of a
    tensor's value."""
    hint = number.node.hint
    if hint is None:
        return number
    for border in (0.0, 1.0):
        if not decide(number < border) and decide(number == border):
            return border
    return hint


def float_of(number: torch.SymFloat) -> Any:
    """The number in this call, which is not relied on; the symbol of a tensor's value."""
    hint = number.node.hint
    return number if hint is None else float(hint)


def with_varying_length(result: Any, name: str, args: Any, kwargs: Any) -> Any:
    """The fake result of the operator of this name, with the symbol of its length."""
    length = length_argument(name, args, kwargs)
    if not is_size(length) or type(result.shape[-1]) is not int:
        return result
    made = result.new_empty((*result.shape[:-1], length))
    return made.requires_grad_(result.requires_grad)


def is_size(number: Any) -> bool:
    """Whether it is an int that varies and does not depend on a tensor's values."""
    return isinstance(number, torch.SymInt) and number.node.hint is not None


def hint_of(number: Any) -> Any:
    """The number in this call, which is not relied on."""
    return int(number.node.hint)
