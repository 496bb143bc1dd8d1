"""Functions under functools.lru_cache. A cached result is guarded; a call that would add a result
is inlined if it has no side effects."""

from __future__ import annotations

import builtins
import functools
import logging
import types
from typing import Any

from ....errors import GraphBreak
from ....guards.caches import cached_result, holds
from ....guards.guard import Kind
from ....guards.kinds.equality import same_constant
from ....guards.source import AttrSource, CachedResult, Source, attribute_path
from ..base import Args, CannotReconstruct, Kwargs, ObservedException, Value
from ..constant import call_now, can_fold, is_literal
from ..containers.list import ListValue
from ..containers.mapping import DictValue
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import IdentityKey
from ..objects.attribute_storage import instance_dict
from ..objects.mro import lookup
from ..objects.user_object import UserObject
from ..program_output import write_by_cached
from ..registry import wraps
from ..tensor.tensor import TensorValue
from .builtin_function import wrap_builtin
from .method import MethodValue


class CachedFunction(Value):
    """A function under functools.lru_cache.

    On literals it is called for real: equal arguments give equal results, and its side effects
    would happen once in eager too. A result that is no literal is the object in the cache. If it
    could see changes of this frame, or is given objects, the wrapped function is interpreted: it
    may only return a result, which has to be what it returns without the changes.
    """

    __slots__ = ("real", "inner", "given")

    def __init__(self, real: Any, inner: Value, source: Source | None) -> None:
        super().__init__(source)
        self.real, self.inner = real, inner
        self.given: dict[Source, Value] = {}  # by this capture so far

    def python_type(self) -> type:
        return type(self.real)

    def describe(self) -> str:
        return f"cached function {self.real.__qualname__}"

    def key(self, tx: TraceContext) -> Any:
        return IdentityKey(self.real)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__wrapped__":
            return self.inner
        if name == "__get__":
            return tx.make.bound_method(self, name)
        if name in vars(self.real):
            return tx.wrap(getattr(self.real, name), attribute_path(self.source, name))
        call_now(tx, getattr, self.real, name)
        raise self.unsupported_use(f"attribute {name}")

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if name == "__get__" and args:
            through_class = args[0].is_none()
            return self if through_class else MethodValue(args[0], self)
        return super().method(tx, name, args, kwargs)

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        """Calls an `lru_cache` function with known arguments for real where the program cannot
        tell; otherwise its body is interpreted."""
        args = [look_at_items(tx, arg) for arg in args]
        kwargs = {name: look_at_items(tx, arg) for name, arg in kwargs.items()}
        if any(
            lookup(arg.python_type(), "__hash__")[1] is None for arg in (*args, *kwargs.values())
        ):
            raise GraphBreak(
                "exception-leaves", f"TypeError: an argument of {self.describe()} has no hash"
            )
        if not all(is_known(tx, arg) for arg in (*args, *kwargs.values())):
            return self._interpret(tx, args, kwargs)
        path = self._path(tx, args, kwargs)
        if path in self.given:
            return self.given[path]
        if (tx.effects.may_be_seen() or tx.modes.open) and not holds(
            self.real, path.args, path.kwargs
        ):
            written = len(tx.effects.outputs)
            interpreted = self._interpret(tx, args, kwargs)
            if len(tx.effects.outputs) > written:
                return interpreted
            now = self._without(path)
            if not is_alike(tx, interpreted, now):
                raise self._leave_to_python("which sees what the frame has changed")
        try:
            result = cached_result(self.real, path.args, path.kwargs)
        except Exception as error:
            raise self._leave_to_python("which raises") from error
        if is_literal(result) and can_fold(args, kwargs):
            return tx.wrap(result, None)
        if self.source is None:
            raise self._leave_to_python("whose new result the cache would keep")
        self.given[path] = tx.wrap(result, path)
        return self.given[path]

    def _without(self, path: CachedResult) -> Any:
        """The function's result without this frame's changes. It is known to have no side
        effects."""
        try:
            return self.real.__wrapped__(*path.args, **dict(path.kwargs))
        except Exception as error:
            raise self._leave_to_python("which raises") from error

    def _leave_to_python(self, why: str) -> GraphBreak:
        return GraphBreak("unknown-call", f"{self.describe()}, {why},")

    def _path(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> CachedResult:
        """The path to the result for known arguments."""
        known = tuple(real(tx, a) for a in args)
        named = tuple((name, real(tx, a)) for name, a in kwargs.items())
        return CachedResult(
            self.known_source,
            known,
            named,
            tuple(map(type, (*known, *(value for _, value in named)))),
        )

    def _interpret(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        """Interprets the function. Breaks if it has side effects other than output."""
        if not all(is_known(tx, arg) or varies(arg) for arg in (*args, *kwargs.values())):
            raise self._leave_to_python("whose arguments the cache would keep")
        stop = self._leave_to_python("which has side effects")
        calls, written = tx.graph.mark(), len(tx.effects.outputs)
        try:
            with tx.effects.allow_new_objects_only(stop, output=True):
                result = look_at_items(tx, self.inner.call(tx, args, kwargs))
        except ObservedException as error:
            raise self._leave_to_python("which raises") from error
        if tx.graph.mark() > calls:
            raise self._leave_to_python("whose new result the cache would keep")
        if tx.effects.take_outputs(written):
            # A message that is written once. The function is called after the graph has run, when
            # its cache decides whether it writes.
            alone = sees_only_arguments(tx, self.real.__wrapped__, args)
            if kwargs or not result.is_none() or self.source is None or not alone:
                raise stop
            tx.effects.output(write_by_cached, (self, *args), tx.frames.break_position())
            return result
        if not any(map(varies, (*args, *kwargs.values()))):
            return result
        kept = readable_result(tx, result)
        if kept is None:
            raise self._leave_to_python("whose new result the cache would keep")
        return kept


class CachedContainer(Value):
    """A container that the cache keeps of a call whose arguments are known only at run time. It may
    be read here, and nothing else."""

    __slots__ = ()

    def snapshot(self) -> Any:
        """Breaks: it is called before each change."""
        raise GraphBreak("unsupported-mutation", f"of {self.describe()} in a cache")

    def is_same(self, other: Value) -> bool:
        if isinstance(other, CachedContainer) and other is not self:
            raise self.unsupported_use("compared by identity with a cached object")
        return super().is_same(other)

    def reconstruct(self, emit: Emitter) -> None:
        raise CannotReconstruct(self)  # the program would hold a copy of what the cache keeps


class CachedList(CachedContainer, ListValue):
    __slots__ = ()


class CachedDict(CachedContainer, DictValue):
    __slots__ = ()


def look_at_items(tx: TraceContext, value: Value) -> Value:
    """Looks at a value and, for a tuple, at its items."""
    value = tx.look(value)
    for item in value.all(tx) if isinstance(value, TupleValue) else ():
        look_at_items(tx, item)
    return value


def is_known(tx: TraceContext, arg: Value) -> bool:
    """Whether an argument is a literal, or an existing object that is equal only to itself."""
    if arg.is_constant():
        return not varies(arg)
    if isinstance(arg, TupleValue):
        return arg.cls is tuple and all(is_known(tx, item) for item in arg.items)
    cls = arg.python_type()
    alone = (
        lookup(cls, "__hash__")[1] is object.__hash__ and lookup(cls, "__eq__")[1] is object.__eq__
    )
    return (
        alone
        and arg.source is not None
        and not isinstance(arg, TensorValue)
        and tx.objects.real_object(arg) is not None
    )


def real(tx: TraceContext, arg: Value) -> Any:
    """The object of a known argument, guarded: another object needs other code."""
    if arg.is_constant():
        return arg.constant()
    if isinstance(arg, TupleValue):
        return tuple(real(tx, item) for item in arg.items)
    found = tx.objects.real_object(arg)
    tx.guards.add(arg.source, Kind.IS, found)
    return found


def sees_only_arguments(tx: TraceContext, function: types.FunctionType, args: Args) -> bool:
    """Whether a function that writes a message would write the same one later, when the frame has
    changed more: it reads no names from outside, and is given literals and loggers."""
    code = function.__code__
    outside = function.__globals__.keys() | vars(builtins).keys()
    return (
        outside.isdisjoint(code.co_names)
        and not code.co_freevars
        and not any(isinstance(constant, types.CodeType) for constant in code.co_consts)
        and all(
            arg.is_constant() or isinstance(tx.objects.real_object(arg), logging.Logger)
            for arg in args
        )
    )


def varies(value: Value) -> bool:
    """Whether a value is, or contains, a number or text that varies between calls."""
    if isinstance(value, TupleValue):
        return any(map(varies, value.items))
    return value.varies()


def readable_result(tx: TraceContext, result: Value) -> Value | None:
    """The result as a value that can be read but not changed; None if there is no such value."""
    if result.is_constant() or result.source is not None:
        return result  # an object that exists anyway: the cache keeps no copy of it
    if isinstance(result, TupleValue | ListValue):
        items = [
            kept
            for item in result.items
            if (kept := readable_result(tx, tx.look(item))) is not None
        ]
        if len(items) == len(result.items):
            if isinstance(result, TupleValue):
                return TupleValue(items, None, result.cls)
            return CachedList(items)
    if isinstance(result, DictValue) and result.cls is dict and result.real is None:
        pairs = [(key, readable_result(tx, item)) for key, item in result.pairs(tx)]
        entries = {key.key(tx): (key, kept) for key, kept in pairs if kept is not None}
        return CachedDict(entries) if len(entries) == len(pairs) else None
    return None


def is_alike(tx: TraceContext, value: Value, found: Any) -> bool:
    """Whether a value and an object have the same class and equal contents, recursively."""
    value = tx.look(value)
    cls: object = type(found)
    if varies(value) or value.python_type() is not cls:
        return False
    if value.is_constant():
        return same_constant(value.constant(), found)
    if isinstance(value, TupleValue | ListValue):
        return len(value.items) == len(found) and all(
            is_alike(tx, *pair) for pair in zip(value.items, found, strict=True)
        )
    if isinstance(value, DictValue) and value.cls is dict:
        pairs = zip(value.pairs(tx), found.items(), strict=True)
        return len(value.all_entries(tx)) == len(found) and all(
            is_alike(tx, *two) for pair in pairs for two in zip(*pair, strict=True)
        )
    if isinstance(value, UserObject) and value.base is None and value.real is None:
        own = instance_dict(found)
        if own is None or not has_no_slots(value.cls) or value.names(tx) != list(own):
            return False
        return all(
            is_alike(tx, attribute, own[name])
            for name in own
            if (attribute := value.own_attribute(tx, name)) is not None
        )
    return False


def has_no_slots(cls: type) -> bool:
    """Whether instances of a class keep everything in their dictionary."""
    return not any(
        isinstance(raw, types.MemberDescriptorType)
        for owner in cls.__mro__
        for raw in vars(owner).values()
    )


@wraps(functools._lru_cache_wrapper)
def wrap_cached_function(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if not isinstance(getattr(obj, "__wrapped__", None), types.FunctionType):
        return wrap_builtin(tx, obj, source)
    tx.guards.add(source, Kind.IS, obj)
    inner = tx.wrap(obj.__wrapped__, source and AttrSource(source, "__wrapped__"))
    made = CachedFunction(obj, inner, source)
    return made if source is None else tx.objects.remember(obj, made)
