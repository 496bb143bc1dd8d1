"""Classes: look-up of attributes, and calls."""

from __future__ import annotations

import enum
import functools
import numbers
import sys
import types
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.native import UNBOUND
from ....guards.source import (
    ClassAttribute,
    ClassDict,
    DictItem,
    InstanceDict,
    ModuleSource,
    MroItem,
    Source,
    TypeOf,
    attribute_path,
)
from ..base import Args, Kwargs, PendingCall, Value, check_result_type
from ..constant import Constant, can_fold, fold
from ..containers.sequence import Sequence, TupleValue, is_namedtuple_class
from ..context import TraceContext
from ..emitter import Emitter
from ..functions.method import MethodValue, is_cython_function
from ..models.torch_policy import is_plain_metaclass
from ..registry import call_model, model_of, wraps_subclasses
from .mro import HEAP_TYPE, IMMUTABLE_TYPE, MISSING, lookup
from .placement import is_placement


def class_source(cls: type) -> Source | None:
    """The path to a class by its qualified name, if it leads to the class."""
    module = sys.modules.get(cls.__module__)
    if module is None:
        return None
    source: Source = ModuleSource(cls.__module__)
    found: Any = module
    for depth, part in enumerate(cls.__qualname__.split(".")):
        names = getattr(found, "__dict__", None)
        if not isinstance(names, dict | types.MappingProxyType) or part not in names:
            return None
        source = DictItem(InstanceDict(source) if depth == 0 else ClassDict(source), part)
        found = names[part]
    return source if found is cls else None


def has_plain_names(names: Any) -> bool:
    """Whether looking up a name in a dictionary calls no code of the program: its keys are all
    strings."""
    return set(map(type, names)) <= {str}


def class_path(tx: TraceContext, cls: type, path: Source | None) -> Source | None:
    """A path to a class: by its name if that leads to it, else `path`."""
    by_name = tx.objects.class_paths.get(id(cls), MISSING)
    if by_name is MISSING:
        if not is_plainly_named(cls):
            raise GraphBreak(
                "unsupported-value",
                f"class {cls.__qualname__}, whose dictionary has keys that are no names",
            )
        by_name = tx.objects.class_paths[id(cls)] = class_source(cls)
        tx.guards.add(by_name, Kind.IS, cls)
    return path if by_name is None else by_name


def note_path(tx: TraceContext, cls: type, path: Source | None) -> None:
    """Remembers the path to a class that its name does not lead to, for instances without a path of
    their own."""
    if (
        path is not None
        and tx.objects.class_paths.get(id(cls)) is None
        and is_plainly_named(cls)
        and class_source(cls) is None
    ):
        tx.objects.class_paths[id(cls)] = path


def is_plainly_named(cls: type) -> bool:
    """Whether looking up a class's attributes calls no code of the program."""
    return all(has_plain_names(vars(owner)) for owner in cls.__mro__ or ())


def stored_in_class(tx: TraceContext, cls: type, name: str, path: Source | None) -> Any:
    """The value that the traced program stored under a name of a class, if it is the current one;
    else MISSING. `path`: a path to the class, in case its name does not lead to it."""
    if not tx.effects.globals:
        return MISSING
    for position, owner in enumerate(cls.__mro__):
        stored = tx.effects.globals.get((id(owner), name))
        if stored is not None:
            _rely_on_bases(tx, cls, name, path, position)
            return stored[1]
        if name in owner.__dict__:
            break
    return MISSING


def _rely_on_bases(tx: TraceContext, cls: type, name: str, path: Source | None, count: int) -> None:
    """Guards that the first `count` classes of the method resolution order lack a name."""
    of = class_path(tx, cls, path) if count else None
    for position, owner in enumerate(cls.__mro__[:count]):
        if of is None:
            raise GraphBreak(
                "unsupported-value",
                f"attribute {name}, stored in a base of a class that no variable leads to",
            )
        if (id(owner), name) not in tx.effects.globals:
            tx.guards.add(ClassDict(MroItem(of, position) if position else of), Kind.ABSENT, name)


def raw_attribute(
    tx: TraceContext, cls: type, name: str, path: Source | None
) -> tuple[Any, Source | None]:
    """The raw attribute of a class and the path to it; (MISSING, None) if there is none, which is
    guarded."""
    of = class_path(tx, cls, path)
    owner, raw = lookup(cls, name)
    if stored_in_class(tx, cls, name, path) is not MISSING:
        raise GraphBreak(
            "unsupported-value",
            f"attribute {name}, which was stored in a class, read by a special method's rules",
        )
    source = of and ClassAttribute(of, name)
    if owner is None:
        tx.guards.add(source, Kind.IS, UNBOUND)
        return MISSING, None
    return raw, source


