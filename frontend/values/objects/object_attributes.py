"""The attributes of instances of user classes, found and stored as object's own methods do."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any, ClassVar, TypeGuard

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, Source, TypeOf, attribute_path
from ..base import ObservedException, PendingCall, Value
from ..constant import Constant
from ..containers.builtin_container import BoundBuiltin, BuiltinContainer
from ..containers.dict_contents import DictContents
from ..containers.sequence import FIELD
from ..context import TraceContext
from ..mutable import Mutable
from .attribute_storage import (
    defines_dict,
    dictionary_path,
    has_own_lookup,
    instance_dict,
    is_slot,
    is_thread_local,
    slot_is_bound,
    slot_of,
)
from .class_value import (
    ClassValue,
    bind,
    has_plain_names,
    note_path,
    property_function,
    raw_attribute,
    stored_in_class,
)
from .mro import MISSING, lookup, name_in_c

CLASS_OF_OBJECT = vars(object)["__class__"]
PLAIN_CLASS = (object, typing.Generic)  # whose __class__ is type(self)


class ObjectAttributes(Mutable):
    """The attributes of an instance of a class written in Python. `real` is the object when it
    existed before the frame. `attrs` overlays its instance dictionary: what the traced program
    stored (None: deleted). `base` holds the builtin container inside an instance of a subclass of
    one. `assigned`: the instance dictionary where that is a value of its own: one that the
    program gave to a new object as its `__dict__`, or that others refer to as well."""

    __slots__ = ("cls", "real", "attrs", "renewed", "seen", "base", "namespace", "assigned")
    state: tuple[str, ...] = ("attrs", "renewed", "assigned")
    # whether nothing but attributes is in the instance dictionaries of the family
    has_plain_dictionary: ClassVar[bool] = True

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
        self.assigned: DictContents | None = None
        self.seen: dict[str, Value] = {}  # instance attributes of `real` realised so far

    def own_attribute(self, tx: TraceContext, name: str) -> Value | None:
        """The item of the instance dictionary, or None."""
        if self.assigned is not None:
            return self.assigned.get(tx, Constant(name))
        if name in self.attrs:
            return self.attrs[name]
        if name in self.seen:
            return self.seen[name]
        own = instance_dict(self.real)
        if own is None:
            return None
        if not self.seen and not has_plain_names(own):
            raise self.unsupported_use("its dictionary has keys that are no names")
        path = self.dictionary_path
        if name not in own:
            tx.guards.add(path, Kind.ABSENT, name)
            return None
        value = self.seen[name] = tx.wrap(own[name], path and DictItem(path, name))
        return value

    @property
    def dictionary_path(self) -> Source | None:
        return dictionary_path(self.cls, self.source)

    @property
    def class_path(self) -> Source | None:
        return self.source and TypeOf(self.source)

    def raw_attribute(self, tx: TraceContext, name: str) -> tuple[Any, Source | None]:
        """What the class has under a name, MISSING for nothing, and the path to it."""
        return raw_attribute(tx, self.cls, name, self.class_path)

    def of_class(self, tx: TraceContext, name: str) -> Value:
        """The class's attribute, unbound."""
        return tx.wrap(*self.raw_attribute(tx, name))

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__class__" and lookup(self.cls, name)[0] in PLAIN_CLASS:
            note_path(tx, self.cls, self.class_path)
            return ClassValue(self.cls, self.class_path)
        if name == "__dict__" and not defines_dict(self.cls):
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
        if stored_in_class(tx, self.cls, name, self.class_path) is not MISSING:
            return None
        raw, source = self.raw_attribute(tx, name)
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
        raw, source = self.raw_attribute(tx, name)
        if type(raw) is not property or raw.fset is None:
            return None
        return PendingCall(tx.wrap(raw.fset, attribute_path(source, "fset")), [self, value], {})

    def _guarded_by_getattr(self, tx: TraceContext, name: str, get: Any) -> Value:
        fallback, source = self.raw_attribute(tx, "__getattr__")
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
        stored = stored_in_class(tx, self.cls, name, self.class_path)
        if stored is not MISSING:  # no descriptor
            own = self.own_attribute(tx, name)
            return stored if own is None else own
        raw, source = self.raw_attribute(tx, name)
        found = None if raw is MISSING else self._data_descriptor(tx, name, raw, source)
        if found is not None:
            return found
        own = self.own_attribute(tx, name)
        if own is not None:
            return own
        if raw is MISSING:
            raise tx.exceptions.no_attribute(name_in_c(self.cls), name)
        if isinstance(raw, functools.cached_property):
            value = tx.wrap(raw.func, attribute_path(source, "func")).call(tx, [self], {})
            self.store(tx, name, value)
            return value
        if self.base is not None and isinstance(
            raw, types.MethodDescriptorType | types.WrapperDescriptorType
        ):
            if (
                issubclass(self.base.python_type(), raw.__objclass__)
                and raw.__objclass__ is not object
            ):
                return BoundBuiltin(self.base, name)
        return bind(tx, raw, self, ClassValue(self.cls, self.class_path), source)

    def _data_descriptor(
        self, tx: TraceContext, name: str, raw: Any, source: Source | None
    ) -> Value | None:
        """What a descriptor of the class gives that comes before the instance's own attribute; None
        where `raw` is no such descriptor."""
        if isinstance(raw, property) and type(raw).__get__ is property.__get__:
            if raw.fget is None:
                raise GraphBreak("exception-leaves", "AttributeError of a property")
            return property_function(tx, raw, source, "fget").call(tx, [self], {})
        if name == "__dict__" and isinstance(raw, types.GetSetDescriptorType):
            return self.dictionary(tx)
        if name == "__class__" and raw is CLASS_OF_OBJECT:
            return ClassValue(self.cls, self.class_path)
        if is_slot(raw):
            base = self.base if self._of_base(raw) else None
            return self._slot(tx, name) if base is None else base.attribute(tx, name)
        if hasattr(type(raw), "__set__") and hasattr(type(raw), "__get__"):
            return self._descriptor(tx, raw, name, source)
        return None

    def _require_generic_attributes(self, name: str) -> None:
        """Breaks at a name of an object that finds attributes in a way of its own, in C: the result
        may differ in each thread, for example."""
        if has_own_lookup(self.cls):
            raise self.unsupported_use(f"attribute '{name}', which its class looks up in C")

    def _of_base(self, raw: types.MemberDescriptorType) -> bool:
        """Whether a slot belongs to the builtin container inside."""
        return self.base is not None and raw.__objclass__ is self.base.python_type()

    def _slot(self, tx: TraceContext, name: str) -> Value:
        """The content of a slot: what the program stored, or the object's own. An empty one
        breaks."""
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
        raw, source = self.raw_attribute(tx, name)
        if isinstance(raw, property) and type(raw).__set__ is property.__set__:
            if raw.fset is None:
                raise GraphBreak("exception-leaves", "AttributeError of a property")
            property_function(tx, raw, source, "fset").call(tx, [self, value], {})
            return
        if name == "__dict__" and self._takes_dictionary(value, raw):
            tx.effects.change(self)
            self.assigned = value
            return
        if raw is not MISSING and hasattr(type(raw), "__set__") and not is_slot(raw):
            if type(lookup(type(raw), "__set__")[1]) is not types.FunctionType:
                raise GraphBreak(
                    "unsupported-mutation", f"of attribute '{name}' of {self.describe()}"
                )
            tx.wrap(raw, source).method(tx, "__set__", [self, value], {})
            return
        if name in ("__class__", "__dict__") or (is_slot(raw) and self._of_base(raw)):
            raise GraphBreak("unsupported-mutation", f"of attribute '{name}' of {self.describe()}")
        kept = is_slot(raw) or is_thread_local(self.cls)
        if self.cls.__dictoffset__ == 0 and not kept:
            raise GraphBreak(
                "exception-leaves", f"AttributeError: {self.describe()} has no slot for '{name}'"
            )
        self.store(tx, name, value)

    def _takes_dictionary(self, value: Value, raw: Any) -> TypeGuard[DictContents]:
        """Whether a value may become the `__dict__` of this object: a new one without
        attributes."""
        return (
            isinstance(value, DictContents)
            and value.python_type() is dict
            and isinstance(raw, types.GetSetDescriptorType)
            and self.real is self.namespace is self.assigned is None
            and not self.attrs
            and self.keeps_all_in_dictionary()
        )

    def keeps_all_in_dictionary(self) -> bool:
        """Whether the object is no container, and has no slots."""
        return (
            self.has_plain_dictionary and self.base is None and not hasattr(self.cls, "__slots__")
        )

    def stored_items(self) -> list[tuple[Source, Value]]:
        own = self.dictionary_path
        if own is None:
            return []
        return [(DictItem(own, name), value) for name, value in self.attrs.items() if value]

    def store(self, tx: TraceContext, name: str, value: Value) -> None:
        """Binds a name in the instance dictionary (or a slot)."""
        if self.assigned is not None:
            self.assigned.put(tx, Constant(name), value)
            return
        tx.effects.change(self)
        if name in self.attrs and self.attrs[name] is None:
            del self.attrs[name]
            self.renewed.add(name)
        self.attrs[name] = value

    def remove(self, tx: TraceContext, name: str) -> None:
        """Unbinds a name that is bound."""
        if self.assigned is not None:
            self.assigned.drop(tx, Constant(name))
            return
        tx.effects.change(self)
        self.renewed.discard(name)
        if self._was_bound(tx, name):
            self.attrs[name] = None
        else:
            del self.attrs[name]

    def _was_bound(self, tx: TraceContext, name: str) -> bool:
        """Whether the real object has the name; guarded if its value was not realised."""
        if self.assigned is not None:
            return self.assigned.get(tx, Constant(name)) is not None
        slot = lookup(self.cls, name)[1]
        if is_slot(slot):
            bound, said = slot_of(self.real, slot) is not MISSING, f"the slot '{name}' holds"
            tx.guards.add(
                self.source,
                Kind.PYTHON,
                (
                    said if bound else said + " nothing",
                    functools.partial(slot_is_bound, slot, bound),
                ),
            )
            return bound
        own = instance_dict(self.real)
        if own is None:
            return False
        if name not in self.seen:
            tx.guards.add(
                self.dictionary_path,
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
        raw, source = self.raw_attribute(tx, name)
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
                "unsupported-mutation", f"of {self.describe()} (del of attribute '{name}')"
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
        if self.assigned is not None:
            return [key.constant() for key, _ in self.assigned.unpack_pairs(tx)]
        own = instance_dict(self.real) or {}
        if instance_dict(self.real) is not None:
            tx.guards.add(self.dictionary_path, Kind.KEYS, tuple(own))
        kept = [
            name
            for name in own
            if self.attrs.get(name, MISSING) is not None and name not in self.renewed
        ]
        set_ = [name for name, value in self.attrs.items() if value is not None]
        stored = [name for name in set_ if not is_slot(lookup(self.cls, name)[1])]
        return kept + [name for name in stored if name not in kept]

    def dictionary(self, tx: TraceContext) -> Value:
        """object.__dict__."""
        self._require_generic_attributes("__dict__")
        if self.assigned is not None:
            return self.assigned
        if self.namespace is None:
            if self.real is not None and instance_dict(self.real) is None:
                raise tx.exceptions.new(
                    AttributeError, f"'{self.cls.__name__}' object has no attribute '__dict__'"
                )
            self.namespace = tx.make.instance_dictionary(self)
        return self.namespace
