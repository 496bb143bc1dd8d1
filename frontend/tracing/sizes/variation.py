"""Variation: the sizes (by dimension) and numbers that are known to differ between the calls of one
site.

In: what each capture of the site found. Out: which of them the next capture makes dynamic. Imports
no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ....guards.source import AttrSource, FrameView, PathEnds, Source

VARIES = object()  # stands for a number that differs from call to call
UNKNOWN = -1  # a size that no call has shown yet
# a tensor's sizes, the numbers of captures, or None for the length of a list that grows
Varying = tuple[int | None, ...] | frozenset[Any] | None
Beginnings = dict[Source, list[tuple[Source, Varying]]]  # the tensors and numbers of a capture


class Variation:
    """Sizes and numbers by their paths. None is a size that differs, VARIES a number that
    differs."""

    def __init__(self) -> None:
        self.sizes: dict[Source, tuple[int | None, ...]] = {}
        self.numbers: dict[Source, Any] = {}
        self.former: set[int] = set()  # sizes, before they differed
        self.captures = 0
        # the numbers of captures, once they differ; VARIES among them for one with many values
        self._changed: dict[Source, set[Any]] = {}
        self._grown: set[Source] = set()  # the lengths of lists to which the program adds

    def dims(self, source: Source, sizes: Sequence[int]) -> frozenset[int]:
        """The dimensions of a tensor whose size differs between calls, this one included. A tensor
        that no call had before is expected to vary where it has a size that differed, and that no
        other tensor keeps: what a call made of its arguments comes back in the next one, as the
        cache of a language model does."""
        known = self.sizes.get(source)
        if known is None:
            kept = {size for sizes in self.sizes.values() for size in sizes}
            return frozenset(
                dim for dim, size in enumerate(sizes) if size in self.former and size not in kept
            )
        if len(known) != len(sizes):
            return frozenset()
        return frozenset(
            dim
            for dim, (old, new) in enumerate(zip(known, sizes, strict=True))
            if old is None or old not in (new, UNKNOWN)
        )

    def compare(self, frame: FrameView) -> None:
        """Finds out which of the known sizes differ in a call that is to be captured."""
        for source, known in list(self.sizes.items()):
            if asks_for_attribute(source):
                continue
            try:
                sizes = tuple(source.load(frame).shape)
            except (PathEnds, AttributeError):  # this call has something else there
                continue
            differ = self.dims(source, sizes)
            self.former.update(size for dim in differ if (size := known[dim]) is not None)
            self.expect_dims(source, len(known), differ)

    def varies(self, source: Source, number: int | float | str | tuple[Any, ...]) -> bool:
        """Whether a number, a text or a tuple of literals differs between calls, this one
        included."""
        known = self.numbers.get(source, number)
        return (
            known is VARIES
            or type(known) is not type(number)
            or not (known == number or (known != known and number != number))
        )

    def note_capture(
        self,
        sizes: dict[Source, tuple[int, ...]],
        numbers: dict[Source, Any],
        in_loop: bool = False,
    ) -> None:
        """Records the sizes and numbers of an entry. in_loop: they may differ because it is for
        another iteration, which the next call will have again."""
        self.captures += 1
        for source, new in sizes.items():
            varied = self.dims(source, new)
            self.sizes[source] = tuple(
                None if dim in varied else size for dim, size in enumerate(new)
            )
        for source, number in numbers.items():
            if self.varies(source, number):
                self.numbers[source] = VARIES
                if not in_loop:
                    self._changed.setdefault(source, set()).add(number)
            else:
                self.numbers[source] = number

    def changes(self, source: Source) -> int:
        """How many numbers captures have had at a path, after the first one."""
        return len(self._changed.get(source, ()))

    def expect_many(self, source: Source) -> None:
        """Declares beforehand that a number takes many values."""
        self.numbers[source] = VARIES
        self._changed[source] = {VARIES}

    def takes_many(self, source: Source) -> bool:
        """Whether a number was declared to take many values."""
        return VARIES in self._changed.get(source, ())

    def expect_growth(self, source: Source) -> None:
        """Records that the program adds to the list of which this is the length."""
        self._grown.add(source)

    def grows(self, source: Source) -> bool:
        """Whether the program adds to the list of which this is the length, in this frame or before
        a break."""
        return source in self._grown

    def expect_dims(self, source: Source, rank: int, dims: Iterable[int]) -> None:
        """Declares beforehand that sizes will differ. The other sizes of that tensor are static."""
        known = self.sizes.get(source, ())
        if len(known) != rank:
            known = (UNKNOWN,) * rank
        self.sizes[source] = tuple(None if dim in dims else old for dim, old in enumerate(known))

    def expect_number(self, source: Source) -> None:
        """Declares beforehand that a number will differ."""
        self.numbers[source] = VARIES

    def by_beginning(self) -> Beginnings:
        """Everything known to differ, by each prefix of its path."""
        found: Beginnings = {}
        varying: list[tuple[Source, Varying]] = [
            *((source, sizes) for source, sizes in self.sizes.items() if None in sizes),
            *(
                (source, frozenset(self._changed.get(source, ())))
                for source, number in self.numbers.items()
                if number is VARIES
            ),
            *((source, None) for source in self._grown),
        ]
        for source, differs in varying:
            beginning: Source | None = source
            while beginning is not None:
                found.setdefault(beginning, []).append((source, differs))
                beginning = beginning.base
        return found

    def known_below(self, known: Beginnings, root: Source, path: Source) -> None:
        """Copies what `known` knows below `root`, which is at `path` here."""
        for source, sizes in known.get(root, ()):
            here = replace_root(source, root, path)
            if sizes is None:
                self._grown.add(here)
            elif isinstance(sizes, frozenset):
                self.expect_number(here)
                self._changed.setdefault(here, set()).update(sizes)
            else:
                varied = [dim for dim, size in enumerate(sizes) if size is None]
                self.expect_dims(here, len(sizes), varied)


def asks_for_attribute(path: Source) -> bool:
    """Whether an object on a path is asked for an attribute, which may run code or warn."""
    return isinstance(path, AttrSource) or any(map(asks_for_attribute, path.operands))


def replace_root(source: Source, root: Source, path: Source) -> Source:
    """The path with its beginning `root` replaced."""
    if source == root:
        return path
    base = source.base
    assert base is not None, "root is a beginning of source"
    return replace(source, of=replace_root(base, root, path))  # type: ignore[call-arg]
