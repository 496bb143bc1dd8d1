"""Reads builtin iterators without advancing them."""

from __future__ import annotations

import copy
import gc
import operator
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import chain, count, islice, repeat
from typing import Any

from .native import slice_state
from .source import WALKED

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
    *FORWARD_DICT, *(type(reversed(view({}))) for view in VIEWS), type(iter(set())), type(iter(OrderedDict())),
    type(iter("")), type(iter("\u0100")), type(iter(b"")),
)  # fmt: skip
ITERATORS = (*COUNTED, *COPIED, repeat)
MADE_OF_PARTS = (enumerate, zip, map, filter, count, chain, islice)
COUNT = re.compile(r"count\((-?\d+)(?:, (-?\d+))?\)")
CHANGED = -1  # no number of items: the next one is an error
LARGEST = 1 << 10  # items of which a copy is worth making at every turn of a loop


def peek(iterator: Any, index: int) -> Any:
    """The index-th item that the iterator still has, or that a deque, set or dictionary (of its
    values) holds. Raises where there are fewer."""
    if isinstance(iterator, deque):
        return deque.__getitem__(iterator, index)
    if type(iterator) is repeat:
        return referred_objects(iterator)[0]
    if isinstance(iterator, dict):
        return next(islice(dict.values(iterator), index, None))
    if isinstance(iterator, set | frozenset):
        return next(islice(iterator, index, None))
    return next(islice(copy.copy(iterator), index, None))


def remaining(iterator: Any) -> int:
    """How many items the iterator still has; CHANGED if its next() would raise."""
    if type(iterator) is reversed and type(iterated_container(iterator)) not in (tuple, reversed):
        return CHANGED
    if type(iterator) is repeat:
        return left_of(iterator)
    if type(iterator) is islice:  # as far as its bounds say
        return slice_state(iterator)[3]
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


def parts(iterator: Any) -> tuple[Any, ...]:
    """The objects that an iterator was made of, in the order of its type: iterators, a function, a
    number that grows."""
    if type(iterator) is count:  # it says where it is in no other way
        return numbers(iterator)
    if type(iterator) is islice:
        return slice_state(iterator)[:1]
    return (
        tuple(referred_objects(iterator)) if type(iterator) is chain else iterator.__reduce__()[1]
    )


def numbers(counting: Any) -> tuple[Any, ...]:
    """The next number of a count and its step, if they are ints."""
    text = (
        COUNT.fullmatch(repr(counting))
        if all(type(number) is int for number in referred_objects(counting))
        else None
    )
    return () if text is None else tuple(map(int, text.groups("1")))


def part(iterator: Any, place: int, ahead: int) -> Any:
    """One of the parts; see source.IteratorPart."""
    if place == WALKED:
        return iterated_container(iterator)
    found = parts(iterator)[place]
    return found + ahead if ahead else found


def shape(iterator: Any) -> tuple[type, int, Any]:
    """The type of such an iterator, how many parts it has, and how it continues; see FORMS."""
    found = parts(iterator)
    form = FORMS.get(type(iterator))
    return type(iterator), len(found), form and form(iterator)


FORMS: dict[Any, Callable[[Any], Any]] = {
    zip: lambda zipped: len(zipped.__reduce__()) > 2,  # whether it is strict
    count: lambda counting: parts(counting)[1:],  # its step
    islice: lambda part: (
        slice_state(part)[0] is None,
        *slice_state(part)[1:3],
    ),  # what it skips and its step
}
