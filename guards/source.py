"""Sources: paths from a frame to an object. A guard checks the object at the end of one, a load
follows it. Frozen and hashable, so equal paths are one path (CSE is a dictionary). They know no
bytecode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True)
def path(cls: type) -> type:
    """A frozen dataclass whose hash is computed once: paths are used as keys everywhere, and are
    long."""
    made: Any = dataclass(frozen=True)(cls)
    compute = made.__hash__

    def cached_hash(self: Any) -> int:
        known = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = compute(self)
        return known

    made.__hash__ = cached_hash
    return made


KEYS_BY_VALUE = frozenset({str, int, float, complex, bool, bytes, tuple, type(None)})
MODULE_TABLES = (
    "_modules",
    "_parameters",
    "_buffers",
)  # where torch.nn.Module keeps what reads as an attribute


def safe_repr(value: Any) -> str:
    """repr(), which Python refuses for ints of very many digits."""
    try:
        return repr(value)
    except ValueError:
        return f"{type(value).__name__} of too many digits"


@path
class Source:
    """A path. `name` is how a person would write it."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    @property
    def base(self) -> Source | None:
        """The path it extends; None for a root."""
        return getattr(self, "of", None)


@path
class SlotSource(Source):
    """Root: the object in an argument slot of the frame (a continuation's only slot, 0, holds its
    state tuple)."""

    index: int
    label: str

    @property
    def name(self) -> str:
        return self.label


@path
class ClosureSource(Source):
    """Root: cell number `index` of the frame function's closure (the cell, not its contents)."""

    index: int
    label: str

    @property
    def name(self) -> str:
        return f"<cell {self.label}>"


@path
class GlobalsSource(Source):
    """Root: the globals dictionary of the frame's function."""

    @property
    def name(self) -> str:
        return "globals()"


@path
class BuiltinsSource(Source):
    """Root: the builtins dictionary of the frame's function."""

    @property
    def name(self) -> str:
        return "builtins"


@path
class ModuleSource(Source):
    """Root: sys.modules[module], looked up when the program is bound, not at every call."""

    module: str

    @property
    def name(self) -> str:
        return self.module


@path
class TorchStateSource(Source):
    """Root: torch's thread-local and global modes, for guards of kind TORCH_STATE; it has no
    object."""

    @property
    def name(self) -> str:
        return "torch state"


@path
class CellContents(Source):
    """The contents of the cell `of`."""

    of: Source

    @property
    def name(self) -> str:
        return (
            self.of.label if isinstance(self.of, ClosureSource) else f"{self.of.name}.cell_contents"
        )


@path
class AttrSource(Source):
    """getattr(of, attr), by the object's own protocol."""

    of: Source
    attr: str

    @property
    def name(self) -> str:
        return f"{self.of.name}.{self.attr}"


def attribute_path(source: Source | None, name: str) -> Source | None:
    """The path to an attribute of the object at `source`; None without a source."""
    return source and AttrSource(source, name)


@path
class InstanceDict(Source):
    """The object's own `__dict__`, whatever its class defines."""

    of: Source

    @property
    def name(self) -> str:
        return f"{self.of.name}.__dict__"


@path
class TypeOf(Source):
    """type(of)."""

    of: Source

    @property
    def name(self) -> str:
        return f"type({self.of.name})"


@path
class ClassDict(Source):
    """The dictionary of the class `of` (its own entries, not its bases')."""

    of: Source

    @property
    def name(self) -> str:
        return f"vars({self.of.name})"


@path
class ClassAttribute(Source):
    """The attribute of the class `of` under this name, in its own dictionary or the first along the
    method resolution order that has it; UNBOUND if there is none."""

    of: Source
    attr: str

    @property
    def name(self) -> str:
        return f"{self.of.name}.{self.attr}"


@path
class MroItem(Source):
    """type.__mro__[index] of the class `of`."""

    of: Source
    index: int

    @property
    def name(self) -> str:
        return f"{self.of.name}.__mro__[{self.index}]"


