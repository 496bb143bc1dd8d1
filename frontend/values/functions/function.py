"""Python functions: existing ones, and those that the traced program makes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import reprlib
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ....errors import GraphBreak
from ....guards.caches import DISPATCH
from ....guards.guard import Kind
from ....guards.source import (
    AttrSource,
    CachedResult,
    ClassAttribute,
    DictItem,
    SequenceItem,
    Source,
)
from ..base import Args, Kwargs, LazyValue, Value
from ..constant import LITERAL_TYPES, Constant
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..emitter import Emitter
from ..models.torch_policy import goes_into_graph, refuse_disallowed
from ..mutable import Mutable
from ..registry import accepts, call_model, method_of, model_of, wraps
from ..torch_directives import is_constant
from .builtin_function import BuiltinValue
from .cell import CellValue, existing_cell, guard_same_object


class FunctionValue(Mutable):
    """A Python function: an existing one (`real`), or one that the traced program made."""

    __slots__ = (
        "real", "code", "globals", "name", "defaults", "kwdefaults", "closure", "attributes",
        "annotations", "namespace",
    )  # fmt: skip
    state = ("attributes", "code")
    cls = types.FunctionType

    def __init__(
        self,
        code: types.CodeType,
        globals_: dict[str, Any],
        closure: list[CellValue],
        defaults: list[Value],
        kwdefaults: dict[str, Value],
        source: Source | None = None,
        real: types.FunctionType | None = None,
    ) -> None:
        super().__init__(source)
        self.code, self.globals, self.closure, self.real = code, globals_, closure, real
        self.defaults, self.kwdefaults = defaults, kwdefaults
        self.name = real.__qualname__ if real is not None else code.co_qualname
        self.attributes: dict[str, Value] = {}
        self.annotations: Value | None = None
        self.namespace: Value | None = None  # its __dict__, once it was read

    def describe(self) -> str:
        return f"function {self.name}"

    def key(self, tx: TraceContext) -> Any:
        return tx.objects.identity_key(self, self.real)

    def is_same(self, other: Value) -> bool:
        return self is other or (
            isinstance(other, FunctionValue) and self.real is not None and self.real is other.real
        )

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name == "__get__":
            return tx.make.bound_method(self, name)
        if self.real is None:
            return self._made_attribute(tx, name)
        if not hasattr(self.real, name):
            raise tx.exceptions.no_attribute("function", name)
        return tx.wrap(getattr(self.real, name), self.source and AttrSource(self.source, name))

    def _made_attribute(self, tx: TraceContext, name: str) -> Value:
        """An attribute, not stored by the program, of a function that the program made."""
        if name == "__annotations__":
            parts = [] if self.annotations is None else self.annotations.unpack(tx)
            tx.effects.change(self)
            self.attributes[name] = tx.make.dict_of(list(zip(parts[::2], parts[1::2], strict=True)))
            return self.attributes[name]
        if name == "__code__":
            return BuiltinValue(self.code)
        if name == "__defaults__":
            return tx.make.tuple_of(self.defaults) if self.defaults else Constant(None)
        if name == "__dict__":
            self.namespace = self.namespace or tx.make.instance_dictionary(self)
            return self.namespace
        if name in MADE_ATTRIBUTES and hasattr(types.FunctionType, name):
            return tx.wrap(MADE_ATTRIBUTES[name](self), None)
        if name == "__wrapped__" or not hasattr(types.FunctionType, name):
            raise tx.exceptions.no_attribute("function", name)
        return super().attribute(tx, name)

    # the dictionary of one that the traced program made

    def own_attribute(self, tx: TraceContext, name: str) -> Value | None:
        return None if name in functools.WRAPPER_ASSIGNMENTS else self.attributes.get(name)

    def names(self, tx: TraceContext) -> list[str]:
        return [name for name in self.attributes if name not in functools.WRAPPER_ASSIGNMENTS]

    def store(self, tx: TraceContext, name: str, value: Value) -> None:
        if name in functools.WRAPPER_ASSIGNMENTS:
            raise self.unsupported_use(f"'{name}' in its __dict__")
        self.set_attribute(tx, name, value)

    def remove(self, tx: TraceContext, name: str) -> None:
        tx.effects.change(self)
        del self.attributes[name]

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        handler = method_of(types.FunctionType, name)
        if handler is not None and accepts(handler, len(args) + 2, kwargs):
            return handler(tx, self, *args, **kwargs)
        return super().method(tx, name, args, kwargs)

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if self.real is not None:
            super().set_attribute(tx, name, value)
        if name == "__type_params__":  # which functools.wraps copies
            if not (value.is_constant() and value.constant() == ()):
                super().set_attribute(tx, name, value)
            return
        tx.effects.change(self)
        self.attributes[name] = value

    def rename_code(self, tx: TraceContext, name: str) -> None:
        """Renames the code of a function that the traced program made, as tracebacks and profilers
        show it."""
        if self.real is not None:
            raise GraphBreak("unsupported-mutation", f"of the code of {self.describe()}")
        tx.effects.change(self)
        self.code = code_of_name(self.code, name)

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        if self.code is DISPATCH:
            chosen = implementation_for_class(tx, self, args)
            if chosen is not None:
                return chosen
        if self.code in LEFT_TO_PYTHON:
            raise GraphBreak("unknown-call", LEFT_TO_PYTHON[self.code])
        if self.real is not None:
            refuse_disallowed(self.real)
            assumed = assumed_constant(tx, self.real, args, kwargs)
            if assumed is not None:
                return assumed
            model = model_of(self.real)
            if model is not None:
                return call_model(tx, self, model, args, kwargs)
            if goes_into_graph(self.real):
                return tx.graph.function(self.real, *args, **kwargs)
        return tx.calls.inline(self, args, kwargs)

    def is_inlined(self) -> bool:
        """Whether a call interprets its code."""
        if self.code in LEFT_TO_PYTHON:
            return False
        return self.real is None or (
            model_of(self.real) is None
            and not goes_into_graph(self.real)
            and not is_constant(self.real)
        )

    def reconstruct(self, emit: Emitter) -> None:
        if self.real is not None:
            emit.builder.load_const(self.real)
            return
        if self.globals is emit.globals:
            self._make_function(emit)
        else:
            self._call_function_type(emit)
        emit.give_attributes(self, self.attributes)

    def _make_function(self, emit: Emitter) -> None:
        """Makes a function with the globals of the generated code, by the instruction
        MAKE_FUNCTION."""
        parts = []
        if self.defaults:
            emit.push_tuple(self.defaults)
            parts.append("defaults")
        if self.kwdefaults:
            emit.push_keywords(self.kwdefaults)
            parts.append("kwdefaults")
        if self.annotations is not None:
            emit.push(self.annotations)
            parts.append("annotations")
        if self.closure:
            emit.push_tuple(list(self.closure))
            parts.append("closure")
        emit.builder.load_const(self.code)
        emit.builder.make_function(parts)

    def _call_function_type(self, emit: Emitter) -> None:
        """Makes a function with other globals, by calling types.FunctionType."""

        def tuple_or_none(values: list[Value]) -> Callable[[], None]:
            return (lambda: emit.push_tuple(values)) if values else emit.const(None)

        known = map(emit.const, (self.code, self.globals, self.code.co_name))
        parts = [tuple_or_none(self.defaults), tuple_or_none(list(self.closure))]
        emit.call(types.FunctionType, [*known, *parts])
        if self.kwdefaults:
            emit.builder.copy(1)
            emit.push_keywords(self.kwdefaults)
            emit.builder.swap(2)
            emit.builder.store_attr("__kwdefaults__")
        if isinstance(self.annotations, TupleValue) and "__annotations__" not in self.attributes:
            items = self.annotations.items  # a name, its annotation, the next name
            emit.builder.copy(1)
            emit.push_dict(zip(items[::2], items[1::2], strict=True))
            emit.builder.swap(2)
            emit.builder.store_attr("__annotations__")

    def emit_changes(self, emit: Emitter) -> None:
        for name, item in self.attributes.items():
            emit.push(item)
            emit.push(self)
            emit.builder.store_attr(name)


def assumed_constant(
    tx: TraceContext, function: types.FunctionType, args: Args, kwargs: Kwargs
) -> Value | None:
    """The result of a function that torch.compiler.assume_constant_result marks, called with
    literals: it is called now, and never by compiled code. None for others, and where the result is
    no literal."""
    if not is_constant(function):
        return None
    try:
        given = [value.literal(tx) for value in args]
        named = {name: value.literal(tx) for name, value in kwargs.items()}
    except GraphBreak:
        return None
    result = function(*given, **named)
    return tx.wrap(result, None) if type(result) in LITERAL_TYPES else None


def code_of_name(code: types.CodeType, name: str) -> types.CodeType:
    """A copy of code with another name. The copy is made once, so that functions made in each call
    share one code object."""
    _, renamed = _renamed_codes.setdefault(
        (id(code), name), (code, code.replace(co_name=name, co_qualname=name))
    )
    return renamed


_renamed_codes: dict[
    tuple[int, str], tuple[types.CodeType, types.CodeType]
] = {}  # keeps the original, as its id is the key

# Functions of the library that keep a record of their calls.
LEFT_TO_PYTHON = {
    DISPATCH: "a single dispatch",
    reprlib.recursive_repr()(lambda self: "").__code__: "a __repr__ under recursive_repr",
    getattr(dataclasses, "_recursive_repr", reprlib.recursive_repr())(
        lambda self: ""
    ).__code__: "the __repr__ of a dataclass",
}


def implementation_for_class(tx: TraceContext, dispatch: FunctionValue, args: Args) -> Value | None:
    """What the `dispatch` of a single dispatch chooses for a class. None where the choice could
    depend on a change of the frame, and where it raises."""
    if dispatch.real is None or dispatch.source is None:
        return None
    if len(args) != 1 or not args[0].is_constant():
        return None
    cls = args[0].constant()
    closure = inspect.getclosurevars(dispatch.real).nonlocals
    if type(closure["dispatch_cache"]) is not WeakKeyDictionary:
        return None
    is_chosen = cls in closure["dispatch_cache"] and tx.objects.find(closure["registry"]) is None
    if tx.effects.may_be_seen() and not is_chosen:
        return None
    try:
        function = dispatch.real(cls)
    except Exception:
        return None  # Python raises it
    return tx.wrap(function, CachedResult(dispatch.source, (cls,), (), (type(cls),)))


def _docstring(function: FunctionValue) -> str | None:
    first = function.code.co_consts[0] if function.code.co_consts else None
    return first if isinstance(first, str) else None


# Attributes of a function made in the trace that its code and globals say.
MADE_ATTRIBUTES: dict[str, Callable[[FunctionValue], Any]] = {
    "__name__": lambda function: function.code.co_name,
    "__qualname__": lambda function: function.code.co_qualname,
    "__module__": lambda function: function.globals.get("__name__"),
    "__doc__": _docstring,
    "__type_params__": lambda function: (),  # one that is generic is left to Python
}


def existing_function(
    tx: TraceContext, real: types.FunctionType, source: Source | None
) -> FunctionValue:
    """The value of a function that existed before the frame. Its closure and defaults are
    LazyValue."""
    # it may close over itself
    value = tx.objects.remember(
        real, FunctionValue(real.__code__, real.__globals__, [], [], {}, source, real)
    )
    for index, cell in enumerate(real.__closure__ or ()):
        path = None if source is None else SequenceItem(AttrSource(source, "__closure__"), index)
        value.closure.append(existing_cell(tx, cell, path))
    for index, obj in enumerate(real.__defaults__ or ()):
        item: Source | None = source and SequenceItem(AttrSource(source, "__defaults__"), index)
        value.defaults.append(LazyValue(obj, item))
    for name, obj in (real.__kwdefaults__ or {}).items():
        item = source and DictItem(AttrSource(source, "__kwdefaults__"), name)
        value.kwdefaults[name] = LazyValue(obj, item)
    return value


def unwrap_wrappers(function: types.FunctionType) -> types.FunctionType:
    """The function inside a wrapper that torch, or a torch.compile in the same process, puts around
    methods of nn.Module and of optimizers."""
    name, modules = AROUND.get(function.__code__.co_qualname, ("", ""))
    cell = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)).get(
        name
    )
    inner = function if cell is None else cell.cell_contents
    return inner if str(getattr(inner, "__module__", "")).startswith(modules) else function


# By wrapper, the name in its closure of what it wraps, and of which modules that must be: what
# users disable stays disabled.
AROUND = {
    "install_generation_tagging_init.<locals>.patched_init": ("init", ""),
    "DisableContext.__call__.<locals>._fn": ("fn", "torch.optim"),
    "_disable_dynamo.<locals>.inner": ("fn", "torch.optim"),
    "nonstrict_trace.<locals>.wrapped": ("traceable_fn", ""),
}


@wraps(types.FunctionType)
def wrap_function(tx: TraceContext, obj: types.FunctionType, source: Source | None) -> Value:
    """A function that exists, guarded by identity or, if it may be made anew by each call of its
    maker, by its code."""
    if source is not None:
        # Where no definition stands for it, it may be made anew by each call of its maker: its code
        # and what it closes over count.
        tx.guards.add(
            source,
            *(Kind.IS, obj) if _is_definition(source, obj) else (Kind.TYPE, types.FunctionType),
        )
        tx.guards.add(AttrSource(source, "__code__"), Kind.IS, obj.__code__)
    inner = unwrap_wrappers(obj)
    if inner is not obj:
        return tx.wrap(inner, None)
    known = tx.objects.find(obj)
    if isinstance(known, FunctionValue):
        guard_same_object(tx, known, source)
        return known
    return existing_function(tx, obj, source)


def _is_definition(source: Source, function: types.FunctionType) -> bool:
    """Whether a path ends in a name of a module or class, where functions are not expected to
    change. An object may hold a function that was defined in another."""
    if isinstance(source, ClassAttribute):
        return True
    return isinstance(source, DictItem) and "<locals>" not in function.__qualname__
