"""Objects to values: one rule a type, and what each of them guards."""

from __future__ import annotations

import collections
import collections.abc
import enum
import functools
import operator
import types
import typing
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...errors import GraphBreak
from ...guards.guard import Kind
from ...guards.proxies import mapping_behind
from ...guards.reference import without_class
from ...guards.source import (
    AttrSource,
    ClassAttribute,
    DictItem,
    IteratorItem,
    ProxiedMapping,
    SequenceItem,
    Source,
)
from .base import Lazy, Value
from .constant import LITERAL_TYPES, Constant
from .containers.deque import DequeValue
from .containers.globals_dict import GlobalsDict, holds_globals
from .containers.mapping import MOST_COMPARED, DictValue, ViewValue
from .containers.mapping_proxy import MappingProxyValue
from .containers.object_key import guard_hashes, is_compared
from .containers.range import RangeValue
from .containers.sequence import BuiltinContainer, ListValue, SliceValue, TupleValue
from .containers.set import SetValue
from .functions.attribute_getter import GetterValue
from .functions.cached_function import CachedFunction
from .functions.function import (
    BuiltinValue,
    FunctionValue,
    MethodValue,
    PartialValue,
    existing_cell,
    existing_function,
    met_again,
)
from .functions.opaque_function import unwrap_wrappers
from .functions.scripted import ScriptedFunction
from .iterators import existing_iterator  # noqa: F401 - it registers
from .iterators.iterator import ListedIterator
from .modes.mode_manager import ManagerMethod, ModeManager
from .numpy.numpy_number import NumpyFunction, is_function, is_numpys
from .objects.class_value import ClassValue, lookup, note_path
from .objects.enum_member import EnumMember
from .objects.exception import ExceptionValue
from .objects.frozen_object import FrozenObject
from .objects.nn_module import ModuleValue
from .objects.python_module import PythonModule
from .objects.user_object import SuperValue, UserObject
from .objects.weak_reference import WeakReference
from .registry import model_of, wrap_rule, wraps
from .tensor.opaque_tensor import PLAIN_TENSORS, why_opaque, wrap_opaque
from .tensor.symbolic_number import Symbol
from .tensor.tensor_subclass import is_captured, wrap_subclass

if TYPE_CHECKING:
    from .context import TraceContext

FORMS = (
    typing.Any, typing.List[int], typing.Union[int, str], typing.Callable, typing.Optional, typing.TypeVar("T"),  # noqa: UP006, UP007
    collections.abc.Callable[[int], int],
)  # fmt: skip
TYPING_FORMS: tuple[type, ...] = tuple({type(form) for form in FORMS} - {type, types.GenericAlias})
LARGEST = 1 << 18  # items of a list or tuple that are looked at
LARGEST_DEQUE = 1 << 13  # the same of a deque, in which each is found by a walk
Rule = Callable[["TraceContext", Any, "Source | None"], Value]


