"""Looking into builtin iterators without moving them: a range's, a list's, a tuple's."""
from __future__ import annotations

import copy
import operator
from itertools import islice
from typing import Any

ITERATORS: tuple[type, ...] = (type(iter(range(0))), type(iter([])), type(iter(())))


def peek(iterator: Any, index: int) -> Any:
    """The index-th item that the iterator, or a deque, would still give. Raises StopIteration when it has fewer."""
    return next(islice(copy.copy(iterator), index, None))


def remaining(iterator: Any) -> int:
    """How many items the iterator would still give."""
    return operator.length_hint(iterator)


def advance(iterator: Any, count: int, exhausted: bool) -> None:
    """Moves the iterator on by `count` items, and past its end if that was seen."""
    for _ in islice(iterator, count):
        pass
    if exhausted:
        next(iterator, None)