BINDING: Any = classmethod(property(lambda cls: cls))  # type: ignore[arg-type]
CLASSMETHODS_BIND = BINDING.__get__(None, int) is int  # 3.9 to 3.12


def bind(tx: TraceContext, raw: Any, receiver: Value, cls: Value, source: Source | None) -> Value:
    """raw.__get__(receiver, cls) for an attribute found in a class: methods, and objects that are
    no descriptors."""
    kind = type(raw)
    if kind is types.FunctionType or is_cython_function(raw):
        return MethodValue(receiver, tx.wrap(raw, source))
    if kind is classmethod:
        return bind_classmethod(tx, raw, cls, source)
    if kind is staticmethod:
        return tx.wrap(raw.__func__, attribute_path(source, "__func__"))
    if kind in (types.MethodDescriptorType, types.WrapperDescriptorType):
        return MethodValue(receiver, tx.wrap(raw, source))
    if kind is types.ClassMethodDescriptorType:
        return MethodValue(cls, tx.wrap(raw, None))
    if kind is property:
        if raw.fget is None:
            raise GraphBreak("exception-leaves", "AttributeError of a property")
        return property_function(tx, raw, source, "fget").call(tx, [receiver], {})
    if not hasattr(kind, "__get__"):
        return tx.objects.wrap_held(raw, source)
    if (
        kind.__module__.split(".")[0] == "torch"
        and type(lookup(kind, "__get__")[1]) is not types.FunctionType
    ):
        raise GraphBreak("unsupported-value", f"descriptor {kind.__name__}")
    return tx.wrap(raw, source).method(tx, "__get__", [receiver, cls], {})


def bind_classmethod(
    tx: TraceContext, raw: classmethod[Any, Any, Any], cls: Value, source: Source | None
) -> Value:
    """raw.__get__(None, cls)."""
    inner, path = raw.__func__, attribute_path(source, "__func__")
    if (
        CLASSMETHODS_BIND
        and type(inner) is not types.FunctionType
        and hasattr(type(inner), "__get__")
    ):
        return bind(tx, inner, cls, cls, path)
    return MethodValue(cls, tx.wrap(inner, path))


def property_function(tx: TraceContext, raw: property, source: Source | None, part: str) -> Value:
    """A property's fget, fset or fdel."""
    if source is not None and type(raw) is property:
        tx.guards.add(source, Kind.TYPE, property)
    return tx.wrap(getattr(raw, part), attribute_path(source, part))


# Attributes that type answers for each class.
ATTRIBUTES_OF_TYPE = frozenset(
    "__name__ __qualname__ __module__ __doc__ __mro__ __bases__ __class__ __base__".split()
)


# the dtypes for which torch takes classes
DTYPES: dict[type, torch.dtype] = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}


