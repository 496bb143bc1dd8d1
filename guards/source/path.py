"""Source: what all paths have in common."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from operator import attrgetter
from types import FunctionType
from typing import Any, ClassVar, dataclass_transform

from ...records import record
from ..encoded import Encoded


class PathEnds(Exception):
    """The path ends before its object."""


@dataclass(frozen=True)
class FrameView:
    """The part of a frame that guards read."""

    slots: tuple[Any, ...]
    function: FunctionType


@dataclass_transform(frozen_default=True)
def path(cls: type) -> type:
    """Makes a class of paths: a frozen dataclass whose hash is computed once, as paths are long and
    used as keys everywhere. A pickled path has no hash, since that differs between processes.
    """
    made: Any = record(cls)
    compute, made._hash = made.__hash__, None

    def cached_hash(self: Any) -> int:
        known: int | None = self._hash
        if known is None:
            known = self._hash = compute(self)
        return known

    names = tuple(field.name for field in fields(made))

    def parts(self: Any) -> tuple[type, tuple[Any, ...]]:
        return made, tuple([getattr(self, name) for name in names])

    made.__hash__, made.parts, made.__reduce__ = cached_hash, parts, parts
    if "of" in names and made.operands is Source.operands:
        # asked of every path again and again
        made.base = property(attrgetter("of"))
        made.operands = property(lambda self: (self.of,))
    return made


@path
class Source:
    """A path. Its last step starts from the object at `base`; a root, whose base is None, starts
    from the frame."""

    cost: ClassVar[int] = 200  # of the last step, in ns, roughly
    written: ClassVar[str]  # a format of the source: the path as a person would write it
    _way_cost: ClassVar[int | None] = None
    operation: ClassVar[str] = ""  # of the evaluator in C, where it takes nothing but the object

    @property
    def name(self) -> str:
        """The path as a person would write it."""
        return self.written.format(self)

    @property
    def base(self) -> Source | None:
        """The path that this one extends; None for a root."""
        return getattr(self, "of", None)

    @property
    def operands(self) -> tuple[Source, ...]:
        """The paths to the objects that the last step takes, `base` first; () for a root."""
        return () if self.base is None else (self.base,)

    @property
    def way_cost(self) -> int:
        """The cost of all loads of the path, computed once."""
        known: Any = self._way_cost
        if known is None:
            known = self.cost + sum([operand.way_cost for operand in self.operands])
            object.__setattr__(self, "_way_cost", known)
        return int(known)

    def parts(self) -> tuple[type, tuple[Any, ...]]:
        """The class of the path and its arguments."""
        raise NotImplementedError

    def load(self, frame: FrameView) -> Any:
        """The object at the end of the path. Raises PathEnds where the path ends before it."""
        try:
            objects = tuple([one.load(frame) for one in self.operands])
            return self.read(frame if not objects else objects[0] if len(objects) == 1 else objects)
        except (PathEnds, RecursionError):  # the stack's end says nothing about the path
            raise
        except Exception as error:
            raise PathEnds(self.name) from error

    def read(self, of: Any) -> Any:
        """The last step: the object, given the object at `base` (for a root, a FrameView; a tuple,
        where there are several operands). Any exception means that the path ends here."""
        raise NotImplementedError

    def encode(self) -> Encoded:
        """The last step for the evaluator in C; without an operation of its own it calls `read`."""
        if self.operation:
            return Encoded(self.operation)
        return Encoded("CALL", self.read, runs_python=True)


def safe_repr(value: Any) -> str:
    """repr(), which Python refuses for ints of very many digits."""
    try:
        return repr(value)
    except ValueError:
        return f"{type(value).__name__} of too many digits"


def key_text(key: Any) -> str:
    """A dictionary's key as a person would write it. Of a key that is printed by Python code, only
    the class: the code may be the program's, and a parameter prints its numbers."""
    kind = type(key)
    if kind is tuple:
        items = ", ".join(map(key_text, key))
        return f"({items},)" if len(key) == 1 else f"({items})"
    if issubclass(kind, Enum):
        return f"{kind.__qualname__}.{key._name_}"
    return f"<{kind.__qualname__}>" if isinstance(kind.__repr__, FunctionType) else safe_repr(key)
