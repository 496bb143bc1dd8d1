"""Section: when a guard program evaluates a path or a guard. State that seldom changes is watched,
and its guards are skipped meanwhile. In: the guards of a program. Out: for each source and guard
its section, and the anchors that stable paths start from."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any, cast

import torch

from . import source as s
from .guard import Guard, Kind, TensorSpec
from .kinds import kind_of
from .kinds.containers import is_constant
from .source import Source


class Section(enum.IntEnum):
    """The sections of a program, in the order in which they run."""

    FIRST = 0  # at every call: arguments, torch's modes
    STABLE = 1  # once, then only after something changed: what hangs on modules, classes, globals
    HELD = 2  # at every call, in one loop: tensors found on stable paths, which change in place
    # at every call: what comes from stable and other paths together, and whatever runs Python
    LAST = 3


PURE_LOADS = (
    s.SequenceItem, s.DictItem, s.TypeOf, s.ClassDict, s.ClassAttribute, s.MroItem,
    s.CellContents,
)  # fmt: skip
FUNCTION_FIELDS = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__globals__")
PROPERTY_FIELDS = ("fget", "fset", "fdel")  # nothing can change them
CONTAINER_KINDS = (
    Kind.LENGTH, Kind.KEYS, Kind.ABSENT, Kind.ALL_ABSENT, Kind.PRESENT, Kind.EMPTY_ITEMS,
)  # fmt: skip
# An input of which a guard checks only that it has one of these types is expected to vary.
NUMBERS = (int, float)


class Sections:
    """The sections of one program's paths and guards."""

    def __init__(self, guards: Sequence[Guard], lifted: Iterable[Source]) -> None:
        self.anchors: dict[Source, None] = {}
        self._by_source: dict[Source, list[Guard]] = defaultdict(list)
        self._known: dict[Source, Section] = {}
        self._varying: set[Source] = set()  # numbers that are expected to differ between calls
        self._keys: dict[Source, tuple[Any, ...]] = {}
        for guard in guards:
            self._by_source[guard.source].append(guard)
            if guard.kind is Kind.KEYS:
                self._keys[guard.source] = guard.expected
            if guard.kind is Kind.TYPE and guard.expected in NUMBERS:
                self._varying.add(guard.source)
            if guard.kind is Kind.SHAPE:
                self._varying.update(kind_of(guard).subjects(guard))
        for source in paths_of(guards, lifted):
            self.of(source)
        for guard in guards:
            if guard.kind in CONTAINER_KINDS:
                self._section_below(holder(guard.source))
        self.early = paths_to(self.anchors)  # to be loaded in the first section, whoever asks

    def of_guard(self, guard: Guard, runs_python: bool) -> Section:
        """The section in which a guard is checked: the common one of the paths that it reads."""
        if guard.kind is Kind.TORCH_STATE:
            return Section.FIRST
        # tensors that stay get other memory: `weight.data = other`
        if runs_python or guard.kind is Kind.MEMORY:
            return Section.LAST
        if guard.kind in CONTAINER_KINDS:
            return self._section_below(holder(guard.source))
        sections = set(map(self.of, kind_of(guard).subjects(guard)))
        section = sections.pop() if len(sections) == 1 else Section.LAST
        if guard.kind is Kind.TENSOR and section is Section.STABLE:
            return Section.HELD
        return section

    def tensor_at(self, source: Source) -> TensorSpec | None:
        """The spec that is checked of the tensor there before any Python runs; None if there is
        none."""
        for guard in self._by_source[source]:
            if (
                guard.kind is Kind.TENSOR
                and self.of_guard(guard, kind_of(guard).encode(guard).runs_python)
                is not Section.LAST
            ):
                return cast(TensorSpec, guard.expected)
        return None

    def of(self, source: Source) -> Section:
        """The section in which the object at the end of a path is loaded."""
        section = self._known.get(source)
        if section is None:
            section = self._known[source] = self._find(source)
        return section

    def _find(self, source: Source) -> Section:
        if isinstance(source, s.ModuleSource) or self.known_key(source):
            return Section.STABLE
        if source.base is None:
            return Section.FIRST
        if not self.is_pure(source):
            return Section.LAST
        section = self._section_below(holder(source.base))
        return Section.LAST if section is Section.STABLE and source in self._varying else section

    def _section_below(self, base: Source) -> Section:
        """The section of what is read from the object at the end of `base`; the object then becomes
        an anchor where it can be one."""
        section = self.of(base)
        if section is Section.FIRST and self._stays(base):
            self.anchors[base] = None
            return Section.STABLE
        return section

    def is_pure(self, source: Source) -> bool:
        """Whether loading it, given its base, runs no Python and makes no object."""
        if isinstance(source, s.DictItem) and isinstance(source.of, s.InstanceDict):
            return type(source.key) is str
        return (
            isinstance(source, PURE_LOADS)
            or self.is_function_field(source)
            or self.is_property_field(source)
        )

    def known_key(self, source: Source) -> tuple[Any, ...]:
        """(key,) where `source` is a key of a dictionary and another guard names the object; ()
        otherwise."""
        if not isinstance(source, s.DictKey):
            return ()
        keys = self._keys.get(source.of, ())
        known = 0 <= source.index < len(keys) and not is_constant(keys[source.index])
        return keys[source.index : source.index + 1] if known else ()

    def is_function_field(self, source: Source) -> bool:
        """Whether it is a field of an object that another guard knows to be a function."""
        if not isinstance(source, s.AttrSource) or source.attr not in FUNCTION_FIELDS:
            return False
        return self._is_known(source.of, FunctionType)

    def is_property_field(self, source: Source) -> bool:
        """Whether it is a function of an object that another guard knows to be a property."""
        return (
            isinstance(source, s.AttrSource)
            and source.attr in PROPERTY_FIELDS
            and self._is_known(source.of, property)
        )

    def _is_known(self, source: Source, cls: type) -> bool:
        """Whether a guard checks that the object has exactly this class."""
        return any(
            guard.kind is Kind.TYPE
            and guard.expected is cls
            or guard.kind is Kind.IS
            and type(guard.expected) is cls
            for guard in self._by_source[source]
        )

    def _stays(self, source: Source) -> bool:
        """Whether calls usually find the same object here, so that watching its state is worth
        it."""
        if isinstance(source, s.GlobalsSource | s.BuiltinsSource):
            return True
        if isinstance(source, s.TypeOf):
            return any(
                guard.kind in (Kind.TYPE, Kind.TENSOR) for guard in self._by_source[source.of]
            )
        if is_closed_over(source) and self._is_known(source, FunctionType):
            return True
        return any(
            guard.kind is Kind.IS
            or guard.kind is Kind.TYPE
            and issubclass(guard.expected, torch.nn.Module)
            for guard in self._by_source[source]
        )


def paths_of(guards: Iterable[Guard], lifted: Iterable[Source]) -> set[Source]:
    """Every source that is loaded."""
    return paths_to(
        [*lifted, *(source for guard in guards for source in kind_of(guard).subjects(guard))]
    )


def paths_to(ends: Iterable[Source]) -> set[Source]:
    found: set[Source] = set()
    todo = list(ends)
    while todo:
        source = todo.pop()
        if source not in found:
            found.add(source)
            todo += source.operands
    return found


def is_closed_over(source: Source) -> bool:
    return isinstance(source, s.CellContents) and isinstance(source.of, s.ClosureSource)


def holder(source: Source) -> Source:
    """The object whose own dictionary `source` is, or the source itself: such dictionaries are read
    through their object."""
    return source.of if isinstance(source, s.InstanceDict) else source
