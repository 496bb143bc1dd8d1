"""MovedPaths: the paths below one module, moved to another module, and the objects there."""

from __future__ import annotations

from typing import Any

from ....guards.source import (
    AttrSource,
    CellContents,
    DictItem,
    DictKey,
    InstanceDict,
    SequenceItem,
    Source,
    TypeOf,
)

# the steps that are repeated from another object; their first argument is `of`
STEPS = (AttrSource, CellContents, DictItem, DictKey, InstanceDict, SequenceItem)


class CannotMove(Exception):  # noqa: N818 - it steers: the call is interpreted
    """What one module's guards say cannot be asked of the other, or does not hold."""


class PathsBelow:
    """Which paths are below a module. What is reached through the class of an object below it is
    not: modules of one class share it."""

    def __init__(self, root: Source) -> None:
        self.root = root
        self._known: dict[Source, bool] = {root: True}

    def __contains__(self, source: Source) -> bool:
        known = self._known.get(source)
        if known is None:
            below = any([operand in self for operand in source.operands])
            known = self._known[source] = below and not isinstance(source, TypeOf)
        return known


class MovedPaths:
    """`root`: the path of the first module; `path`, `real`: the second one."""

    def __init__(self, root: Source, path: Source, real: Any) -> None:
        self._paths = {root: path}
        self._objects = {root: real}

    def path(self, source: Source) -> Source:
        moved = self._paths.get(source)
        if moved is None:
            cls, (of, *rest) = source.parts()
            if cls not in STEPS:
                raise CannotMove(source.name)
            moved = self._paths[source] = cls(self.path(of), *rest)
        return moved

    def object(self, source: Source) -> Any:
        """What a path of the first module leads to when it starts from the second."""
        try:
            return self._objects[source]
        except KeyError:
            pass
        if type(source) not in STEPS or source.base is None:
            raise CannotMove(source.name)
        of = self.object(source.base)
        try:
            found = self._objects[source] = source.read(of)
        except Exception as error:  # as every path, it may end anywhere
            raise CannotMove(source.name) from error
        return found
