"""Read-only objects that a pure query made while tracing (an inspect.Signature, a
dataclasses.Field)."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Args, Kwargs, Value
from ..constant import LITERAL_TYPES, Constant, fold
from ..containers.mapping import DictValue
from ..containers.mapping_proxy import MappingProxyValue
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import IdentityKey
from ..registry import wraps


class FrozenObject(Value):
    """An immutable object of the standard library. Its attributes are literals, classes or more
    such objects."""

    __slots__ = ("real",)
    is_code_constant = True

    def __init__(self, real: Any) -> None:
        super().__init__()
        self.real = real

    def python_type(self) -> type:
        return type(self.real)

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.real

    def key(self, tx: TraceContext) -> Any:
        return IdentityKey(self.real)

    def truth(self, tx: TraceContext) -> bool:
        return bool(self.real)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if not hasattr(self.real, name):
            raise tx.exceptions.no_attribute(type(self.real).__name__, name)
        found = getattr(self.real, name)
        if isinstance(found, types.MappingProxyType):
            if not isinstance(self.real, inspect.Signature):  # what it shows may change
                raise GraphBreak("unsupported-value", "a mappingproxy")
            parameters: dict[Any, tuple[Value, Value]] = {
                key: (Constant(key), FrozenObject(item)) for key, item in found.items()
            }
            return MappingProxyValue(DictValue(parameters, cls=type(found.copy())))
        if type(found) in LITERAL_TYPES or isinstance(found, type | tuple | list):
            return tx.wrap(found, None)
        return FrozenObject(found)

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        origin = getattr(self.real, "__origin__", None)
        if isinstance(origin, type):  # Generic[int](...): the class makes the object
            made = tx.wrap(origin, None).call(tx, args, kwargs)
            if issubclass(made.python_type(), typing.Generic):
                made.set_attribute(tx, "__orig_class__", self)
            return made
        return fold(tx, self.real, args, kwargs)  # a bound method of such an object

    def length(self, tx: TraceContext) -> Value:
        return fold(tx, len, [self], {})

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return fold(tx, lambda obj, other: other in obj, [self, item], {})

    def item(self, tx: TraceContext, key: Value) -> Value:
        try:
            found = self.real[key.literal(tx)]
        except Exception as error:
            raise GraphBreak("exception-leaves", type(error).__name__) from error
        if type(found) in LITERAL_TYPES or isinstance(found, type):
            return tx.wrap(found, None)
        return FrozenObject(found)

    def iterator(self, tx: TraceContext) -> Value:
        items = [
            tx.wrap(item, None) if type(item) in LITERAL_TYPES else FrozenObject(item)
            for item in self.real
        ]
        return tx.make.list_of(items).iterator(tx)

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_literal(self.real)


FORMS = (
    typing.Any, typing.List[int], typing.Union[int, str], typing.Callable,  # noqa: UP006, UP007
    typing.Optional, typing.TypeVar("T"),
    collections.abc.Callable[[int], int],
)  # fmt: skip


TYPING_FORMS: tuple[type, ...] = tuple({type(form) for form in FORMS} - {type, types.GenericAlias})


@wraps(types.GenericAlias, types.UnionType, *TYPING_FORMS)
def wrap_frozen(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    tx.guards.add(source, Kind.IS, obj)
    return FrozenObject(obj)
