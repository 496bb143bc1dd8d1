"""Instances of user classes: special methods, subclasses of builtin containers."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Source
from ..base import (
    Args,
    Kwargs,
    ObservedException,
    PendingCall,
    Value,
    check_result_type,
    none_if_stopped,
    require_path,
    take,
)
from ..constant import Constant
from ..containers.builtin_container import BoundBuiltin, BuiltinContainer
from ..containers.list import ListValue
from ..containers.mapping import DictValue, builtin_base, default_factory_of
from ..containers.sequence import TupleValue, wrapped_items
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import ItemIterator, ReversedItems
from ..numpy.numpy_object import wrap_numpys
from ..operation import UnaryOperation
from .attribute_storage import instance_dict, is_slot, storage_class, store_in_dictionary
from .class_value import ClassValue, bind
from .mro import MISSING, lookup
from .object_attributes import ObjectAttributes

MADE_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)
ITER_OF_DICT = vars(dict)["__iter__"]


class UserObject(ObjectAttributes):
    """An instance of a class written in Python."""

    __slots__ = ()

    def key(self, tx: TraceContext) -> Any:
        found = lookup(self.cls, "__hash__")[1]
        if found is None:
            raise tx.exceptions.new(TypeError, f"unhashable type: '{self.cls.__name__}'")
        if found is not object.__hash__ or lookup(self.cls, "__eq__")[1] is not object.__eq__:
            raise self.unsupported_use("as a dictionary key, by its own __hash__ or __eq__")
        return tx.objects.identity_key(self, self.real)

    def lost_objects(self, tx: TraceContext) -> Iterable[Any]:
        """What its dictionary held under names that were stored; of slots it is not known."""
        own = instance_dict(self.real) or {}
        for name in self.attrs:
            raw = lookup(self.cls, name)[1]
            yield object() if isinstance(raw, types.MemberDescriptorType) else own.get(name)

    def special_method(self, tx: TraceContext, name: str) -> Value | None:
        """The method that Python looks up on the class for an operation, bound; None if there is
        none."""
        raw, source = self.raw_attribute(tx, name)
        if raw is MISSING:
            return None
        if raw is None:  # so that the operation is refused
            raise GraphBreak("exception-leaves", f"TypeError: {self.describe()} has no {name}")
        if self.base is not None and isinstance(
            raw, types.MethodDescriptorType | types.WrapperDescriptorType
        ):
            if raw.__objclass__ is not object:
                return BoundBuiltin(self.base, name)
        return bind(tx, raw, self, ClassValue(self.cls), source)

    def _call_special(self, tx: TraceContext, name: str, args: list[Value], what: str) -> Value:
        found = self.special_method(tx, name)
        if found is None:
            raise tx.exceptions.new(TypeError, f"'{self.cls.__name__}' object {what}")
        return found.call(tx, args, {})

    def truth(self, tx: TraceContext) -> bool:
        as_bool = self.special_method(tx, "__bool__")
        if as_bool is not None:
            return check_result_type(as_bool.call(tx, [], {}), bool, "__bool__").truth(tx)
        return True if self.special_method(tx, "__len__") is None else self.length(tx).truth(tx)

    def tail_call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> PendingCall:
        found = self.special_method(tx, "__call__")
        if found is None:
            raise tx.exceptions.new(TypeError, f"'{self.cls.__name__}' object is not callable")
        return PendingCall(found, args, kwargs)

    def list_items(self, tx: TraceContext) -> list[Value]:
        iterator = self.iterator(tx)
        self.ask_length(tx)
        return take(tx, iterator)

    def ask_length(self, tx: TraceContext) -> None:
        for name in ("__len__", "__length_hint__"):
            if type(self) is UserObject and not isinstance(lookup(self.cls, name)[1], MADE_IN_C):
                if self.special_method(tx, name) is None:
                    continue
                try:
                    check_result_type(self._call_special(tx, name, [], ""), int, "__len__")
                except ObservedException as error:
                    if error.cls is TypeError:  # list() does without the length then
                        raise GraphBreak("exception-leaves", f"TypeError of {name}()") from error
                    raise
                return

    def mapping_pairs(self, tx: TraceContext) -> list[tuple[Value, Value]]:
        if self.base is not None and lookup(self.cls, "__iter__")[1] is ITER_OF_DICT:
            # C takes its items, whatever the class has for keys() and __getitem__
            return self.base.mapping_pairs(tx)
        if hasattr(self.cls, "keys"):
            return [(key, self.item(tx, key)) for key in self.method(tx, "keys", [], {}).unpack(tx)]
        return super().mapping_pairs(tx)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        if self.special_method(tx, "__reversed__") is not None:
            return super().reverse_iterator(tx)
        if self.base is not None or self.special_method(tx, "__getitem__") is None:
            raise GraphBreak(
                "unknown-call", f"reversed() of {self.describe()}, which has no __reversed__"
            )
        return ReversedItems(tx, self)

    def iterator(self, tx: TraceContext) -> Value:
        """By __iter__, else by __getitem__ with 0, 1, 2, ..., as Python does."""
        if self.cls is types.GeneratorType or (
            self.cls.__module__ in ("builtins", "itertools") and hasattr(self.cls, "__next__")
        ):
            return self  # made in C, it is its own iterator
        found = self.special_method(tx, "__iter__")
        if found is not None:
            made = found.call(tx, [], {})
            if lookup(made.python_type(), "__next__")[0] is None:
                raise tx.exceptions.new(
                    TypeError,
                    f"iter() returned non-iterator of type '{made.python_type().__name__}'",
                )
            return made
        if self.special_method(tx, "__getitem__") is None:
            raise self.unsupported_use("iteration")  # the message depends on who asks
        return ItemIterator(self)

    def next(self, tx: TraceContext) -> Value | None:
        return none_if_stopped(lambda: self.advance(tx))

    def advance(self, tx: TraceContext) -> Value:
        return self._call_special(tx, "__next__", [], "is not an iterator")

    def length(self, tx: TraceContext) -> Value:
        found = self.special_method(tx, "__len__")
        if found is None:
            raise tx.exceptions.new(TypeError, f"object of type '{self.cls.__name__}' has no len()")
        return check_result_type(found.call(tx, [], {}), int, "__len__")

    def item(self, tx: TraceContext, key: Value) -> Value:
        return self._call_special(tx, "__getitem__", [key], "is not subscriptable")

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        self._call_special(tx, "__setitem__", [key, value], "does not support item assignment")

    def del_item(self, tx: TraceContext, key: Value) -> None:
        self._call_special(tx, "__delitem__", [key], "does not support item deletion")

    def contains(self, tx: TraceContext, item: Value) -> Value:
        found = self.special_method(tx, "__contains__")
        if found is not None:
            return Constant(found.call(tx, [item], {}).truth(tx))
        if (
            self.special_method(tx, "__iter__") is None
            and self.special_method(tx, "__getitem__") is None
        ):
            raise tx.exceptions.new(
                TypeError, f"argument of type '{self.cls.__name__}' is not iterable"
            )
        return Constant(any(tx.objects.is_equal(candidate, item) for candidate in self.unpack(tx)))

    # generated code

    def reconstruct(self, emit: Emitter) -> None:
        laid_out = types.SimpleNamespace if issubclass(self.cls, types.SimpleNamespace) else object
        new = laid_out.__new__ if self.base is None else self.base.python_type().__new__
        arguments = [] if self.base is None else self.base.new_arguments(emit)
        emit.call(new, [emit.const(self.cls), *arguments])
        emit.keep(self)
        if self.base is not None:
            self.base.emit_fill(emit, self)
        self._emit_new_attributes(emit)

    def _emit_new_attributes(self, emit: Emitter) -> None:
        if self.assigned is not None:
            emit.run(object.__setattr__, [self, emit.const("__dict__"), self.assigned])
        for name, stored in self.attrs.items():
            if stored is not None:
                self.emit_store(emit, name, stored)

    def emit_changes(self, emit: Emitter) -> None:
        for name, item in self.attrs.items():
            if name in self.renewed or item is None:
                emit.run(storage_class(self.cls).__delattr__, [self, emit.const(name)])
            if item is not None:
                self.emit_store(emit, name, item)

    def emit_store(self, emit: Emitter, name: str, item: Value) -> None:
        """Emits the store of an attribute past the class's own __setattr__. Behind a descriptor
        that takes stores for itself it goes into the object's dictionary."""
        in_class = lookup(self.cls, name)[1]
        hidden = not is_slot(in_class) and hasattr(type(in_class), "__set__")
        setter = store_in_dictionary if hidden else storage_class(self.cls).__setattr__
        emit.run(setter, [self, emit.const(name), item])

    def iterates_in_python(self) -> bool:
        return not isinstance(lookup(self.cls, "__iter__")[1], types.WrapperDescriptorType)

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value | None:
        found = self.special_method(tx, op.name)
        return None if found is None else found.call(tx, [], {})

    def content(self) -> Value:
        return self if self.base is None else self.base