def wrap(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    """The value of an object, by the rule of its type or of the nearest family it belongs to."""
    rule = wrap_rule(type(obj))
    if rule is not None:
        return rule(tx, obj, source)
    for family, family_rule in FAMILIES:
        if issubclass(
            type(obj), family
        ):  # what an object says of itself may be another's class, or raise
            return family_rule(tx, obj, source)
    if is_named_tuple(obj):
        return wrap_named_tuple(tx, obj, source)
    if (
        issubclass(type(obj), tuple) and type(obj).__module__ == "sys"
    ):  # sys.flags and its kin, which stay what they are
        return wrap_type_form(tx, obj, source)
    if (
        source is None
        and type(obj).__module__ == "builtins"
        and isinstance(obj, collections.abc.Iterator)
    ):
        return ListedIterator(
            [tx.wrap(item, None) for item in obj], type(obj)
        )  # the result of a folded call
    return wrap_object(tx, obj, source)


@wraps(*(set(LITERAL_TYPES) - {int, float}))
def wrap_literal(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    tx.guards.add(source, Kind.EQUALS, obj)
    return Constant(obj, source)


@wraps(int, float)
def wrap_number(tx: TraceContext, obj: int | float, source: Source | None) -> Value:
    if source is not None and tx.symbols.is_symbolic(source, obj):
        tx.guards.add(source, Kind.TYPE, type(obj))
        return tx.symbols.input(obj, source)
    return wrap_literal(tx, obj, source)


@wraps(torch.SymInt, torch.SymFloat, torch.SymBool)
def wrap_symbol(tx: TraceContext, obj: Symbol, source: Source | None) -> Value:
    return tx.symbols.shapes.number(obj)


def wrap_enum(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if "_name_" not in object.__getattribute__(obj, "__dict__"):
        raise GraphBreak(
            "unsupported-value", f"a member of {type(obj).__qualname__}, which is being made"
        )
    tx.guards.add(source, Kind.IS, obj)
    return EnumMember(obj, source)


def wrap_class(tx: TraceContext, obj: type, source: Source | None) -> Value:
    if type(obj).__hash__ is None:
        raise GraphBreak("unsupported-value", f"class {obj.__qualname__}, which has no hash")
    tx.guards.add(source, Kind.IS, obj)
    note_path(tx, obj, source)
    return ClassValue(obj, source)


MODULE_DICT = vars(types.ModuleType)["__dict__"]


@wraps(types.ModuleType)
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


@wraps(types.FunctionType)
def wrap_function(tx: TraceContext, obj: types.FunctionType, source: Source | None) -> Value:
    if source is not None:
        # Where no name stands for it, it may be made anew by each call of its maker: its code and
        # what it closes over count.
        tx.guards.add(
            source, *(Kind.IS, obj) if _is_definition(source) else (Kind.TYPE, types.FunctionType)
        )
        tx.guards.add(AttrSource(source, "__code__"), Kind.IS, obj.__code__)
    inner = unwrap_wrappers(obj)
    if inner is not obj:
        return tx.wrap(inner, None)
    known = tx.objects.find(obj)
    if isinstance(known, FunctionValue):
        met_again(tx, known, source)
        return known
    return existing_function(tx, obj, source)


def _is_definition(source: Source) -> bool:
    """Whether a path ends in a named place of a module or class, where functions stay what they
    are."""
    return isinstance(source, DictItem | ClassAttribute)


@wraps(types.MethodType)
def wrap_method(tx: TraceContext, obj: types.MethodType, source: Source | None) -> Value:
    tx.guards.add(source, Kind.TYPE, types.MethodType)
    receiver = tx.wrap(obj.__self__, source and AttrSource(source, "__self__"))
    if isinstance(receiver, ModeManager) and obj.__func__.__name__ in (
        "__enter__",
        "__exit__",
        "clone",
    ):
        return ManagerMethod(receiver, obj.__func__.__name__)
    return MethodValue(
        receiver, tx.wrap(obj.__func__, source and AttrSource(source, "__func__")), source
    )


@wraps(
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, types.CodeType, property,
    torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.TorchBindOpOverload, functools._lru_cache_wrapper,
)  # fmt: skip
def wrap_builtin(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if isinstance(obj, functools._lru_cache_wrapper) and isinstance(
        getattr(obj, "__wrapped__", None), types.FunctionType
    ):
        tx.guards.add(source, Kind.IS, obj)
        inner = tx.wrap(obj.__wrapped__, source and AttrSource(source, "__wrapped__"))
        made = CachedFunction(obj, inner, source)
        return made if source is None else tx.objects.remember(obj, made)
    if source is not None:
        receiver = getattr(obj, "__self__", None)
        if (
            isinstance(receiver, type)
            and (unbound := modelled_class_method(receiver, obj)) is not None
        ):
            tx.guards.add(source, Kind.TYPE, type(obj))
            tx.guards.add(AttrSource(source, "__name__"), Kind.EQUALS, obj.__name__)
            return MethodValue(
                tx.wrap(receiver, AttrSource(source, "__self__")), BuiltinValue(unbound), source
            )
        bound = isinstance(obj, types.BuiltinFunctionType | types.MethodWrapperType)
        if (
            bound
            and not isinstance(receiver, types.ModuleType | type | None)
            and hasattr(receiver, obj.__name__)
        ):
            tx.guards.add(source, Kind.TYPE, type(obj))
            tx.guards.add(AttrSource(source, "__name__"), Kind.EQUALS, obj.__name__)
            return tx.make.bound_method(
                tx.wrap(receiver, AttrSource(source, "__self__")), obj.__name__
            )
        if isinstance(obj, types.MethodWrapperType):  # made anew whenever it is asked for
            tx.guards.add(source, Kind.TYPE, type(obj))
            tx.guards.add(AttrSource(source, "__self__"), Kind.IS, receiver)
            tx.guards.add(AttrSource(source, "__name__"), Kind.EQUALS, obj.__name__)
        else:
            tx.guards.add(source, Kind.IS, obj)
    return BuiltinValue(obj, source)


def modelled_class_method(cls: type, bound: Any) -> Any:
    """The class method written in C that `bound` is, if what it does is known; else None."""
    _, raw = lookup(cls, bound.__name__)
    known = isinstance(raw, types.ClassMethodDescriptorType) and model_of(raw) is not None
    return raw if known and raw.__get__(None, cls) == bound else None


@wraps(types.GenericAlias, types.UnionType, *TYPING_FORMS)
def wrap_type_form(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    tx.guards.add(source, Kind.IS, obj)
    return FrozenObject(obj)


@wraps(operator.itemgetter, operator.attrgetter, operator.methodcaller)
def wrap_getter(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    tx.guards.add(source, Kind.IS, obj)
    cls, arguments = obj.__reduce__()
    named: dict[str, Any] = {}
    if isinstance(cls, functools.partial):
        cls, arguments, named = type(obj), cls.args, cls.keywords
    return GetterValue(
        cls,
        [tx.wrap(a, None) for a in arguments],
        {k: tx.wrap(v, None) for k, v in named.items()},
        source,
    )


@wraps(types.CellType)
def wrap_cell(tx: TraceContext, obj: types.CellType, source: Source | None) -> Value:
    return existing_cell(tx, obj, source)


@wraps(functools.partial)
def wrap_partial(tx: TraceContext, obj: functools.partial, source: Source | None) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", "a functools.partial that no path leads to")
    tx.guards.add(source, Kind.TYPE, functools.partial)
    args = AttrSource(source, "args")
    tx.guards.add(args, Kind.LENGTH, len(obj.args))
    keywords = AttrSource(source, "keywords")
    tx.guards.add(keywords, Kind.KEYS, tuple(obj.keywords))
    return PartialValue(
        tx.wrap(obj.func, AttrSource(source, "func")),
        [Lazy(arg, SequenceItem(args, i)) for i, arg in enumerate(obj.args)],
        {name: Lazy(value, DictItem(keywords, name)) for name, value in obj.keywords.items()},
        source,
    )


# containers


def _items(tx: TraceContext, obj: Any, source: Source | None) -> list[Value]:
    if source is None:
        return [tx.wrap(item, None) for item in obj]
    if len(obj) > LARGEST:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} of {len(obj)} items")
    tx.guards.add(source, Kind.TYPE, type(obj))
    tx.guards.add(source, Kind.LENGTH, len(obj))
    return [Lazy(item, SequenceItem(source, index)) for index, item in enumerate(tuple(obj))]


@wraps(tuple, torch.Size)
def wrap_tuple(tx: TraceContext, obj: tuple, source: Source | None) -> Value:
    if source is not None and _literal(obj):
        tx.guards.add(source, Kind.EQUALS, obj)
        return TupleValue(
            [
                Constant(item) if not isinstance(item, tuple) else tx.wrap(item, None)
                for item in obj
            ],
            source,
            type(obj),
            obj,
        )
    return TupleValue(_items(tx, obj, source), source, type(obj), None if source is None else obj)


def _literal(obj: Any) -> bool:
    return type(obj) in LITERAL_TYPES or (
        type(obj) in (tuple, torch.Size) and all(map(_literal, obj))
    )


@wraps(list)
def wrap_list(tx: TraceContext, obj: list, source: Source | None) -> Value:
    if source is None:
        return ListValue(_items(tx, obj, None))
    tx.guards.add(source, Kind.TYPE, list)
    value = ListValue([], source)

    def read() -> list[Value]:
        tx.effects.read(value)
        return _items(tx, obj, source)

    value.unread = read
    return tx.objects.remember(obj, value)


@wraps(collections.deque)
def wrap_deque(tx: TraceContext, obj: collections.deque, source: Source | None) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", "a deque that no path leads to")
    if len(obj) > LARGEST_DEQUE:
        raise GraphBreak("unsupported-value", f"a deque of {len(obj)} items")
    tx.guards.add(source, Kind.TYPE, collections.deque)
    tx.guards.add(source, Kind.LENGTH, len(obj))
    tx.guards.add(AttrSource(source, "maxlen"), Kind.EQUALS, obj.maxlen)
    items: list[Value] = [Lazy(item, IteratorItem(source, index)) for index, item in enumerate(obj)]
    return tx.objects.remember(obj, DequeValue(items, obj.maxlen, source))


def _factory(tx: TraceContext, obj: dict, source: Source | None) -> Value | None:
    if not isinstance(obj, collections.defaultdict):
        return None
    member = vars(collections.defaultdict)[
        "default_factory"
    ]  # past what a class below may have under the name
    if (
        type(obj) is not collections.defaultdict
        and lookup(type(obj), "default_factory")[1] is not member
    ):
        raise GraphBreak(
            "unsupported-value", f"a {type(obj).__name__}, whose default_factory is its own"
        )
    return tx.wrap(obj.default_factory, source and AttrSource(source, "default_factory"))


@wraps(dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
def wrap_dict(tx: TraceContext, obj: dict, source: Source | None) -> Value:
    if type(obj) is dict and source is not None and holds_globals(obj):
        return wrap_globals(tx, obj, source)
    factory = _factory(tx, obj, source)
    if source is None:
        entries = {
            (k := tx.wrap(key, None)).key(tx): (k, tx.wrap(item, None)) for key, item in obj.items()
        }
        return DictValue(entries, cls=type(obj), default_factory=factory)
    tx.guards.add(source, Kind.TYPE, type(obj))
    return tx.objects.remember(obj, DictValue(None, source, obj, type(obj), factory))


def wrap_globals(tx: TraceContext, obj: dict, source: Source) -> Value:
    path = tx.objects.globals_path(obj)
    if path is None:
        raise GraphBreak("unsupported-value", "global variables that no path leads to")
    if source != path:
        tx.guards.add(source, Kind.SAME, path)
    return tx.objects.remember(obj, GlobalsDict(obj, path))


@wraps(types.MappingProxyType)
def wrap_mapping_proxy(
    tx: TraceContext, obj: types.MappingProxyType, source: Source | None
) -> Value:
    behind = mapping_behind(obj)
    if (
        not isinstance(behind, dict) or "__doc__" in behind
    ):  # a class has its namespace watched, not what shows it
        raise GraphBreak("unsupported-value", "a mappingproxy of a class")
    tx.guards.add(source, Kind.TYPE, types.MappingProxyType)
    inner = tx.objects.wrap_held(behind, source and ProxiedMapping(source))
    if not isinstance(inner, DictValue):
        raise GraphBreak("unsupported-value", f"a mappingproxy of {inner.describe()}")
    return tx.objects.remember(obj, MappingProxyValue(inner, source))


NAMED = (
    type,
    enum.Enum,
    types.FunctionType,
)  # objects that stay what they are, and are their own keys


@wraps(set, frozenset)
def wrap_set(tx: TraceContext, obj: set, source: Source | None) -> Value:
    if source is not None and len(obj) <= MOST_COMPARED and any(map(is_compared, obj)):
        return compared_set(tx, obj, source)
    if not all(_literal(item) or isinstance(item, NAMED) for item in obj):
        raise GraphBreak("unsupported-value", "a set of objects")
    if source is not None:
        tx.guards.add(source, Kind.TYPE, type(obj))
        tx.guards.add(
            source, Kind.PYTHON, ("equals " + repr(sorted(map(repr, obj))), _equals(frozenset(obj)))
        )
    members = {value.key(tx): value for value in (tx.wrap(item, None) for item in obj)}
    value = SetValue(members, source, type(obj), obj if type(obj) is frozenset else obj.copy())
    value.initial, value.before = tuple(obj), dict(zip(obj, members.values(), strict=True))
    return tx.objects.remember(obj, value) if source is not None and type(obj) is set else value


def compared_set(tx: TraceContext, obj: set | frozenset, source: Source) -> Value:
    """A set of objects that are compared in Python, and of literals."""
    if not all(_literal(item) or isinstance(item, NAMED) or is_compared(item) for item in obj):
        raise GraphBreak("unsupported-value", "a set of objects")
    tx.guards.add(source, Kind.TYPE, type(obj))
    tx.guards.add(source, Kind.LENGTH, len(obj))
    values = [tx.wrap(item, IteratorItem(source, index)) for index, item in enumerate(obj)]
    keys = [value.key(tx) for value in values]
    guard_hashes(tx, source, obj, keys)
    if list(type(obj)(keys)) != keys:
        raise GraphBreak("unsupported-value", "a set whose order comes of what it held before")
    members = dict(zip(keys, values, strict=True))
    made = SetValue(members, source, type(obj), type(obj)(keys))
    made.before = dict(members)
    return tx.objects.remember(obj, made) if type(obj) is set else made


def _equals(expected: frozenset) -> Callable[[Any], bool]:
    return lambda obj: obj == expected


@wraps(super)
def wrap_super(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is None or super.__getattribute__(obj, "__self__") is None:
        raise GraphBreak("unsupported-value", "a super object that is bound to nothing")
    tx.guards.add(source, Kind.TYPE, super)
    tx.guards.add(AttrSource(source, "__thisclass__"), Kind.IS, obj.__thisclass__)
    return SuperValue(
        obj.__thisclass__, tx.wrap(obj.__self__, AttrSource(source, "__self__")), source
    )


@wraps(slice)
def wrap_slice(tx: TraceContext, obj: slice, source: Source | None) -> Value:
    tx.guards.add(source, Kind.TYPE, slice)
    return SliceValue(
        [
            tx.wrap(getattr(obj, n), source and AttrSource(source, n))
            for n in ("start", "stop", "step")
        ],
        source,
    )


@wraps(weakref.ProxyType, weakref.CallableProxyType)
def wrap_proxy(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    raise GraphBreak("unsupported-value", "a weak proxy")


@wraps(weakref.ReferenceType)
def wrap_reference(
    tx: TraceContext, obj: weakref.ReferenceType[Any], source: Source | None
) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", "a weak reference that no path leads to")
    tx.guards.add(source, Kind.TYPE, weakref.ReferenceType)
    return tx.objects.remember(obj, WeakReference(obj, source))


@wraps(range)
def wrap_range(tx: TraceContext, obj: range, source: Source | None) -> Value:
    tx.guards.add(source, Kind.TYPE, range)
    for part in ("start", "stop", "step"):
        tx.guards.add(source and AttrSource(source, part), Kind.EQUALS, getattr(obj, part))
    return RangeValue(obj, source)


VIEWS: dict[type, str] = {
    type(getattr(cls(), what)()): what
    for cls in (dict, collections.OrderedDict)
    for what in ("keys", "values", "items")
}


@wraps(*VIEWS)
def wrap_view(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is None:
        return ListValue([tx.wrap(item, None) for item in obj])
    tx.guards.add(source, Kind.TYPE, type(obj))
    shown = tx.wrap(obj.mapping, AttrSource(source, "mapping"))
    assert isinstance(shown, MappingProxyValue)
    return tx.objects.remember(obj, ViewValue(shown.shown, VIEWS[type(obj)], source))


# objects


def wrap_tensor(tx: TraceContext, obj: torch.Tensor, source: Source | None) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", "a tensor that no path leads to")
    why = why_opaque(obj)
    if (
        why is not None
        and type(obj) not in PLAIN_TENSORS
        and is_captured(type(obj))
        and why_opaque(without_class(obj)) is None
    ):
        return wrap_subclass(tx, obj, source)
    return tx.graph.input(tx, obj, source) if why is None else wrap_opaque(tx, obj, source, why)


def wrap_nn_module(tx: TraceContext, obj: torch.nn.Module, source: Source | None) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} that no path leads to")
    tx.guards.add(source, Kind.TYPE, type(obj))
    return tx.objects.remember(obj, ModuleValue(type(obj), obj, source))


def wrap_exception(tx: TraceContext, obj: BaseException, source: Source | None) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} that no path leads to")
    tx.guards.add(source, Kind.TYPE, type(obj))
    return tx.objects.remember(obj, ExceptionValue(type(obj), [], obj, source))


def wrap_named_tuple(tx: TraceContext, obj: tuple, source: Source | None) -> Value:
    return TupleValue(_items(tx, obj, source), source, type(obj), None if source is None else obj)


def wrap_numpys(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if is_function(obj):
        tx.guards.add(source, Kind.IS, obj)
        return NumpyFunction(obj, source)
    number = obj.item()
    if (
        source is not None
        and isinstance(number, int | float)
        and tx.symbols.is_symbolic(source, number)
    ):
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} that varies")
    tx.guards.add(source, Kind.EQUALS, obj)
    return Constant(obj, source)


@wraps(torch.jit.ScriptFunction)
def wrap_scripted(tx: TraceContext, obj: torch.jit.ScriptFunction, source: Source | None) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", "a scripted function that no path leads to")
    tx.guards.add(source, Kind.IS, obj)
    return tx.objects.remember(obj, ScriptedFunction(type(obj), obj, source))


def wrap_object(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if type(obj).__module__ == "numpy" and is_numpys(obj):
        return wrap_numpys(tx, obj, source)
    if source is None:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} that no path leads to")
    tx.guards.add(source, Kind.TYPE, type(obj))
    base: BuiltinContainer | None = None
    cls = type(obj)  # what an object says of itself may be another's class
    if type(cls).__hash__ is None:
        raise GraphBreak("unsupported-value", f"a {cls.__name__}, whose class has no hash")
    if issubclass(cls, dict):
        base = DictValue(None, source, obj, _builtin_base(type(obj)), _factory(tx, obj, source))
    elif issubclass(cls, list):
        base = ListValue(_items(tx, obj, source), source)
    elif issubclass(cls, tuple):
        base = TupleValue(_items(tx, obj, source), source)
    elif issubclass(cls, (int, float, complex, str, bytes, bytearray, set, frozenset, super)):
        raise GraphBreak(
            "unsupported-value", f"a {type(obj).__name__} (a subclass of a builtin type)"
        )
    return tx.objects.remember(obj, UserObject(type(obj), obj, source, base))


def _builtin_base(cls: type) -> type:
    return next(
        base
        for base in cls.__mro__
        if base in (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
    )


FAMILIES: tuple[tuple[Any, Rule], ...] = (
    (torch.Tensor, wrap_tensor),
    (torch.nn.Module, wrap_nn_module),
    (type, wrap_class),
    (types.ModuleType, wrap_module_object),
    (enum.Enum, wrap_enum),
    (torch._C._TensorBase, wrap_tensor),
    (BaseException, wrap_exception),
)


def is_named_tuple(obj: Any) -> bool:
    cls = type(obj)
    return (
        issubclass(cls, tuple)
        and not cls.__dictoffset__
        and (hasattr(cls, "_make") or cls.__module__ == "torch.return_types")
    )
