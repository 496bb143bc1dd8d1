"""Looking into builtin iterators without moving them."""
from __future__ import annotations

import copy
import gc
import itertools
import operator
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import (
    accumulate,
    chain,
    combinations,
    combinations_with_replacement,
    compress,
    count,
    cycle,
    dropwhile,
    filterfalse,
    groupby,
    islice,
    pairwise,
    permutations,
    product,
    repeat,
    starmap,
    takewhile,
    zip_longest,
)
from typing import Any

from .native import held_state
from .source import WALKED

# Those that say how many items they have left.
COUNTED: tuple[type, ...] = (type(iter(range(0))), type(iter([])), type(iter(())), type(reversed([])), reversed)
VIEWS: tuple[Callable[[Any], Any], ...] = (dict.keys, dict.values, dict.items)
FORWARD_DICT = tuple(type(iter(view({}))) for view in VIEWS)
# Those of which only a copy can tell: they also raise when what they walk has changed.
COPIED: tuple[type, ...] = (
    *FORWARD_DICT, *(type(reversed(view({}))) for view in VIEWS), type(iter(set())), type(iter(OrderedDict())),
    type(iter("")), type(iter("\u0100")), type(iter(b"")),
)  # fmt: skip
ITERATORS = (*COUNTED, *COPIED, repeat)
HOLDING = (chain, starmap, filterfalse, compress)  # these hold their parts and nothing else
CHOOSING = (product, combinations, combinations_with_replacement, permutations)
GROUP = type(next(groupby([1]))[1])
CALLS = type(iter(int, 1))
BATCHED = (getattr(itertools, "batched", None),)  # since 3.12
# What is in these only C can see.
OPENED = (islice, takewhile, dropwhile, pairwise, *CHOOSING, cycle, zip_longest, accumulate, groupby, GROUP, CALLS, *filter(None, BATCHED))
MADE_OF_PARTS = (enumerate, zip, map, filter, count, *HOLDING, *OPENED)
COUNT = re.compile(r"count\((-?\d+)(?:, (-?\d+))?\)")
CHANGED = -1  # no number of items: the next one is an error
LARGEST = 1 << 10  # items of which a copy is worth making at every turn of a loop


def peek(iterator: Any, index: int) -> Any:
    """The index-th item that the iterator (of cycles, one that reads no more) would still give, or that a deque, set or dictionary (of its
    values) holds. Raises when there are fewer."""
    if isinstance(iterator, deque):
        return deque.__getitem__(iterator, index)
    if type(iterator) is repeat:
        return held(iterator)[0]
    if isinstance(iterator, dict):
        return next(islice(dict.values(iterator), index, None))
    if isinstance(iterator, set | frozenset):
        return next(islice(iterator, index, None))
    if type(iterator) is cycle:
        _, saved, at, _ = held_state(iterator)
        return saved[(at + index) % len(saved)]
    return next(islice(copy.copy(iterator), index, None))


def remaining(iterator: Any) -> int:
    """How many items the iterator would still give; CHANGED when it would raise."""
    if type(iterator) is reversed and type(walked(iterator)) not in (tuple, reversed):
        return CHANGED
    if type(iterator) is repeat:
        return left_of(iterator)
    if type(iterator) is islice:  # as far as its bounds say
        return held_state(iterator)[3]
    if type(iterator) not in COPIED:
        return operator.length_hint(iterator)
    try:
        return operator.length_hint(copy.copy(iterator))
    except RuntimeError:
        return CHANGED


def left_of(repeated: Any) -> int:
    """How often a repeat still gives its item."""
    try:
        return type(repeated).__length_hint__(repeated)
    except TypeError:
        return sys.maxsize


def advance(iterator: Any, count: int, exhausted: bool) -> None:
    """Moves the iterator on by `count` items, and past its end if that was seen."""
    for _ in islice(iterator, count):
        pass
    if exhausted:
        next(iterator, None)


def walked(iterator: Any) -> Any:
    """The container that an iterator reads from; itself when there is none any more."""
    return iterator if type(iterator) is repeat else next(iter(held(iterator)), iterator)


def held(iterator: Any) -> list[Any]:
    """The objects that an iterator refers to, its type aside."""
    found = gc.get_referents(iterator)
    return found[1:] if found and found[0] is type(iterator) else found


def parts(iterator: Any) -> tuple[Any, ...]:
    """What an iterator is made of, in the order of its type: others, a function, a number that grows."""
    if type(iterator) is count:  # it says where it is in no other way
        return numbers(iterator)
    if type(iterator) in OPENED:
        state = held_state(iterator)
        if type(iterator) is cycle and state[0] is None:
            return tuple(state[1][:1])  # whether there are items; they are peeked at
        return tuple(item for item in state[: PARTS.get(type(iterator), 2)] if item is not iterator)
    return tuple(held(iterator)) if type(iterator) in HOLDING else iterator.__reduce__()[1]


PARTS: dict[Any, int] = {islice: 1, zip_longest: sys.maxsize, accumulate: 4, groupby: 5, BATCHED[0]: 1}  # how much of the state; else 2


def numbers(counting: Any) -> tuple[Any, ...]:
    """The next number of a count and its step, if they are ints or floats."""
    found = held(counting)
    text = COUNT.fullmatch(repr(counting)) if all(type(number) is int for number in found) else None
    if text is not None:
        return tuple(map(int, text.groups("1")))
    return tuple(found) if len(found) == 2 and all(type(number) in (int, float) for number in found) else ()


def part(iterator: Any, place: int, ahead: int) -> Any:
    """One of the parts; see source.IteratorPart."""
    if place == WALKED:
        return walked(iterator)
    found = parts(iterator)[place]
    return found + ahead if ahead else found


def shape(iterator: Any) -> tuple[type, int, Any]:
    """The type of such an iterator, how many parts it has, and how it goes on; see FORMS."""
    found = parts(iterator)
    form = FORMS.get(type(iterator))
    return type(iterator), len(found), form and form(iterator)


def _missing(iterator: Any) -> tuple[bool, ...]:
    """Which parts of its state are not there."""
    return tuple(item is iterator or item is None for item in held_state(iterator))


def _going(inner: Any, saved: list[Any], index: int, copied: int) -> tuple[bool, bool, bool]:
    """Of a cycle: whether it reads no more, whether it then has items, whether it is a copy."""
    return inner is None, inner is None and bool(saved), bool(copied)


FORMS: dict[Any, Callable[[Any], Any]] = {
    zip: lambda zipped: len(zipped.__reduce__()) > 2,  # whether it is strict
    count: lambda counting: tuple((type(number), number) for number in parts(counting)[1:]),  # its step
    islice: lambda part: (held_state(part)[0] is None, *held_state(part)[1:3]),  # what it skips and its step
    takewhile: lambda walk: held_state(walk)[2:],  # whether it has stopped
    dropwhile: lambda walk: held_state(walk)[2:],  # whether it has started
    **dict.fromkeys(CHOOSING, lambda choice: held_state(choice)[2:]),  # how many items each has
    cycle: lambda round: _going(*held_state(round)),
    zip_longest: lambda zipped: _missing(zipped)[1:],
    accumulate: _missing,
    groupby: lambda groups: _missing(groups)[2:],
    GROUP: lambda group: held_state(group)[2:],  # whether it is the current one
    BATCHED[0]: lambda batches: (held_state(batches)[0] is None, *held_state(batches)[1:]),
}
