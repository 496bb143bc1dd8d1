"""Reads the caches of functools: of lru_cache functions, and of single dispatches."""

from __future__ import annotations

import functools
import gc
from typing import Any

DISPATCH = functools.singledispatch(lambda _: None).dispatch.__code__


def cached_result(function: Any, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> Any:
    """The result that a cached function keeps for these arguments, or makes now if it is not there
    any more."""
    is_dispatch = getattr(function, "__code__", None) is DISPATCH
    if not is_dispatch and type(function) is not functools._lru_cache_wrapper:
        raise TypeError(f"{function!r} keeps nothing")
    return function(*args, **dict(kwargs))


def holds(function: Any, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> bool:
    """Whether a cached function has a result for these arguments now; it is not called."""
    return any(
        _key(args, kwargs, function.cache_parameters()["typed"]) in kept
        for kept in _dictionaries(function)
    )


def _dictionaries(function: Any) -> list[dict[Any, Any]]:
    """The dictionaries in which a cached function may keep its results, besides its attributes."""
    return [
        held
        for held in gc.get_referents(function)
        if type(held) is dict and held is not function.__dict__
    ]


def _key(args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...], typed: bool) -> Any:
    """The key under which C stores a call (Modules/_functoolsmodule.c): the arguments, a mark, the
    keywords, the types if they count."""
    if not kwargs and not typed:
        return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
    named = (MARK, *(part for pair in kwargs for part in pair)) if kwargs else ()
    types = tuple(map(type, (*args, *(value for _, value in kwargs)))) if typed else ()
    return args + named + types


@functools.cache
def keyword_mark(**kwargs: int) -> None:
    """The mark between arguments and keywords, found by a call of a cached function."""


keyword_mark(a=0)
MARK = next(iter(_dictionaries(keyword_mark)[0]))[0]
