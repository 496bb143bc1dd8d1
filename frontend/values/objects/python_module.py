"""Python modules: their attributes are paths by name."""

from __future__ import annotations

import sys
import types

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, InstanceDict, ModuleSource, Source
from ..base import Value
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import IdentityKey
from ..registry import wraps_subclasses
from .mro import lookup


def lookup_in_module_type(name: str) -> object:
    """The attribute of module objects that is not in their own dictionary."""
    return vars(types.ModuleType).get(name, vars(object).get(name))


class PythonModule(Value):
    """A module object."""

    __slots__ = ("real",)

    def __init__(self, real: types.ModuleType, source: Source | None = None) -> None:
        name = vars(real).get("__name__")
        if isinstance(name, str) and sys.modules.get(name) is real:
            source = ModuleSource(name)
        super().__init__(source)
        self.real = real

    def python_type(self) -> type:
        return type(self.real)

    def describe(self) -> str:
        return f"module {vars(self.real).get('__name__')}"

    def key(self, tx: TraceContext) -> IdentityKey:
        return IdentityKey(self.real)

    def is_same(self, other: Value) -> bool:
        return isinstance(other, PythonModule) and self.real is other.real

    def attribute(self, tx: TraceContext, name: str) -> Value:
        """An attribute of a module: what the program stored, its variable, or what its __getattr__
        gives."""
        own = vars(self.real)
        if (id(own), name) in tx.effects.globals:
            return tx.effects.globals[id(own), name][1]
        if name in own:
            return tx.objects.wrap_global(
                own[name], self.source and DictItem(InstanceDict(self.source), name)
            )
        if name == "__dict__":
            return tx.wrap(own, self.source and InstanceDict(self.source))
        tx.guards.add(self.source, Kind.TYPE, type(self.real))
        try:
            found = getattr(self.real, name)  # a lazy module imports on demand, once
        except AttributeError as error:
            tx.guards.add(self.source and InstanceDict(self.source), Kind.ABSENT, name)
            raise tx.exceptions.new(AttributeError, *error.args) from None
        if name in vars(self.real):
            return tx.objects.wrap_global(
                found, self.source and DictItem(InstanceDict(self.source), name)
            )
        return tx.wrap(found, self.source and AttrSource(self.source, name))

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if type(self.real) is not types.ModuleType or hasattr(
            lookup_in_module_type(name), "__set__"
        ):
            raise GraphBreak("unsupported-mutation", f"of '{name}' of {self.describe()}")
        tx.effects.set_global(vars(self.real), name, value)

    def reconstruct(self, emit: Emitter) -> None:
        emit.builder.load_const(self.real)


MODULE_DICT = vars(types.ModuleType)["__dict__"]


@wraps_subclasses(types.ModuleType)
def wrap_module_object(tx: TraceContext, obj: types.ModuleType, source: Source | None) -> Value:
    if (
        type(type(obj).__getattribute__) is types.FunctionType
        or lookup(type(obj), "__dict__")[1] is not MODULE_DICT
    ):
        raise GraphBreak(
            "unsupported-value", "a module with a __getattribute__ or __dict__ of its own"
        )
    tx.guards.add(source, Kind.IS, obj)
    return PythonModule(obj, source)
