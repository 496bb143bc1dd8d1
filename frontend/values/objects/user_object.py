"""Instances of user classes: attribute protocol, special methods, subclasses of builtin
containers."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, InstanceDict, Source, TypeOf, attribute_path
from ..base import (
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
from ..containers.mapping import DictValue, builtin_base, default_factory_of
from ..containers.sequence import FIELD, ListValue, TupleValue, wrapped_items
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import ItemIterator
from ..mutable import Mutable
from ..numpy.numpy_object import wrap_numpys
from ..operation import UnaryOperation
from .attribute_storage import (
    has_own_lookup,
    instance_dict,
    slot_is_bound,
    slot_of,
    store_in_dictionary,
)
from .class_value import (
    ClassValue,
    bind,
    has_plain_names,
    property_function,
    raw_attribute,
    stored_in_class,
)
from .mro import MISSING, lookup, name_in_c

CLASS_OF_OBJECT = vars(object)["__class__"]
PLAIN_CLASS = (object, typing.Generic)  # whose __class__ is type(self)

MADE_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)
ITER_OF_DICT = vars(dict)["__iter__"]


class UserObject(Mutable):
    """An instance of a class written in Python. `real` is the object when it existed before the
    frame. `attrs` overlays its instance dictionary: what the traced program stored (None: deleted).
    `base` holds the builtin container inside an instance of a subclass of one."""

    __slots__ = ("cls", "real", "attrs", "renewed", "seen", "base", "namespace")
    state: tuple[str, ...] = ("attrs", "renewed")

    def __init__(
        self,
        cls: type,
        real: Any = None,
        source: Source | None = None,
        base: BuiltinContainer | None = None,
    ) -> None:
        super().__init__(source)
        self.cls, self.real, self.base = cls, real, base
        if base is not None:
            base.outer = self
        self.attrs: dict[str, Value | None] = {}
        self.renewed: set[str] = set()  # deleted and stored again, so after the others now
        # the instance dictionary as an object, once it was read
        self.namespace: Value | None = None
        self.seen: dict[str, Value] = {}  # instance attributes of `real` realised so far

    def key(self, tx: TraceContext) -> Any:
        found = lookup(self.cls, "__hash__")[1]
        if found is None:
            raise tx.exceptions.new(TypeError, f"unhashable type: '{self.cls.__name__}'")
        if found is not object.__hash__ or lookup(self.cls, "__eq__")[1] is not object.__eq__:
            raise self.unsupported_use("as a dictionary key, by its own __hash__ or __eq__")
        return tx.objects.identity_key(self, self.real)

    # attributes

    def own_attribute(self, tx: TraceContext, name: str) -> Value | None:
        """The item of the instance dictionary, or None."""
        if name in self.attrs:
            return self.attrs[name]
        if name in self.seen:
            return self.seen[name]
        own = instance_dict(self.real)
        if own is None:
            return None
        if not self.seen and not has_plain_names(own):
            raise self.unsupported_use("its dictionary has keys that are no names")
        path = self.source and InstanceDict(self.source)
        if name not in own:
            tx.guards.add(path, Kind.ABSENT, name)
            return None
        value = self.seen[name] = tx.wrap(own[name], path and DictItem(path, name))
        return value

    def of_class(self, tx: TraceContext, name: str) -> Value:
        """The class's attribute, unbound."""
        return tx.wrap(*raw_attribute(tx, self.cls, name, self.source and TypeOf(self.source)))

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__class__" and lookup(self.cls, name)[0] in PLAIN_CLASS:
            return ClassValue(self.cls, self.source and TypeOf(self.source))
        if name == "__dict__":
            return self.dictionary(tx)
        getter = lookup(self.cls, "__getattribute__")[1]
        if type(getter) is types.FunctionType:
            return self._guarded_by_getattr(
                tx,
                name,
                lambda: self.of_class(tx, "__getattribute__").call(tx, [self, Constant(name)], {}),
            )
        return self._guarded_by_getattr(tx, name, lambda: self.generic_attribute(tx, name))

    def getter(self, tx: TraceContext, name: str) -> PendingCall | None:
        """The call of a property's function whose result is the attribute as it is; None if there
        is no such call."""
        if stored_in_class(tx, self.cls, name, self.source and TypeOf(self.source)) is not MISSING:
            return None
        raw, source = raw_attribute(tx, self.cls, name, self.source and TypeOf(self.source))
        plain = (
            type(lookup(self.cls, "__getattribute__")[1]) is not types.FunctionType
            and lookup(self.cls, "__getattr__")[0] is None
        )
        if not plain or type(raw) is not property or raw.fget is None:
            return None
        return PendingCall(tx.wrap(raw.fget, attribute_path(source, "fget")), [self], {})

    def setter(self, tx: TraceContext, name: str, value: Value) -> PendingCall | None:
        """The call that sets an attribute, if a property's function or __setattr__ does."""
        method = lookup(self.cls, "__setattr__")[1]
        if type(method) is types.FunctionType:
            return PendingCall(self.of_class(tx, "__setattr__"), [self, Constant(name), value], {})
        raw, source = raw_attribute(tx, self.cls, name, self.source and TypeOf(self.source))
        if type(raw) is not property or raw.fset is None:
            return None
        return PendingCall(tx.wrap(raw.fset, attribute_path(source, "fset")), [self, value], {})

    def _guarded_by_getattr(self, tx: TraceContext, name: str, get: Any) -> Value:
        fallback, source = raw_attribute(
            tx, self.cls, "__getattr__", self.source and TypeOf(self.source)
        )
        if fallback is MISSING:
            return get()
        try:
            return get()
        except ObservedException as error:
            if not issubclass(error.cls, AttributeError):
                raise
        return tx.wrap(fallback, source).call(tx, [self, Constant(name)], {})

    def generic_attribute(self, tx: TraceContext, name: str) -> Value:
        """object.__getattribute__."""
        self._require_generic_attributes(name)
        stored = stored_in_class(tx, self.cls, name, self.source and TypeOf(self.source))
        if stored is not MISSING:  # no descriptor
            own = self.own_attribute(tx, name)
            return stored if own is None else own
        raw, source = raw_attribute(tx, self.cls, name, self.source and TypeOf(self.source))
        if raw is not MISSING:
            if isinstance(raw, property) and type(raw).__get__ is property.__get__:
                if raw.fget is None:
                    raise GraphBreak("exception-leaves", "AttributeError of a property")
                return property_function(tx, raw, source, "fget").call(tx, [self], {})
            if name == "__dict__" and isinstance(raw, types.GetSetDescriptorType):
                return self.dictionary(tx)
            if name == "__class__" and raw is CLASS_OF_OBJECT:
                return ClassValue(self.cls, self.source and TypeOf(self.source))
            if isinstance(raw, types.MemberDescriptorType):
                base = self.base if self._of_base(raw) else None
                return self._slot(tx, name) if base is None else base.attribute(tx, name)
            if hasattr(type(raw), "__set__") and hasattr(type(raw), "__get__"):
                return self._descriptor(tx, raw, name, source)
        own = self.own_attribute(tx, name)
        if own is not None:
            return own
        if raw is MISSING:
            raise tx.exceptions.no_attribute(name_in_c(self.cls), name)
        if isinstance(raw, functools.cached_property):
            value = tx.wrap(raw.func, attribute_path(source, "func")).call(tx, [self], {})
            tx.effects.change(self)
            self.attrs[name] = value
            return value
        if self.base is not None and isinstance(
            raw, types.MethodDescriptorType | types.WrapperDescriptorType
        ):
            if (
                issubclass(self.base.python_type(), raw.__objclass__)
                and raw.__objclass__ is not object
            ):
                return BoundBuiltin(self.base, name)
        return bind(
            tx, raw, self, ClassValue(self.cls, self.source and TypeOf(self.source)), source
        )

    def _require_generic_attributes(self, name: str) -> None:
        """Leaves to Python what an object that finds attributes in its own way, in C, has under a
        name: another thing in each thread, say."""
        if has_own_lookup(self.cls):
            raise self.unsupported_use(f"attribute '{name}', which its class looks up in C")

    def _of_base(self, raw: types.MemberDescriptorType) -> bool:
        """Whether a slot belongs to the builtin container inside."""
        return self.base is not None and raw.__objclass__ is self.base.python_type()

    def _slot(self, tx: TraceContext, name: str) -> Value:
        if name in self.attrs:
            value = self.attrs[name]
        elif (held := slot_of(self.real, lookup(self.cls, name)[1])) is not MISSING:
            value = self.seen.get(name)
            if value is None:
                value = self.seen[name] = tx.wrap(
                    held, self.source and AttrSource(self.source, name)
                )
        else:
            value = None
            self._was_bound(tx, name)
        if value is None:
            raise GraphBreak("exception-leaves", f"AttributeError of the empty slot '{name}'")
        return value

    def _descriptor(self, tx: TraceContext, raw: Any, name: str, source: Source | None) -> Value:
        if type(raw) is FIELD and self.base is not None:
            return self.base.item(tx, Constant(raw.__reduce__()[1][0]))
        getter = lookup(type(raw), "__get__")[1]
        if type(getter) is not types.FunctionType:
            in_c = isinstance(getter, types.WrapperDescriptorType)
            # it reads the object itself
            if in_c and self.real is not None and name not in self.attrs:
                return tx.wrap(
                    getattr(self.real, name), self.source and AttrSource(self.source, name)
                )
            raise self.unsupported_use(f"attribute {name}")
        return tx.wrap(raw, source).method(tx, "__get__", [self, ClassValue(self.cls)], {})

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        setter = lookup(self.cls, "__setattr__")[1]
        if (
            type(setter) is types.FunctionType
            or getattr(setter, "__name__", "__setattr__") != "__setattr__"
        ):
            self.of_class(tx, "__setattr__").call(tx, [self, Constant(name), value], {})
        else:
            self.generic_set_attribute(tx, name, value)

    def generic_set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        """object.__setattr__."""
        self._require_generic_attributes(name)
        raw, source = raw_attribute(tx, self.cls, name, self.source and TypeOf(self.source))
        if isinstance(raw, property) and type(raw).__set__ is property.__set__:
            if raw.fset is None:
                raise GraphBreak("exception-leaves", "AttributeError of a property")
            property_function(tx, raw, source, "fset").call(tx, [self, value], {})
            return
        if (
            raw is not MISSING
            and hasattr(type(raw), "__set__")
            and not isinstance(raw, types.MemberDescriptorType)
        ):
            if type(lookup(type(raw), "__set__")[1]) is not types.FunctionType:
                raise GraphBreak(
                    "unsupported-mutation", f"of attribute '{name}' of {self.describe()}"
                )
            tx.wrap(raw, source).method(tx, "__set__", [self, value], {})
            return
        if name in ("__class__", "__dict__") or (
            isinstance(raw, types.MemberDescriptorType) and self._of_base(raw)
        ):
            raise GraphBreak("unsupported-mutation", f"of attribute '{name}' of {self.describe()}")
        if self.cls.__dictoffset__ == 0 and not isinstance(raw, types.MemberDescriptorType):
            raise GraphBreak(
                "exception-leaves", f"AttributeError: {self.describe()} has no slot for '{name}'"
            )
        self.store(tx, name, value)

    def store(self, tx: TraceContext, name: str, value: Value) -> None:
        """Binds a name in the instance dictionary (or a slot)."""
        tx.effects.change(self)
        if name in self.attrs and self.attrs[name] is None:
            del self.attrs[name]
            self.renewed.add(name)
        self.attrs[name] = value

    def remove(self, tx: TraceContext, name: str) -> None:
        """Unbinds a name that is bound."""
        tx.effects.change(self)
        self.renewed.discard(name)
        if self._was_bound(tx, name):
            self.attrs[name] = None
        else:
            del self.attrs[name]

    def _was_bound(self, tx: TraceContext, name: str) -> bool:
        """Whether the real object has the name; guarded if its value was not realised."""
        slot = lookup(self.cls, name)[1]
        if isinstance(slot, types.MemberDescriptorType):
            bound, said = slot_of(self.real, slot) is not MISSING, f"the slot '{name}' holds"
            tx.guards.add(
                self.source,
                Kind.PYTHON,
                (said if bound else said + " nothing", slot_is_bound(slot, bound)),
            )
            return bound
        own = instance_dict(self.real)
        if own is None:
            return False
        if name not in self.seen:
            tx.guards.add(
                self.source and InstanceDict(self.source),
                Kind.PRESENT if name in own else Kind.ABSENT,
                name,
            )
        return name in own

    def del_attribute(self, tx: TraceContext, name: str) -> None:
        deleter = lookup(self.cls, "__delattr__")[1]
        if type(deleter) is types.FunctionType:
            self.of_class(tx, "__delattr__").call(tx, [self, Constant(name)], {})
        else:
            self.generic_del_attribute(tx, name)

    def generic_del_attribute(self, tx: TraceContext, name: str) -> None:
        """object.__delattr__."""
        self._require_generic_attributes(name)
        raw, source = raw_attribute(tx, self.cls, name, self.source and TypeOf(self.source))
        if isinstance(raw, property) and type(raw).__delete__ is property.__delete__:
            if raw.fdel is None:
                raise GraphBreak("exception-leaves", "AttributeError of a property")
            property_function(tx, raw, source, "fdel").call(tx, [self], {})
            return
        if (
            raw is not MISSING
            and hasattr(type(raw), "__delete__")
            and not isinstance(raw, types.MemberDescriptorType)
        ):
            raise GraphBreak(
                "unsupported-mutation", f"deleting attribute '{name}' of {self.describe()}"
            )
        slot = isinstance(raw, types.MemberDescriptorType)
        if not self._is_bound(tx, name):
            raise tx.exceptions.new(
                AttributeError,
                name if slot else f"'{name_in_c(self.cls)}' object has no attribute '{name}'",
            )
        self.remove(tx, name)

    def _is_bound(self, tx: TraceContext, name: str) -> bool:
        """Whether the object has the name now, in its dictionary or a slot."""
        return self.attrs[name] is not None if name in self.attrs else self._was_bound(tx, name)

    def names(self, tx: TraceContext) -> list[str]:
        """The names in the instance dictionary, in order."""
        own = instance_dict(self.real) or {}
        if instance_dict(self.real) is not None:
            tx.guards.add(self.source and InstanceDict(self.source), Kind.KEYS, tuple(own))
        kept = [
            name
            for name in own
            if self.attrs.get(name, MISSING) is not None and name not in self.renewed
        ]
        set_ = [name for name, value in self.attrs.items() if value is not None]
        stored = [
            name
            for name in set_
            if not isinstance(lookup(self.cls, name)[1], types.MemberDescriptorType)
        ]
        return kept + [name for name in stored if name not in kept]

    def dictionary(self, tx: TraceContext) -> Value:
        """object.__dict__."""
        self._require_generic_attributes("__dict__")
        if self.namespace is None:
            if self.real is not None and instance_dict(self.real) is None:
                raise tx.exceptions.new(
                    AttributeError, f"'{self.cls.__name__}' object has no attribute '__dict__'"
                )
            self.namespace = tx.make.instance_dictionary(self)
        return self.namespace

    # special methods

    def special(self, tx: TraceContext, name: str) -> Value | None:
        """The method that Python looks up on the class for an operation, bound; None if there is
        none."""
        raw, source = raw_attribute(tx, self.cls, name, self.source and TypeOf(self.source))
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
        found = self.special(tx, name)
        if found is None:
            raise tx.exceptions.new(TypeError, f"'{self.cls.__name__}' object {what}")
        return found.call(tx, args, {})

    def truth(self, tx: TraceContext) -> bool:
        as_bool = self.special(tx, "__bool__")
        if as_bool is not None:
            return check_result_type(as_bool.call(tx, [], {}), bool, "__bool__").truth(tx)
        return True if self.special(tx, "__len__") is None else self.length(tx).truth(tx)

    def tail(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> PendingCall:
        found = self.special(tx, "__call__")
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
                if self.special(tx, name) is None:
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

    def iterator(self, tx: TraceContext) -> Value:
        if self.cls is types.GeneratorType or (
            self.cls.__module__ in ("builtins", "itertools") and hasattr(self.cls, "__next__")
        ):
            return self  # made in C, it is its own iterator
        found = self.special(tx, "__iter__")
        if found is not None:
            made = found.call(tx, [], {})
            if lookup(made.python_type(), "__next__")[0] is None:
                raise tx.exceptions.new(
                    TypeError,
                    f"iter() returned non-iterator of type '{made.python_type().__name__}'",
                )
            return made
        if self.special(tx, "__getitem__") is None:
            raise tx.exceptions.new(TypeError, f"'{self.cls.__name__}' object is not iterable")
        return ItemIterator(self)

    def next(self, tx: TraceContext) -> Value | None:
        return none_if_stopped(lambda: self.advance(tx))

    def advance(self, tx: TraceContext) -> Value:
        return self._call_special(tx, "__next__", [], "is not an iterator")

    def length(self, tx: TraceContext) -> Value:
        found = self.special(tx, "__len__")
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
        found = self.special(tx, "__contains__")
        if found is not None:
            return Constant(found.call(tx, [item], {}).truth(tx))
        if self.special(tx, "__iter__") is None and self.special(tx, "__getitem__") is None:
            raise tx.exceptions.new(
                TypeError, f"argument of type '{self.cls.__name__}' is not iterable"
            )
        return Constant(any(tx.objects.equal(candidate, item) for candidate in self.unpack(tx)))

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
        for name, stored in self.attrs.items():
            if stored is not None:
                self.emit_store(emit, name, stored)

    def emit_changes(self, emit: Emitter) -> None:
        for name, item in self.attrs.items():
            if name in self.renewed or item is None:
                emit.run(object.__delattr__, [self, emit.const(name)])
            if item is not None:
                self.emit_store(emit, name, item)

    def emit_store(self, emit: Emitter, name: str, item: Value) -> None:
        """Emits the store of an attribute past the class's own __setattr__. Behind a descriptor
        that takes stores for itself it goes into the object's dictionary."""
        in_class = lookup(self.cls, name)[1]
        hidden = not isinstance(in_class, types.MemberDescriptorType) and hasattr(
            type(in_class), "__set__"
        )
        setter = store_in_dictionary if hidden else object.__setattr__
        emit.run(setter, [self, emit.const(name), item])

    def iterates_in_python(self) -> bool:
        return not isinstance(lookup(self.cls, "__iter__")[1], types.WrapperDescriptorType)

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value | None:
        found = self.special(tx, op.name)
        return None if found is None else found.call(tx, [], {})

    def content(self) -> Value:
        return self if self.base is None else self.base


def wrap_object(tx: TraceContext, obj: Any, source: Source | None) -> Value:
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
    return tx.objects.remember(obj, UserObject(type(obj), obj, source, base))
