"""Callables made in C or by torch."""

from __future__ import annotations

import types
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Args, Kwargs, Value
from ..constant import Constant, fold
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import IdentityKey
from ..models.torch_policy import goes_into_graph, is_pure, refuse_disallowed
from ..objects.mro import lookup
from ..operation import Operation
from ..registry import call_model, model_of, wraps
from ..tensor.number_arithmetic import calculate
from ..tensor.number_functions import OPAQUE
from ..tensor.symbolic_number import SymbolicNumber
from ..torch_directives import substitute_for
from .method import MethodValue

WRAPPING = (property, classmethod, staticmethod)
OF_WHAT_IS_WRAPPED = ("__name__", "__isabstractmethod__")  # attributes read from their function
# Two objects of these types that are made of the same parts are equal.
EQUAL_BY_PARTS = (types.BuiltinFunctionType, types.MethodWrapperType, types.CodeType)


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
        # classes without source code
        return ".".join(part for part in full.split(".") if not part.startswith("pybind11_detail_"))

    def key(self, tx: TraceContext) -> Any:
        return self.real if isinstance(self.real, EQUAL_BY_PARTS) else IdentityKey(self.real)

    def is_same(self, other: Value) -> bool:
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

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        raise GraphBreak("unknown-call", f"{self.describe()}.{name}")

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        """The first of these that applies: a model, a node of the graph, a method of a C class, a
        pure function that is computed now, a method of the object that it is bound to, the same
        function in Python."""
        refuse_disallowed(self.real)
        model = model_of(self.real)
        if model is not None:
            return call_model(tx, self, model, args, kwargs)
        if goes_into_graph(self.real):
            return tx.graph.function(self.real, *args, **kwargs)
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
            found = calculate(tx, self.real, *args) if self.is_of_a_symbol(args, kwargs) else None
            if found is not None:
                return found
            return fold(tx, self.real, args, kwargs)
        if (
            receiver is not None
            and not isinstance(receiver, types.ModuleType | type)
            and hasattr(receiver, self.real.__name__)
        ):
            return tx.wrap(receiver, self.source and AttrSource(self.source, "__self__")).method(
                tx, self.real.__name__, args, kwargs
            )
        substitute = substitute_for(self.real)
        if substitute is not None:
            return tx.wrap(substitute, None).call(tx, args, kwargs)
        raise GraphBreak("unknown-call", self.describe())

    def is_of_a_symbol(self, args: Args, kwargs: Kwargs) -> bool:
        """Whether this is a call of a function of numbers, one of which varies."""
        known = isinstance(self.real, types.BuiltinFunctionType) and self.real in OPAQUE
        return known and not kwargs and any(isinstance(arg, SymbolicNumber) for arg in args)

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_literal(self.real)

    def reconstruct_bound(self, emit: Emitter, receiver: Value) -> None:
        """Binds the function itself, since a subclass may have another one of that name."""
        if isinstance(self.real, types.ClassMethodDescriptorType):
            emit.call(self.real.__get__, [emit.const(None), receiver])
        else:  # without the type 3.11 may crash
            emit.call(self.real.__get__, [receiver, emit.const(receiver.python_type())])

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if not op.is_equality or not isinstance(other, BuiltinValue):
            return None
        return Constant(op.answer(self.key(tx) == other.key(tx)))


@wraps(
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.CodeType, property,
    torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.TorchBindOpOverload,
)  # fmt: skip
def wrap_builtin(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    """A function written in C. A method bound to an object is a method of that object's value."""
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
        if isinstance(obj, types.MethodWrapperType):  # made anew at each read
            tx.guards.add(source, Kind.TYPE, type(obj))
            tx.guards.add(AttrSource(source, "__self__"), Kind.IS, receiver)
            tx.guards.add(AttrSource(source, "__name__"), Kind.EQUALS, obj.__name__)
        else:
            tx.guards.add(source, Kind.IS, obj)
    return BuiltinValue(obj, source)


def wrap_cython_function(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is not None:
        tx.guards.add(source, Kind.IS, obj)
    return BuiltinValue(obj, source)


def modelled_class_method(cls: type, bound: Any) -> Any:
    """The class method written in C that `bound` is bound from, if there is a model of it; else
    None."""
    _, raw = lookup(cls, bound.__name__)
    known = isinstance(raw, types.ClassMethodDescriptorType) and model_of(raw) is not None
    return raw if known and raw.__get__(None, cls) == bound else None
