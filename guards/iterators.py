"""Looking into builtin iterators without moving them."""
from __future__ import annotations

import copy
import gc
import operator
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import chain, compress, count, dropwhile, filterfalse, islice, pairwise, product, repeat, starmap, takewhile
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
OPENED = (islice, takewhile, dropwhile, pairwise, product)  # what is in these only C can see
MADE_OF_PARTS = (enumerate, zip, map, filter, count, *HOLDING, *OPENED)
COUNT = re.compile(r"count\((-?\d+)(?:, (-?\d+))?\)")
CHANGED = -1  # no number of items: the next one is an error
LARGEST = 1 << 10  # items of which a copy is worth making at every turn of a loop


def peek(iterator: Any, index: int) -> Any:
    """The index-th item that the iterator would still give, or that a deque holds. Raises when there are fewer."""
    if isinstance(iterator, deque):
        return deque.__getitem__(iterator, index)
    if type(iterator) is repeat:
        return held(iterator)[0]
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
        text = COUNT.fullmatch(repr(iterator)) if all(type(number) is int for number in held(iterator)) else None
        return () if text is None else tuple(map(int, text.groups("1")))
    if type(iterator) in OPENED:
        state = held_state(iterator)
        return state[:1] if type(iterator) is islice else state[:2]
    return tuple(held(iterator)) if type(iterator) in HOLDING else iterator.__reduce__()[1]


def part(iterator: Any, place: int, ahead: int) -> Any:
    """One of the parts; see source.IteratorPart."""
    if place == WALKED:
        return walked(iterator)
    found = parts(iterator)[place]
    return found + ahead if ahead else found


def shape(iterator: Any) -> tuple[type, int, Any]:
    """The type of such an iterator, how many parts it has, and how it goes: whether a zip is strict, the steps of a count, what a
    slice skips and its step, whether a takewhile has stopped or a dropwhile started."""
    if type(iterator) in OPENED:
        state = held_state(iterator)
        return type(iterator), len(parts(iterator)), (state[0] is None, *state[1:3]) if type(iterator) is islice else state[2:]
    if type(iterator) is count:
        return count, len(parts(iterator)), parts(iterator)[1:]
    return type(iterator), len(parts(iterator)), type(iterator) is zip and len(iterator.__reduce__()) > 2
