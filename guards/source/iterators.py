"""Steps into iterators that existed before the frame. None of them moves the iterator."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..encoded import Encoded
from ..iterators import is_unstarted, iterated_container, iterator_parts, peek
from .path import PathEnds, Source, path


@path
class IteratorItem(Source):
    """The index-th item that the iterator `of` still has, or that the deque `of` holds."""

    cost = 20
    of: Source
    index: int

    @property
    def name(self) -> str:
        after = f", after {self.index}" if self.index else ""
        return f"next({self.of.name}{after})"

    def read(self, of: Any) -> Any:
        return peek(of, self.index)

    def encode(self) -> Encoded:
        fallback = partial(peek, index=self.index)  # for iterators that C cannot read
        return Encoded("ITERATOR_ITEM", fallback, self.index, runs_python=True)


@path
class IteratorPart(Source):
    """The index-th part that the enumerate, zip, map or filter `of` is made of: its inner
    iterators, its function, or its number with `ahead` added."""

    of: Source
    index: int
    ahead: int = 0

    @property
    def name(self) -> str:
        return f"{self.of.name}<{self.index}>" + (f" + {self.ahead}" if self.ahead else "")

    def read(self, of: Any) -> Any:
        found = iterator_parts(of)[self.index]
        return found + self.ahead if self.ahead else found


@path
class IteratedContainer(Source):
    """The container that the iterator `of` reads from, or the iterator itself without one."""

    written = "{0.of.name}<container>"
    of: Source

    def read(self, of: Any) -> Any:
        return iterated_container(of)


@path
class GeneratorArgument(Source):
    """An argument of the generator `of`, which was not started."""

    cost = 20
    of: Source
    argument: str

    @property
    def name(self) -> str:
        return f"{self.of.name}<{self.argument}>"

    def read(self, of: Any) -> Any:
        if not is_unstarted(of):
            raise PathEnds(self.name)
        return of.gi_frame.f_locals[self.argument]
