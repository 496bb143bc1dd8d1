"""MovedPaths: the paths below one module, moved to another module, and the objects there."""

from __future__ import annotations

from typing import Any

from ....guards.source import (
    AttrSource,
    CellContents,
    DictItem,
    DictKey,
    HasKey,
    InstanceDict,
    ItemAtKey,
    ModuleSource,
    SequenceItem,
    Source,
    TypeOf,
)

# the steps that are repeated from other objects, and Python's modules, which do not differ
STEPS = (
    AttrSource, CellContents, DictItem, DictKey, HasKey, InstanceDict, ItemAtKey, ModuleSource,
    SequenceItem,
)  # fmt: skip


class CannotMove(Exception):  # noqa: N818 - it steers: the call is interpreted
    """What one module's guards say cannot be asked of the other, or does not hold."""


class PathsBelow:
    """Which paths are below a module. What is reached through the class of an object below it is
    not: modules of one class share it."""

    def __init__(self, root: Source) -> None:
        self.root = root
        self._known: dict[Source, bool] = {root: True}
        self._led_to: dict[Source, bool] = {}

    def __contains__(self, source: Source) -> bool:
        known = self._known.get(source)
        if known is None:
            below = any([operand in self for operand in source.operands])
            known = self._known[source] = below and not isinstance(source, TypeOf)
        return known

    def leads_on_to(self, source: Source) -> bool:
        """Whether a path extends one below the module. The answer is remembered for each path, as
        the guards of a capture share the beginnings of theirs."""
        known = self._led_to.get(source)
        if known is None:
            known = self._led_to[source] = any(
                [operand in self or self.leads_on_to(operand) for operand in source.operands]
            )
        return known


class MovedPaths:
    """`root`: the path of the first module; `path`, `real`: the second one."""

    def __init__(self, root: Source, path: Source, real: Any) -> None:
        self._paths = {root: path}
        self._objects = {root: real}

    def path(self, source: Source) -> Source:
        """Raises CannotMove for a path with other steps."""
        moved = self._paths.get(source)
        if moved is None:
            step: Any
            step, parts = source.parts()
            if step not in STEPS:
                raise CannotMove(source.name)
            made = [self.path(part) if isinstance(part, Source) else part for part in parts]
            moved = self._paths[source] = step(*made)
        return moved

    def object(self, source: Source) -> Any:
        """What a path of the first module leads to when it starts from the second."""
        try:
            return self._objects[source]
        except KeyError:
            pass
        if type(source) not in STEPS:
            raise CannotMove(source.name)
        operands = [self.object(operand) for operand in source.operands]
        try:
            of: Any = operands[0] if len(operands) == 1 else tuple(operands)
            found = self._objects[source] = source.read(of)
        except Exception as error:  # as every path, it may end anywhere
            raise CannotMove(source.name) from error
        return found
