"""Reads iterators without advancing them."""

from __future__ import annotations

import copy
import gc
import inspect
import operator
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice, repeat
from typing import Any

# Those that say how many items they have left.
COUNTED: tuple[type, ...] = (
    type(iter(range(0))),
    type(iter([])),
    type(iter(())),
    type(reversed([])),
    reversed,
)
VIEWS: tuple[Callable[[Any], Any], ...] = (dict.keys, dict.values, dict.items)
FORWARD_DICT = tuple(type(iter(view({}))) for view in VIEWS)
# Those of which only a copy can tell: they also raise when what they walk has changed.
COPIED: tuple[type, ...] = (
    *FORWARD_DICT, *(type(reversed(view({}))) for view in VIEWS), type(iter(set())),
    type(iter(OrderedDict())), type(iter("")), type(iter("\u0100")), type(iter(b"")),
)  # fmt: skip
ITERATORS = (*COUNTED, *COPIED, repeat)
MADE_OF_PARTS = (enumerate, zip, map, filter)
CHANGED = -1  # no number of items: the next one is an error
LARGEST = 1 << 10  # items of which a copy is worth making at every iteration of a loop


def peek(iterator: Any, index: int) -> Any:
    """The index-th item that the iterator still has, or that a deque holds. Raises where there are
    fewer."""
    if isinstance(iterator, deque):
        return deque.__getitem__(iterator, index)
    if type(iterator) is repeat:
        return referred_objects(iterator)[0]
    return next(islice(copy.copy(iterator), index, None))


def remaining(iterator: Any) -> int:
    """How many items the iterator still has; CHANGED if its next() would raise."""
    if type(iterator) is reversed and type(iterated_container(iterator)) not in (tuple, reversed):
        return CHANGED
    if type(iterator) is repeat:
        return left_of(iterator)
    if type(iterator) not in COPIED:
        return operator.length_hint(iterator)
    try:
        return operator.length_hint(copy.copy(iterator))
    except RuntimeError:
        return CHANGED


def left_of(repeated: Any) -> int:
    """How many times a repeat still returns its item."""
    try:
        return type(repeated).__length_hint__(repeated)
    except TypeError:
        return sys.maxsize


def advance(iterator: Any, count: int, exhausted: bool) -> None:
    """Advances the iterator by `count` items, and past its end if `exhausted`."""
    for _ in islice(iterator, count):
        pass
    if exhausted:
        next(iterator, None)


def iterated_container(iterator: Any) -> Any:
    """The container that an iterator reads from; the iterator itself if there is none any more."""
    return (
        iterator if type(iterator) is repeat else next(iter(referred_objects(iterator)), iterator)
    )


def referred_objects(iterator: Any) -> list[Any]:
    """The objects that an iterator refers to, except its type."""
    found = gc.get_referents(iterator)
    return found[1:] if found and found[0] is type(iterator) else found


def iterator_parts(iterator: Any) -> tuple[Any, ...]:
    """The objects that an iterator was made of, in the order of its type: a function, iterators, a
    number that grows."""
    return iterator.__reduce__()[1]


def is_strict(zipped: Any) -> bool:
    """Whether a zip refuses iterators of different lengths."""
    return len(zipped.__reduce__()) > 2


def is_unstarted(generator: Any) -> bool:
    """Whether a generator waits at its beginning."""
    return inspect.getgeneratorstate(generator) == inspect.GEN_CREATED