class ClassValue(Value):
    """A class."""

    __slots__ = ("cls",)
    is_code_constant = True

    def __init__(self, cls: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.cls = cls

    def python_type(self) -> type:
        return type(self.cls)

    def describe(self) -> str:
        return f"class {self.cls.__qualname__}"

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.cls

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        if self.cls in DTYPES:
            return DTYPES[self.cls], self.cls  # text of a graph cannot name the class
        raise GraphBreak(
            "unsupported-value", f"{self.describe()} as an argument of a torch function"
        )

    def key(self, tx: TraceContext) -> Any:
        return self.cls

    def truth(self, tx: TraceContext) -> bool:
        as_bool = self.of_metaclass(tx, "__bool__")
        if as_bool is not None:
            return check_result_type(as_bool.call(tx, [], {}), bool, "__bool__").truth(tx)
        as_length = self.of_metaclass(tx, "__len__")
        return True if as_length is None else self.length(tx).truth(tx)

    def is_same(self, other: Value) -> bool:
        return isinstance(other, ClassValue) and self.cls is other.cls

    def path(self, tx: TraceContext) -> Source | None:
        return self.source if self.source is not None else class_source(self.cls)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        """Looks in Python's order: a data descriptor of the metaclass, the class and its bases, the
        metaclass. What the program has stored in the class comes first."""
        if name in ATTRIBUTES_OF_TYPE:
            found = type.__getattribute__(self.cls, name)
            return tx.wrap(found, attribute_path(self.path(tx), name))
        stored = stored_in_class(tx, self.cls, name, self.path(tx))
        if stored is not MISSING:
            return stored
        meta, first = lookup(type(self.cls), name)
        if (
            meta is type
            and isinstance(first, types.GetSetDescriptorType)
            and name not in vars(self.cls)
        ):
            # its own: what is inherited does not count
            raise self.unsupported_use(f"attribute {name}")
        if meta not in (None, type) and hasattr(type(first), "__set__"):
            return self._of_metaclass(tx, name)
        raw, source = raw_attribute(tx, self.cls, name, self.path(tx))
        if raw is MISSING:
            if meta is None:
                raise tx.exceptions.new(
                    AttributeError, f"type object '{self.cls.__name__}' has no attribute '{name}'"
                )
            return self._of_metaclass(tx, name)
        return self._bind(tx, name, raw, source)

    def _of_metaclass(self, tx: TraceContext, name: str) -> Value:
        raw, source = raw_attribute(tx, type(self.cls), name, None)
        return bind(tx, raw, self, tx.wrap(type(self.cls), None), source)

    def _bind(self, tx: TraceContext, name: str, raw: Any, source: Source | None) -> Value:
        """The result of reading a raw attribute from the class itself."""
        if isinstance(raw, types.FunctionType | functools._lru_cache_wrapper):
            return tx.wrap(raw, source)
        if isinstance(self.cls, enum.EnumMeta) and isinstance(
            getattr(self.cls, name, None), self.cls
        ):
            return tx.wrap(getattr(self.cls, name), None)
        if isinstance(raw, classmethod | staticmethod):
            return bind(tx, raw, self, self, source)
        if isinstance(raw, types.ClassMethodDescriptorType) and model_of(raw) is not None:
            return bind(tx, raw, self, self, source)
        if isinstance(raw, types.ClassMethodDescriptorType) or (name == "__new__"):
            return tx.wrap(getattr(self.cls, name), None)
        if hasattr(type(raw), "__get__") and not isinstance(
            raw, types.MethodDescriptorType | types.WrapperDescriptorType | property
        ):
            if type(lookup(type(raw), "__get__")[1]) is not types.FunctionType:
                raise self.unsupported_use(f"attribute {name}")
            return tx.wrap(raw, source).method(tx, "__get__", [tx.wrap(None, None), self], {})
        return tx.objects.wrap_held(raw, source)

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if not self._holds_plainly(tx, name) or hasattr(value.python_type(), "__get__"):
            raise GraphBreak("unsupported-mutation", f"of attribute '{name}' of {self.describe()}")
        tx.effects.set_global(self.cls, name, value)

    def _holds_plainly(self, tx: TraceContext, name: str) -> bool:
        """Whether the class's attribute, if there is one, is a plain value, so that a store only
        replaces it."""
        meta = type(self.cls)
        if (
            meta.__setattr__ is not type.__setattr__
            or meta.__delattr__ is not type.__delattr__
            or name.startswith("__")
        ):
            return False
        if (
            self.cls.__flags__ & (HEAP_TYPE | IMMUTABLE_TYPE) != HEAP_TYPE
            or lookup(meta, name)[0] is not None
        ):
            return False
        if (id(self.cls), name) in tx.effects.globals or stored_in_class(
            tx, self.cls, name, self.path(tx)
        ) is not MISSING:
            return True
        raw, _ = raw_attribute(tx, self.cls, name, self.path(tx))
        return raw is MISSING or not hasattr(type(raw), "__get__")

    def of_metaclass(self, tx: TraceContext, name: str) -> Value | None:
        """A special method that the metaclass defines in Python, bound."""
        by_python = type(lookup(type(self.cls), name)[1]) is types.FunctionType and not isinstance(
            self.cls, enum.EnumMeta
        )
        return tx.calls.class_method(self, type(self.cls), name) if by_python else None

    def item(self, tx: TraceContext, key: Value) -> Value:
        if isinstance(self.cls, enum.EnumMeta) and key.is_constant():
            return fold(tx, lambda cls, name: cls[name], [self, key], {})
        if lookup(type(self.cls), "__getitem__")[0] is None and hasattr(
            self.cls, "__class_getitem__"
        ):
            generic: Any = self.cls
            # an annotation: list[int], Callable[[int], int]
            return tx.wrap(generic[python_object(tx, key)], None)
        found = self.of_metaclass(tx, "__getitem__")
        return super().item(tx, key) if found is None else found.call(tx, [key], {})

    def iterator(self, tx: TraceContext) -> Value:
        if isinstance(self.cls, enum.EnumMeta):
            return tx.wrap(list(self.cls), None).iterator(tx)
        found = self.of_metaclass(tx, "__iter__")
        return super().iterator(tx) if found is None else found.call(tx, [], {})

    def length(self, tx: TraceContext) -> Value:
        if isinstance(self.cls, enum.EnumMeta):
            return tx.wrap(len(self.cls), None)
        found = self.of_metaclass(tx, "__len__")
        if found is None:
            return super().length(tx)
        return check_result_type(found.call(tx, [], {}), int, "__len__")

    def contains(self, tx: TraceContext, item: Value) -> Value:
        if isinstance(self.cls, enum.EnumMeta) and item.is_constant():
            return fold(tx, lambda cls, other: other in cls, [self, item], {})
        found = self.of_metaclass(tx, "__contains__")
        if found is None:
            return super().contains(tx, item)
        return Constant(found.call(tx, [item], {}).truth(tx))

    def names(self, tx: TraceContext) -> set[str]:
        """The names that type.__dir__ lists."""
        path = class_path(tx, self.cls, self.path(tx))
        found: set[str] = set()
        for position, owner in enumerate(self.cls.__mro__):
            names = tuple(vars(owner))
            found.update(names)
            if owner.__flags__ & HEAP_TYPE:
                tx.guards.add(path and ClassDict(MroItem(path, position)), Kind.KEYS, names)
        return found

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        """Makes an instance: by a model, now if it is a literal, or by __new__ and __init__, unless
        the metaclass has a __call__."""
        model = model_of(self.cls)
        if model is not None:
            return call_model(tx, self, model, args, kwargs)
        if isinstance(self.cls, enum.EnumMeta) or (
            makes_literals(self.cls) and can_fold(args, kwargs)
        ):
            return fold(tx, self.cls, args, kwargs)
        if makes_named_tuples(self.cls):
            return self._named_tuple(tx, args, kwargs)
        if lookup(type(self.cls), "__call__")[1] is dict:  # a TypedDict
            return tx.wrap(dict, None).call(tx, args, kwargs)
        of_metaclass = self.of_metaclass(tx, "__call__")
        if of_metaclass is not None and not is_plain_metaclass(type(self.cls)):
            return of_metaclass.call(tx, args, kwargs)
        if not self.is_constructed():
            raise GraphBreak(
                "unknown-call", f"{self.describe()} (its metaclass has a __call__ of its own)"
            )
        return tx.calls.construct(self, args, kwargs)

    def tail_call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> PendingCall | None:
        if (
            type(lookup(type(self.cls), "__call__")[1]) is not types.FunctionType
            or model_of(self.cls) is not None
        ):
            return None
        found = None if is_plain_metaclass(type(self.cls)) else self.of_metaclass(tx, "__call__")
        return None if found is None else PendingCall(found, args, kwargs)

    def is_constructed(self) -> bool:
        """Whether a call runs __new__, then __init__."""
        if makes_named_tuples(self.cls) or isinstance(self.cls, enum.EnumMeta):
            return False
        if model_of(self.cls) is not None or makes_literals(self.cls):
            return False
        return type(self.cls).__call__ is type.__call__ or is_plain_metaclass(type(self.cls))

    def _named_tuple(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        fields = self.cls._fields
        given = dict(zip(fields, args, strict=False)) | kwargs
        for name, default in self.cls._field_defaults.items():
            given.setdefault(name, tx.wrap(default, None))
        if set(given) != set(fields) or len(args) > len(fields):
            raise GraphBreak("exception-leaves", f"TypeError of {self.describe()}")
        return TupleValue([given[name] for name in fields], None, self.cls)

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_literal(self.cls)


def makes_named_tuples(cls: type) -> bool:
    """Whether its instances are made as collections.namedtuple() defines, and hold nothing else."""
    if (
        not issubclass(cls, tuple)
        or not is_namedtuple_class(cls)
        or cls.__dictoffset__
        or lookup(cls, "__init__")[1] is not object.__init__
    ):
        return False
    maker = next(base for base in cls.__mro__ if "__new__" in vars(base))
    return "_fields" in vars(maker)


def makes_literals(cls: type) -> bool:
    """Whether instances that are made of literals are literals, too."""
    return is_number_of_numpys(cls) or is_placement(cls)


def is_number_of_numpys(cls: type) -> bool:
    return cls.__module__ == "numpy" and issubclass(cls, numbers.Number)


def python_object(tx: TraceContext, value: Value) -> Any:
    """The Python object of literals, classes and lists of these, as annotations contain them."""
    value = tx.look(value)
    if isinstance(value, Sequence):
        return value.cls(python_object(tx, item) for item in value.items)
    return value.constant()


def type_path(value: Value) -> Source | None:
    """A path to type(value)."""
    return None if value.source is None else TypeOf(value.source)


@wraps_subclasses(type)
def wrap_class(tx: TraceContext, obj: type, source: Source | None) -> Value:
    if type(obj).__hash__ is None:
        raise GraphBreak("unsupported-value", f"class {obj.__qualname__}, which has no hash")
    tx.guards.add(source, Kind.IS, obj)
    note_path(tx, obj, source)
    return ClassValue(obj, source)
