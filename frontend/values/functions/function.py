"""Python functions, bound methods, builtin callables, cells and partials."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, CellContents, DictItem, SequenceItem, Source
from ..base import Call, CannotReconstruct, Lazy, Value
from ..constant import Constant, fold
from ..containers.sequence import TupleValue
from ..models.torch_policy import goes_into_graph, is_pure
from ..mutable import Mutable
from ..registry import accepts, method_of, model_of
from ..tensor.tensor import Identity

if TYPE_CHECKING:
    from ..context import TraceContext
    from ..emitter import Emitter


class CellValue(Mutable):
    """A closure cell. `contents` is None while unbound, Lazy until looked at."""

    __slots__ = ("contents", "real", "slot")

    def __init__(
        self,
        contents: Value | None,
        source: Source | None = None,
        real: types.CellType | None = None,
    ) -> None:
        super().__init__(source)
        self.contents, self.real = contents, real
        self.slot: int | None = None  # the frame's own slot, for a cell that the root frame makes

    def python_type(self) -> type:
        return types.CellType

    def snapshot(self) -> Any:
        return (self.contents,)

    def restore(self, state: Any) -> None:
        (self.contents,) = state

    def get(self, tx: TraceContext) -> Value | None:
        if type(self.contents) is Lazy:
            self.contents = tx.look(self.contents)
        return self.contents

    def set(self, tx: TraceContext, value: Value | None) -> None:
        tx.effects.change(self)
        self.contents = value

    def reconstruct(self, emit: Emitter) -> None:
        if self.slot is not None:
            emit.builder.load_cell(self.slot)
            return
        emit.call(types.CellType, [])
        emit.keep(self)  # before its contents, which may be a function that closes over it
        if self.contents is not None:
            emit.store_on_top("cell_contents", self.contents)

    def is_real(self) -> bool:
        return self.source is not None or self.slot is not None

    def emit_changes(self, emit: Emitter) -> None:
        if self.slot is None:
            self._emit_contents(emit)
        elif self.contents is None:  # storing first: deleting does not take a cell that is unbound
            emit.builder.load_const(None)
            emit.builder.store_deref(self.slot)
            emit.builder.delete_deref(self.slot)
        else:
            emit.push(self.contents)
            emit.builder.store_deref(self.slot)

    def _emit_contents(self, emit: Emitter) -> None:
        if self.contents is None:
            raise CannotReconstruct(Constant(None))
        emit.push(self.contents)
        emit.push(self)
        emit.builder.store_attr("cell_contents")


class FunctionValue(Mutable):
    """A Python function: an existing one (`real`), or one that the traced program made."""

    __slots__ = (
        "real",
        "code",
        "globals",
        "name",
        "defaults",
        "kwdefaults",
        "closure",
        "attributes",
        "annotations",
        "namespace",
    )

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
        self.namespace: Value | None = None  # its __dict__, once somebody asked for it

    def python_type(self) -> type:
        return types.FunctionType

    def describe(self) -> str:
        return f"function {self.name}"

    def key(self, tx: TraceContext) -> Any:
        return tx.objects.identity_key(self, self.real)

    def truth(self, tx: TraceContext) -> bool:
        return True

    def snapshot(self) -> Any:
        return dict(self.attributes), self.code

    def restore(self, state: Any) -> None:
        self.attributes, self.code = state

    def same(self, other: Value) -> bool:
        return self is other or (
            isinstance(other, FunctionValue) and self.real is not None and self.real is other.real
        )

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in self.attributes:
            return self.attributes[name]
        if name == "__get__":
            return tx.make.bound_method(self, name)
        if name == "__annotations__" and self.real is None:
            parts = [] if self.annotations is None else self.annotations.unpack(tx)
            tx.effects.change(self)
            self.attributes[name] = tx.make.dict_of(list(zip(parts[::2], parts[1::2], strict=True)))
            return self.attributes[name]
        if self.real is not None:
            if not hasattr(self.real, name):
                raise tx.exceptions.new(
                    AttributeError, f"'function' object has no attribute '{name}'"
                )
            return tx.wrap(getattr(self.real, name), self.source and AttrSource(self.source, name))
        if name == "__code__":
            return BuiltinValue(self.code)
        if name == "__defaults__":
            return tx.make.tuple_of(self.defaults) if self.defaults else Constant(None)
        if name == "__dict__":
            self.namespace = self.namespace or tx.make.namespace(self)
            return self.namespace
        if name in MADE_ATTRIBUTES:
            return tx.wrap(MADE_ATTRIBUTES[name](self), None)
        if name == "__wrapped__" or not hasattr(types.FunctionType, name):
            raise tx.exceptions.new(AttributeError, f"'function' object has no attribute '{name}'")
        return super().attribute(tx, name)

    # the dictionary of one that the traced program made

    def own_attribute(self, tx: TraceContext, name: str) -> Value | None:
        return None if name in functools.WRAPPER_ASSIGNMENTS else self.attributes.get(name)

    def names(self, tx: TraceContext) -> list[str]:
        return [name for name in self.attributes if name not in functools.WRAPPER_ASSIGNMENTS]

    def store(self, tx: TraceContext, name: str, value: Value) -> None:
        if name in functools.WRAPPER_ASSIGNMENTS:
            raise self.unsupported(f"'{name}' in its __dict__")
        self.set_attribute(tx, name, value)

    def remove(self, tx: TraceContext, name: str) -> None:
        tx.effects.change(self)
        del self.attributes[name]

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        handler = method_of(types.FunctionType, name)
        if handler is not None and accepts(handler, len(args) + 2, kwargs):
            return handler(tx, self, *args, **kwargs)
        return super().method(tx, name, args, kwargs)

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if self.real is not None or name == "__type_params__":
            super().set_attribute(tx, name, value)
        tx.effects.change(self)
        self.attributes[name] = value

    def rename_code(self, tx: TraceContext, name: str) -> None:
        """Gives a function that the traced program made code of another name, as tracebacks and
        profilers show it."""
        if self.real is not None:
            raise GraphBreak("unsupported-mutation", f"of the code of {self.describe()}")
        tx.effects.change(self)
        self.code = code_of_name(self.code, name)

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.code is DISPATCH and len(args) == 1:
            return self._dispatch(tx, args[0])
        if self.code in REPRESENTATIONS and len(args) == 1:
            return self._represent(tx, args[0])
        if self.real is not None:
            model = model_of(self.real)
            if model is not None:
                if not accepts(model, len(args) + 1, kwargs):
                    raise GraphBreak("unknown-call", f"{self.describe()} with these arguments")
                return model(tx, *args, **kwargs)
            if goes_into_graph(self.real):
                return tx.graph.call("call_function", self.real, args, kwargs)
        return tx.calls.inline(self, args, kwargs)

    def _dispatch(self, tx: TraceContext, cls: Value) -> Value:
        registry = self.closure[self.code.co_freevars.index("registry")]
        registered = registry.get(tx)
        if self.real is None or registered is None:
            raise GraphBreak("unknown-call", "a single dispatch made inside")
        registered.length(tx)  # relied on: what is registered later may be nearer
        cells = self.real.__closure__
        assert cells is not None
        cache = cells[self.code.co_freevars.index("dispatch_cache")].cell_contents
        if type(cache) is not WeakKeyDictionary:  # the program sees what is asked of it
            return tx.calls.inline(self, [cls], {})
        if tx.objects.find(cache) is not None:  # it changes now, and the program has looked at it
            raise GraphBreak("unknown-call", "a single dispatch whose cache was looked at")
        try:
            return tx.wrap(self.real(cls.constant()), None)
        except Exception as error:
            raise GraphBreak("unknown-call", "a single dispatch that fails") from error

    def _represent(self, tx: TraceContext, obj: Value) -> Value:
        """A repr() that watches for itself: inside of its own call for one object it is "..."."""
        inner = self.closure[self.code.co_freevars.index("user_function")].get(tx)
        running = (self, obj)
        if inner is None or running in tx.calls.active_reprs:
            return Constant("...")
        tx.calls.active_reprs.append(running)
        try:
            return inner.call(tx, [obj], {})
        finally:
            tx.calls.active_reprs.pop()

    def is_inlined(self, tx: TraceContext) -> bool:
        """Whether a call of it interprets its code."""
        if self.code is DISPATCH or self.code in REPRESENTATIONS:
            return False
        return self.real is None or (model_of(self.real) is None and not goes_into_graph(self.real))

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
        """With the globals of the code that is generated: by the instruction MAKE_FUNCTION."""
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
        """With other globals: by a call of the type of functions."""

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


def code_of_name(code: types.CodeType, name: str) -> types.CodeType:
    """A copy of code with another name, always the same one, so that functions made in each call
    have one code object."""
    _, renamed = _renamed_codes.setdefault(
        (id(code), name), (code, code.replace(co_name=name, co_qualname=name))
    )
    return renamed


_renamed_codes: dict[
    tuple[int, str], tuple[types.CodeType, types.CodeType]
] = {}  # keeps the original, as its id is the key

# What reprlib and dataclasses put around a __repr__.
REPRESENTATIONS = frozenset(
    decorate(lambda self: "").__code__  # from 3.13 on dataclasses takes reprlib's
    for decorate in (
        reprlib.recursive_repr(),
        getattr(dataclasses, "_recursive_repr", reprlib.recursive_repr()),
    )
)

# functools.singledispatch's dispatch(cls), which keeps a weak dictionary of what it has found.
DISPATCH = functools.singledispatch(lambda _: None).dispatch.__code__


def _docstring(function: FunctionValue) -> str | None:
    first = function.code.co_consts[0] if function.code.co_consts else None
    return first if isinstance(first, str) else None


# Attributes of a function made in the trace that its code and globals say.
MADE_ATTRIBUTES: dict[str, Callable[[FunctionValue], Any]] = {
    "__name__": lambda function: function.code.co_name,
    "__qualname__": lambda function: function.code.co_qualname,
    "__module__": lambda function: function.globals.get("__name__"),
    "__doc__": _docstring,
}


def existing_function(
    tx: TraceContext, real: types.FunctionType, source: Source | None
) -> FunctionValue:
    """The value of a function that existed before the frame; closure and defaults are looked at
    when used."""
    value = tx.objects.remember(
        real, FunctionValue(real.__code__, real.__globals__, [], [], {}, source, real)
    )  # it may close over itself
    for index, cell in enumerate(real.__closure__ or ()):
        path = None if source is None else SequenceItem(AttrSource(source, "__closure__"), index)
        value.closure.append(existing_cell(tx, cell, path))
    for index, obj in enumerate(real.__defaults__ or ()):
        value.defaults.append(
            _default(tx, obj, source and SequenceItem(AttrSource(source, "__defaults__"), index))
        )
    for name, obj in (real.__kwdefaults__ or {}).items():
        value.kwdefaults[name] = _default(
            tx, obj, source and AttrSource(source, "__kwdefaults__"), name
        )
    return value


def _default(tx: TraceContext, obj: Any, source: Source | None, name: str | None = None) -> Value:
    return Lazy(obj, source if name is None or source is None else DictItem(source, name))


def existing_cell(tx: TraceContext, real: types.CellType, source: Source | None) -> CellValue:
    """The value of a cell that existed before the frame; one value a cell, whoever closes over it."""
    known = tx.objects.find(real)
    if known is not None:
        met_again(tx, known, source)
        return known
    try:
        contents: Value | None = Lazy(real.cell_contents, source and CellContents(source))
    except ValueError:
        contents = None
    return tx.objects.remember(real, CellValue(contents, source, real))


def met_again(tx: TraceContext, known: Value, source: Source | None) -> None:
    """Relies on a second path leading to the same object as the first."""
    if source is not None and known.source is not None and known.source != source:
        tx.guards.add(source, Kind.SAME, known.source)


class MethodValue(Value):
    """A function (or any callable) bound to its first argument."""

    __slots__ = ("receiver", "function")

    def __init__(self, receiver: Value, function: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.receiver, self.function = receiver, function

    def python_type(self) -> type:
        return types.MethodType

    def describe(self) -> str:
        return f"method {self.function.describe()}"

    def key(self, tx: TraceContext) -> Any:
        return (self.receiver.key(tx), self.function.key(tx))

    def truth(self, tx: TraceContext) -> bool:
        return True

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__self__":
            return self.receiver
        if name == "__func__":
            return self.function
        if name == "__get__" and hasattr(types.MethodType, "__get__"):
            return tx.make.bound_method(self, name)
        return self.function.attribute(tx, name)

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        if name == "__get__" and hasattr(
            types.MethodType, "__get__"
        ):  # what is bound stays so; before 3.13 the function was asked
            return self
        return super().method(tx, name, args, kwargs)

    def tail(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Call:
        return Call(self.function, [self.receiver, *args], kwargs)

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call(tx, [self.receiver, *args], kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        if not isinstance(self.function, BuiltinValue):
            emit.call(types.MethodType, [self.function, self.receiver])
            return
        real = self.function.real  # bound by itself: a class below may have another of that name
        if isinstance(real, types.ClassMethodDescriptorType):
            emit.call(real.__get__, [emit.const(None), self.receiver])
        else:  # without the type 3.11 may crash
            emit.call(real.__get__, [self.receiver, emit.const(self.receiver.python_type())])


WRAPPING = (property, classmethod, staticmethod)
OF_WHAT_IS_WRAPPED = (
    "__name__",
    "__isabstractmethod__",
)  # attributes that these ask their function for
EQUAL_BY_PARTS = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.CodeType,
)  # two made of the same parts are equal


class BuiltinValue(Value):
    """A callable made in C (or by torch): a model, an op of the graph, a pure function of literals,
    or a break."""

    __slots__ = ("real",)
    is_code_constant = True

    def __init__(self, real: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.real = real

    def python_type(self) -> type:
        return type(self.real)

    def describe(self) -> str:
        if isinstance(self.real, WRAPPING):
            return super().describe()
        module = getattr(self.real, "__module__", None)
        name = (
            getattr(self.real, "__qualname__", None)
            or getattr(self.real, "__name__", None)
            or repr(self.real)
        )
        full = f"{module}.{name}" if module and module != "builtins" else str(name)
        return ".".join(
            part for part in full.split(".") if not part.startswith("pybind11_detail_")
        )  # classes that nobody has written

    def key(self, tx: TraceContext) -> Any:
        return self.real if isinstance(self.real, EQUAL_BY_PARTS) else Identity(self.real)

    def truth(self, tx: TraceContext) -> bool:
        return True

    def same(self, other: Value) -> bool:
        return isinstance(other, BuiltinValue) and self.real is other.real

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if isinstance(self.real, WRAPPING) and name in OF_WHAT_IS_WRAPPED:
            raise GraphBreak(
                "unsupported-value", f"attribute {name} of a {type(self.real).__name__}"
            )
        if not hasattr(self.real, name):
            raise tx.exceptions.new(
                AttributeError, f"{type(self.real).__name__!r} object has no attribute {name!r}"
            )
        return tx.wrap(getattr(self.real, name), self.source and AttrSource(self.source, name))

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        raise GraphBreak("unknown-call", f"{self.describe()}.{name}")

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        model = model_of(self.real)
        if model is not None:
            if accepts(model, len(args) + 1, kwargs):
                return model(tx, *args, **kwargs)
            raise GraphBreak("unknown-call", f"{self.describe()} with these arguments")
        if goes_into_graph(self.real):
            return tx.graph.call("call_function", self.real, args, kwargs)
        receiver = getattr(self.real, "__self__", None)
        if (
            isinstance(receiver, types.GetSetDescriptorType)
            and self.real.__name__ == "__get__"
            and args
        ):
            return tx.look(args[0]).attribute(tx, receiver.__name__)
        if isinstance(self.real, types.MethodDescriptorType | types.WrapperDescriptorType) and args:
            if isinstance(args[0], Value) and issubclass(
                args[0].python_type(), self.real.__objclass__
            ):
                return tx.calls.builtin_method(args[0], self.real, args[1:], kwargs)
        if is_pure(self.real):
            return fold(tx, self.real, args, kwargs)
        if (
            receiver is not None
            and not isinstance(receiver, types.ModuleType | type)
            and hasattr(receiver, self.real.__name__)
        ):
            return tx.wrap(receiver, self.source and AttrSource(self.source, "__self__")).method(
                tx, self.real.__name__, args, kwargs
            )
        raise GraphBreak("unknown-call", self.describe())

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_literal(self.real)


class PartialValue(Mutable):
    """functools.partial."""

    __slots__ = ("function", "args", "kwargs", "attributes")

    def __init__(
        self,
        function: Value,
        args: list[Value],
        kwargs: dict[str, Value],
        source: Source | None = None,
    ) -> None:
        super().__init__(source)
        self.function, self.args, self.kwargs = function, args, kwargs
        self.attributes: dict[str, Value] = {}  # of one made inside

    def python_type(self) -> type:
        return functools.partial

    def snapshot(self) -> Any:
        return dict(self.attributes)

    def restore(self, state: Any) -> None:
        self.attributes = state

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if self.source is not None:
            super().set_attribute(tx, name, value)
        tx.effects.change(self)
        self.attributes[name] = value

    def truth(self, tx: TraceContext) -> bool:
        return True

    def key(self, tx: TraceContext) -> Any:
        return Identity(self)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "func":
            return self.function
        if name == "args":
            return tx.make.tuple_of(self.args)
        if name == "keywords":
            return tx.make.dict_of([(Constant(k), v) for k, v in self.kwargs.items()])
        if name in self.attributes:
            return self.attributes[name]
        return super().attribute(tx, name)

    def tail(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Call:
        named = {**{k: tx.look(v) for k, v in self.kwargs.items()}, **kwargs}
        return Call(self.function, [tx.look(a) for a in self.args] + args, named)

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        function, args, kwargs, _ = self.tail(tx, args, kwargs)
        return function.call(tx, args, kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        arguments = [self.function, *self.args, *self.kwargs.values()]
        emit.call(functools.partial, arguments, tuple(self.kwargs))
        emit.give_attributes(self, self.attributes)
