"""Steps to what an object or a class has: attributes, dictionaries, its type, its address."""

from __future__ import annotations

import ctypes
import gc
import types
import weakref
from collections import OrderedDict
from typing import Any

from ..encoded import Encoded
from ..native import UNBOUND
from .path import PathEnds, Source, path


@path
class AttrSource(Source):
    """getattr(of, attr), by the object's own protocol."""

    cost = 30
    written = "{0.of.name}.{0.attr}"
    of: Source
    attr: str

    def read(self, of: Any) -> Any:
        return getattr(of, self.attr)

    def encode(self) -> Encoded:
        return Encoded("ATTR", self.attr, runs_python=True)


def attribute_path(source: Source | None, name: str) -> Source | None:
    """The path to an attribute of the object at `source`; None without a source."""
    return source and AttrSource(source, name)


@path
class InstanceDict(Source):
    """The object's own `__dict__`, whatever its class defines; None for an object that can have
    none. A class has no instance dictionary in this sense: see ClassDict."""

    cost = 3
    written = "{0.of.name}.__dict__"
    of: Source

    def read(self, of: Any) -> dict[Any, Any] | None:
        if isinstance(of, type):
            raise PathEnds(self.name)
        return dictionary_of(of)

    def encode(self) -> Encoded:
        # making the dictionary may collect garbage
        return Encoded("INSTANCE_DICT", runs_python=True)


ctypes.pythonapi.PyObject_GenericGetDict.restype = ctypes.py_object
ctypes.pythonapi.PyObject_GenericGetDict.argtypes = [ctypes.py_object, ctypes.c_void_p]


def dictionary_of(obj: object) -> dict[Any, Any] | None:
    """An object's own `__dict__`, whatever its class defines; None if it has none."""
    try:
        return ctypes.pythonapi.PyObject_GenericGetDict(obj, None)
    except AttributeError:
        return None


@path
class TypeOf(Source):
    """type(of)."""

    cost = 1
    written = "type({0.of.name})"
    operation = "TYPE_OF"
    of: Source

    def read(self, of: Any) -> type:
        return type(of)


@path
class ClassDict(Source):
    """The dictionary of the class `of`: its own entries, not its bases'."""

    cost = 2
    written = "vars({0.of.name})"
    operation = "CLASS_DICT"
    of: Source

    def read(self, of: type) -> dict[Any, Any]:
        """The dictionary itself, which `__dict__` hides behind a mapping proxy."""
        return gc.get_referents(type.__dict__["__dict__"].__get__(of))[0]


@path
class ClassAttribute(Source):
    """The attribute of the class `of` under this name, in its own dictionary or the first along the
    method resolution order that has it; UNBOUND if there is none."""

    cost = 5
    written = "{0.of.name}.{0.attr}"
    of: Source
    attr: str

    def read(self, of: type) -> Any:
        for cls in type.__dict__["__mro__"].__get__(of):
            found = type.__dict__["__dict__"].__get__(cls)
            if self.attr in found:
                return found[self.attr]
        return UNBOUND

    def encode(self) -> Encoded:
        return Encoded("CLASS_ATTRIBUTE", self.attr)


VIEWS: tuple[type, ...] = tuple(
    type(getattr(cls(), what)())
    for cls in (dict, OrderedDict)
    for what in ("keys", "values", "items")
)
SHOWS_A_MAPPING = (types.MappingProxyType, *VIEWS)


@path
class ProxiedMapping(Source):
    """The mapping that a mapping proxy, or a view of a dictionary, shows."""

    written = "{0.of.name}"
    of: Source

    def read(self, of: Any) -> Any:
        if not isinstance(of, SHOWS_A_MAPPING):
            raise PathEnds(self.name)
        return gc.get_referents(of)[0]


@path
class MroItem(Source):
    """type.__mro__[index] of the class `of`."""

    cost = 1
    written = "{0.of.name}.__mro__[{0.index}]"
    of: Source
    index: int

    def read(self, of: type) -> type:
        return type.__dict__["__mro__"].__get__(of)[self.index]

    def encode(self) -> Encoded:
        return Encoded("MRO_ITEM", number=self.index)


@path
class Referent(Source):
    """The object of the weak reference `of`; None once it is dead."""

    cost = 50
    written = "{0.of.name}()"
    of: Source

    def read(self, of: weakref.ReferenceType[Any]) -> Any:
        return weakref.ReferenceType.__call__(of)

    def encode(self) -> Encoded:
        return Encoded("CALL", weakref.ReferenceType.__call__)


@path
class AddressOf(Source):
    """The id() of the object `of`. It says nothing about the object, which may be dead."""

    cost = 50
    written = "id({0.of.name})"
    of: Source

    def read(self, of: Any) -> int:
        return id(of)

    def encode(self) -> Encoded:
        return Encoded("CALL", id)
