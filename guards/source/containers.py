"""Steps into builtin containers."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import field
from typing import Any, ClassVar

from ..encoded import Encoded
from .frame import BuiltinsSource, GlobalsSource
from .objects import InstanceDict
from .path import PathEnds, Source, key_text, path

KEYS_BY_VALUE = frozenset({str, int, float, complex, bool, bytes, tuple, type(None)})
KEYS_THAT_VARY = frozenset({str, int})  # the types of keys that are paths themselves
# where a torch.nn.Module keeps what reads as an attribute
MODULE_TABLES = ("_modules", "_parameters", "_buffers")


@path
class DictItem(Source):
    """dict.__getitem__(of, key). The key is a constant with value equality (str, int, ..., or a
    tuple of such), or an object as itself."""

    cost = 4
    _name: ClassVar[str | None] = None
    of: Source
    key: Any

    @property
    def name(self) -> str:
        """Computed once, as those of parameters begin with those of their modules."""
        if self._name is None:
            object.__setattr__(self, "_name", self._compute_name())
        return str(self._name)

    def _compute_name(self) -> str:
        of = self.of
        if isinstance(of, InstanceDict):
            return f"{of.of.name}.{self.key}"
        if isinstance(of, DictItem) and of.is_module_table():
            owner = of.of.base
            assert owner is not None
            is_position = str(self.key).isdigit()
            return f"{owner.name}[{self.key}]" if is_position else f"{owner.name}.{self.key}"
        if isinstance(of, GlobalsSource | BuiltinsSource):
            return str(self.key)
        return f"{of.name}[{key_text(self.key)}]"

    def is_module_table(self) -> bool:
        return isinstance(self.of, InstanceDict) and self.key in MODULE_TABLES

    def __hash__(self) -> int:
        return hash((self.of, type(self.key), self.key))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DictItem)
            and type(self.key) is type(other.key)
            and (
                self.key is other.key or (type(self.key) in KEYS_BY_VALUE and self.key == other.key)
            )
            and (self.of is other.of or self.of == other.of)
        )

    def read(self, of: dict[Any, Any]) -> Any:
        missing = object()  # not dict.__getitem__, which calls a subclass's __missing__
        found = dict.get(of, self.key, missing)
        if found is missing:
            raise PathEnds(self.name)
        return found

    def encode(self) -> Encoded:
        return Encoded("DICT_ITEM", self.key)


def keys_of(mapping: dict[Any, Any]) -> list[Any]:
    """The keys in the order that plain iteration gives: an OrderedDict keeps one of its own."""
    base = OrderedDict if isinstance(mapping, OrderedDict) else dict
    return list(base.__iter__(mapping))


@path
class DictKey(Source):
    """The index-th key of the dictionary `of`, in its order."""

    cost = 4
    written = "list({0.of.name})[{0.index}]"
    of: Source
    index: int

    def read(self, of: dict[Any, Any]) -> Any:
        if self.index < 0:
            raise PathEnds(self.name)
        return keys_of(of)[self.index]

    def encode(self) -> Encoded:
        return Encoded("DICT_KEY", number=self.index, runs_python=True)


class KeyedStep(Source):
    """A lookup in the dictionary or set `of` by the str or int at the path `key`, which may be
    another one in each call."""

    cost = 10
    containers: ClassVar[tuple[type, ...]] = (dict,)
    of: Source
    key: Source

    @property
    def operands(self) -> tuple[Source, ...]:
        return self.of, self.key

    def read(self, of: tuple[Any, Any]) -> Any:
        container, key = of
        if not isinstance(container, self.containers) or type(key) not in KEYS_THAT_VARY:
            raise PathEnds(self.name)
        return self.look_up(container, key)

    def look_up(self, of: Any, key: Any) -> Any:
        """What the lookup finds."""
        raise NotImplementedError


@path
class ItemAtKey(KeyedStep):
    """dict.__getitem__(of, key). Ends where the dictionary does not have the key."""

    written = "{0.of.name}[{0.key.name}]"
    of: Source
    key: Source

    def look_up(self, of: dict[Any, Any], key: Any) -> Any:
        missing = object()  # not dict.__getitem__, which calls a subclass's __missing__
        found = dict.get(of, key, missing)
        if found is missing:
            raise PathEnds(self.name)
        return found

    def encode(self) -> Encoded:
        return Encoded("ITEM_AT_KEY")


@path
class HasKey(KeyedStep):
    """Whether a dictionary or set has the key, as their own __contains__ tells."""

    containers = (dict, set)
    written = "({0.key.name} in {0.of.name})"
    of: Source
    key: Source

    def look_up(self, of: Any, key: Any) -> Any:
        base: Any = dict if isinstance(of, dict) else set
        return base.__contains__(of, key)

    def encode(self) -> Encoded:
        return Encoded("HAS_KEY")


@path
class SequenceItem(Source):
    """list.__getitem__ or tuple.__getitem__(of, index); subclasses allowed, their own __getitem__
    ignored. `label`: a name for it, such as the variable whose value an item of the state is."""

    cost = 1
    of: Source
    index: int
    label: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return self.label or f"{self.of.name}[{self.index}]"

    def read(self, of: list[Any] | tuple[Any, ...]) -> Any:
        base: Any = list if isinstance(of, list) else tuple
        return base.__getitem__(of, self.index)

    def encode(self) -> Encoded:
        return Encoded("SEQUENCE_ITEM", number=self.index)