@path
class DictItem(Source):
    """dict.__getitem__(of, key). The key is a constant with value equality (str, int, ..., or a
    tuple of such), or an object as itself."""

    of: Source
    key: Any

    @property
    def name(self) -> str:
        if isinstance(self.of, InstanceDict):
            return f"{self.of.of.name}.{self.key}"
        if (
            isinstance(self.of, DictItem)
            and isinstance(self.of.of, InstanceDict)
            and self.of.key in MODULE_TABLES
        ):
            owner = self.of.of.of.name
            return f"{owner}[{self.key}]" if str(self.key).isdigit() else f"{owner}.{self.key}"
        if isinstance(self.of, GlobalsSource | BuiltinsSource):
            return str(self.key)
        return f"{self.of.name}[{safe_repr(self.key)}]"

    def __hash__(self) -> int:
        return hash((self.of, type(self.key), self.key))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DictItem)
            and type(self.key) is type(other.key)
            and (
                self.key is other.key or (type(self.key) in KEYS_BY_VALUE and self.key == other.key)
            )
            and self.of == other.of
        )


@path
class DictKey(Source):
    """The index-th key of the dictionary `of`, in its order."""

    of: Source
    index: int

    @property
    def name(self) -> str:
        return f"list({self.of.name})[{self.index}]"


@path
class SequenceItem(Source):
    """list.__getitem__ or tuple.__getitem__(of, index); subclasses allowed, their own __getitem__
    ignored."""

    of: Source
    index: int

    @property
    def name(self) -> str:
        return f"{self.of.name}[{self.index}]"


@path
class IteratorItem(Source):
    """The index-th item that the range, list or tuple iterator `of` still has, or that the deque,
    set or dictionary (of its values) `of` holds."""

    of: Source
    index: int

    @property
    def name(self) -> str:
        return (
            f"next({self.of.name})"
            if self.index == 0
            else f"next({self.of.name}, after {self.index})"
        )


@path
class IteratorPart(Source):
    """A part of the iterator `of`: the place-th of its inner iterators, function and number, the
    number with `ahead` added; at place WALKED the container that it iterates over, or itself
    without one."""

    of: Source
    place: int
    ahead: int = 0

    @property
    def name(self) -> str:
        what = "walked" if self.place == WALKED else str(self.place)
        return f"{self.of.name}<{what}>" + (f" + {self.ahead}" if self.ahead else "")


WALKED = -1


@path
class Referent(Source):
    """The object of the weak reference `of`; None once it is dead."""

    of: Source

    @property
    def name(self) -> str:
        return f"{self.of.name}()"


@path
class ProxiedMapping(Source):
    """The mapping behind the mappingproxy `of`."""

    of: Source

    @property
    def name(self) -> str:
        return f"{self.of.name}<shown>"


@path
class CachedResult(Source):
    """The result of the cached function `of` for these literals. `types`: theirs and the keywords',
    as 1 and 1.0 may differ."""

    of: Source
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    types: tuple[type, ...]

    @property
    def name(self) -> str:
        return f"{self.of.name}({', '.join([*map(safe_repr, self.args), *(f'{name}={safe_repr(value)}' for name, value in self.kwargs)])})"


@path
class Calculated(Source):
    """A number calculated from the number `of`: `function` called with literals before and after
    it. `text` tells literals apart that are equal (1 and 1.0)."""

    of: Source
    function: Callable[..., Any]
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()
    text: str = ""

    @property
    def name(self) -> str:
        operands = [
            *map(safe_repr, self.before),
            self.of.name,
            *map(safe_repr, self.after),
        ]
        return f"{getattr(self.function, '__name__', self.function)}({', '.join(operands)})"

    def calculate(self, number: Any) -> Any:
        """What the program's function gives for a number."""
        return self.function(*self.before, number, *self.after)


@path
class AddressOf(Source):
    """The id() of the object `of`. It says nothing about the object, which may be dead."""

    of: Source

    @property
    def name(self) -> str:
        return f"id({self.of.name})"


@path
class HandledOutside(Source):
    """The exception that was being handled when the frame was entered, None if there was none."""

    of: Source = TorchStateSource()

    @property
    def name(self) -> str:
        return "sys.exception()"


@path
class EnteredRandomState(Source):
    """The state of torch's CPU generator when the frame was entered, in a tensor of its own."""

    of: Source = TorchStateSource()

    @property
    def name(self) -> str:
        return "torch.get_rng_state()"


@path
class PlainTensor(Source):
    """The tensor `of`, an instance of a subclass, as a plain tensor."""

    of: Source

    @property
    def name(self) -> str:
        return f"{self.of.name}.as_subclass(Tensor)"


@path
class TensorProperty(Source):
    """A number of the tensor `of`: `what` is "size" or "stride" (with the dimension) or
    "storage_offset"."""

    of: Source
    what: str
    dim: int

    @property
    def name(self) -> str:
        return f"{self.of.name}.{self.what}({self.dim if self.what != 'storage_offset' else ''})"
