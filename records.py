"""`record`: a frozen dataclass that is cheap to define.

`dataclasses` compiles six functions for each class, which was a quarter of the time that framejit
took to import. Here it compiles `__init__`; the other methods are shared by all classes.
Assignments to fields are errors of the type checker, not at run time.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Makes a class a dataclass with the methods of `dataclass(frozen=True)`, without
    `__setattr__` and `__delattr__`. Methods that the class defines itself stay."""
    own = dict(vars(cls))
    made: Any = dataclass(eq=False, repr=False)(cls)
    compared = [one.name for one in fields(made) if one.compare]
    made._compared_fields = staticmethod(reader_of(compared))
    for name, method in METHODS.items():
        if own.get(name) is None:  # __hash__ is None where a class defines only __eq__
            setattr(made, name, method)
    return made


def reader_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of these fields as a tuple."""
    if not names:
        return lambda instance: ()
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda instance: (read(instance),)


def equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared_fields(self) == other._compared_fields(other)


def compute_hash(self: Any) -> int:
    return hash(self._compared_fields(self))


@reprlib.recursive_repr()
def represent(self: Any) -> str:
    shown = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


METHODS = {"__eq__": equal, "__hash__": compute_hash, "__repr__": represent}