def wrap_object(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    """The value of an instance of any class without a rule of its own, with the builtin container
    that it may be as well."""
    if type(obj).__module__ == "numpy":
        found = wrap_numpys(tx, obj, source)
        if found is not None:
            return found
    source = require_path(obj, source)
    tx.guards.add(source, Kind.TYPE, type(obj))
    base: BuiltinContainer | None = None
    cls = type(obj)  # what an object says of itself may be another's class
    if type(cls).__hash__ is None:
        raise GraphBreak("unsupported-value", f"a {cls.__name__}, whose class has no hash")
    if issubclass(cls, dict):
        base = DictValue(
            None, source, obj, builtin_base(type(obj)), default_factory_of(tx, obj, source)
        )
    elif issubclass(cls, list):
        base = ListValue(wrapped_items(tx, obj, source), source)
    elif issubclass(cls, tuple):
        base = TupleValue(wrapped_items(tx, obj, source), source)
    elif issubclass(cls, (int, float, complex, str, bytes, bytearray, set, frozenset, super)):
        raise GraphBreak(
            "unsupported-value", f"a {type(obj).__name__} (a subclass of a builtin type)"
        )
    value = UserObject(type(obj), obj, source, base)
    own = instance_dict(obj)
    if own is not None and value.keeps_all_in_dictionary():
        value.assigned = tx.objects.share_dictionary(value, own)
    return tx.objects.remember(obj, value)
