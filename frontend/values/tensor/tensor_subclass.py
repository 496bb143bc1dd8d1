"""Instances of Tensor subclasses written in Python: a plain tensor in the graph, and the class's
own __torch_function__, interpreted.

torch decides how an operation reaches __torch_function__ (by which function, with which arguments):
the operation is run once on stand-ins that record it.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
import torch.overrides

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import ClassAttribute, PlainTensor, Source, TypeOf
from ....guards.source.tensors import without_class
from ..base import Args, Kwargs, Value
from ..constant import Constant
from ..containers.list import ListValue
from ..containers.mapping import DictValue
from ..containers.sequence import Sequence, TupleValue
from ..containers.slice import SliceValue
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import IdentityKey
from ..named_method import NamedMethod
from ..objects.attribute_storage import instance_dict
from ..objects.class_value import ClassValue, raw_attribute
from ..objects.mro import lookup
from ..objects.user_object import UserObject
from ..operation import UnaryOperation
from .tensor import TensorValue

TORCHS = (torch.Tensor, torch._C.TensorBase, torch.nn.Parameter, object)
DISABLED = torch._C._disabled_torch_function_impl


def is_captured(cls: type) -> bool:
    """Whether instances of a class are captured: a plain tensor with Python methods, nothing below
    torch's dispatcher."""
    ours = all(
        base in TORCHS or base.__module__.partition(".")[0] != "torch" for base in cls.__mro__
    )
    owner, function = lookup(cls, "__torch_function__")
    known = owner in (torch.Tensor, torch.nn.Parameter) or isinstance(function, classmethod)
    return (
        ours
        and known
        and lookup(cls, "__torch_dispatch__")[0] in TORCHS
        and lookup(cls, "__getattribute__")[0] in TORCHS
    )


def wrap_as_instance(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    """Returns a tensor as an instance of a class."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(cls)


class SubclassInstanceFound(Exception):  # noqa: N818 - it steers
    """Raised where an instance of a subclass is among the arguments of an operation."""


class TensorObject(UserObject):
    """An instance of a subclass. `plain` is the tensor."""

    __slots__ = ("plain",)
    has_plain_dictionary = False

    def __init__(
        self, cls: type, plain: TensorValue, real: Any = None, source: Source | None = None
    ) -> None:
        super().__init__(cls, real, source)
        self.plain = plain

    def key(self, tx: TraceContext) -> Any:
        return IdentityKey(self)

    def literal(self, tx: TraceContext) -> Any:
        raise self.unsupported_use("where a literal is needed")

    def truth(self, tx: TraceContext) -> bool:
        return self.plain.truth(tx)

    def generic_attribute(self, tx: TraceContext, name: str) -> Value:
        owner, raw = lookup(self.cls, name)
        if owner not in TORCHS or owner is object or self._hides_method(name, raw):
            return super().generic_attribute(tx, name)
        if callable(raw):
            return SubclassMethod(self, name)
        if tx.modes.subclasses_off:
            return self.plain.attribute(tx, name)
        return dispatch_operation(tx, lambda stand_in: getattr(stand_in, name), [self], {})

    def _hides_method(self, name: str, raw: Any) -> bool:
        """Whether an attribute of the instance has the name of a method of torch's."""
        own = name in self.attrs or name in (instance_dict(self.real) or {})
        return own and not hasattr(type(raw), "__set__")

    def special_method(self, tx: TraceContext, name: str) -> Value | None:
        owner = lookup(self.cls, name)[0]
        if owner in TORCHS and owner is not object:
            return SubclassMethod(self, name)
        return super().special_method(tx, name)

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if lookup(self.cls, name)[0] in TORCHS:
            raise GraphBreak("unsupported-mutation", f"of attribute '{name}' of {self.describe()}")
        super().set_attribute(tx, name, value)

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(wrap_as_instance, [self.plain, emit.const(self.cls)])
        emit.keep(self)
        self._emit_new_attributes(emit)

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value | None:
        if lookup(self.cls, op.name)[0] not in TORCHS:
            return super().apply_unary(tx, op)
        if not tx.modes.subclasses_off:
            return dispatch_operation(tx, op.function, [self], {})
        return call_unwrapped(tx, lambda tx, a: a.apply_unary(tx, op), [self], {})


class SubclassMethod(NamedMethod):
    """A method that such an object inherits from torch."""

    __slots__ = ()
    receiver: TensorObject
    cls = types.BuiltinMethodType

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        """Calls the method of torch by way of the class's __torch_function__; directly where that
        is switched off, or where the method is written in Python and does that itself."""
        if self.name == "as_subclass":  # the one that does not go through __torch_function__
            return self.receiver.plain.method(tx, self.name, args, kwargs)
        raw = lookup(self.receiver.cls, self.name)[1]
        given = [self.receiver, *args]
        if type(raw) is types.FunctionType:  # it asks itself, or only what it calls does
            return tx.wrap(raw, None).call(tx, given, kwargs)
        return call_method_in_c(tx, raw, self.name, given, kwargs)


def call_method_in_c(tx: TraceContext, raw: Any, name: str, args: Args, kwargs: Kwargs) -> Value:
    """Calls a method that torch has in C, given as its class holds it, on an instance, which is the
    first argument."""
    if tx.modes.subclasses_off:
        return call_unwrapped(
            tx,
            lambda tx, first, *rest, **named: first.method(tx, name, list(rest), named),
            args,
            kwargs,
        )
    return dispatch_operation(tx, raw, args, kwargs)


def wrap_subclass(tx: TraceContext, real: torch.Tensor, source: Source) -> Value:
    tx.guards.add(source, Kind.TYPE, type(real))
    for name in ("__torch_function__", "__torch_dispatch__", "__getattribute__"):
        tx.guards.add(ClassAttribute(TypeOf(source), name), Kind.IS, lookup(type(real), name)[1])
    inner = tx.graph.input(tx, without_class(real), PlainTensor(source))
    return tx.objects.remember(real, TensorObject(type(real), inner, real, source))


# finding them


def found_in(tx: TraceContext, values: Any) -> list[TensorObject]:
    """The instances among arguments, and in lists and tuples of them."""
    found: list[TensorObject] = []
    for value in values:
        value = tx.look(value)
        if isinstance(value, TensorObject):
            found.append(value)
        elif isinstance(value, Sequence) and not value.is_constant():
            found += found_in(tx, value.all(tx))
    return found


# what torch would do


class StandInCalled(BaseException):  # noqa: N818 - it steers, past handlers of Exception
    """The arguments with which __torch_function__ was called."""


class StandIn(torch.Tensor):
    """Records how torch calls __torch_function__."""

    @classmethod
    def __torch_function__(cls, *given: Any) -> Any:
        raise StandInCalled(*given)


class SubclassStandIns:
    """Converts arguments to stand-ins for torch, and back."""

    def __init__(self, tx: TraceContext) -> None:
        self.tx = tx
        self.values: dict[int, Value] = {}
        self.kept: list[Any] = []

    def of(self, value: Value) -> Any:
        value = self.tx.look(value)
        if isinstance(value, TensorObject):
            return self.keep(torch.empty(2).as_subclass(StandIn), value)
        if isinstance(value, TensorValue):
            return self.keep(torch.empty(2), value)
        if isinstance(value, ListValue | TupleValue) and value.cls in (list, tuple, torch.Size):
            return value.cls(map(self.of, value.items))
        if isinstance(value, SliceValue):
            return slice(*map(self.of, value.parts))
        if value.is_constant():
            return value.constant()
        raise value.unsupported_use("beside a tensor subclass")

    def keep(self, stand_in: Any, value: Value) -> Any:
        self.kept.append(stand_in)
        self.values[id(stand_in)] = value
        return stand_in

    def back(self, obj: Any) -> Value:
        if id(obj) in self.values:
            return self.values[id(obj)]
        if type(obj) is tuple:
            return TupleValue(list(map(self.back, obj)))
        if type(obj) is list:
            return ListValue(list(map(self.back, obj)))
        if type(obj) is dict:
            return self.tx.make.dict_of(
                [(Constant(name), self.back(value)) for name, value in obj.items()]
            )
        if type(obj) is slice:
            return SliceValue([self.back(part) for part in (obj.start, obj.stop, obj.step)])
        return self.tx.wrap(obj, None)


def dispatch_operation(
    tx: TraceContext, operation: Callable[..., Any], args: Args, kwargs: Kwargs
) -> Value:
    """Runs an operation of torch with instances among its arguments."""
    stand_ins = SubclassStandIns(tx)
    given = [stand_ins.of(arg) for arg in args]
    named = {name: stand_ins.of(arg) for name, arg in kwargs.items()}
    try:
        with torch._C._EnableTorchFunction():
            operation(*given, **named)
    except StandInCalled as noted:
        function, _, *rest = noted.args
    except Exception as error:
        raise GraphBreak(
            "subclass", f"an operation that torch refuses ({type(error).__name__})"
        ) from error
    else:
        raise GraphBreak("subclass", "an operation that does not call its __torch_function__")
    return call_torch_function(
        tx,
        tx.wrap(function, None),
        found_in(tx, args) + found_in(tx, kwargs.values()),
        [stand_ins.back(part) for part in rest],
    )


def call_unwrapped(
    tx: TraceContext, operation: Callable[..., Value], args: Args, kwargs: Kwargs
) -> Value:
    """Runs an operation on plain tensors. An instance that it changes in place is its result."""
    result = operation(
        tx,
        *(unwrap_instance(tx, arg) for arg in args),
        **{name: unwrap_instance(tx, arg) for name, arg in kwargs.items()},
    )
    same = [
        arg
        for arg in found_in(tx, args)
        if isinstance(result, TensorValue) and arg.plain.is_same(result)
    ]
    return same[0] if same else as_seen(result)


def as_seen(result: Value) -> Value:
    """The result of an operation as the program sees it."""
    if isinstance(result, TensorValue):
        return result.as_seen()
    if type(result) in (ListValue, TupleValue):
        assert isinstance(result, ListValue | TupleValue)
        return type(result)(list(map(as_seen, result.items)), None, result.cls)
    return result


def call_torch_function(
    tx: TraceContext, function: Value, instances: list[TensorObject], rest: list[Value]
) -> Value:
    """type(instance).__torch_function__(function, types, *rest), unless that is switched off."""
    classes = {instance.cls for instance in instances}
    if tx.modes.subclasses_off:
        return call_on_plain_tensors(tx, function, rest)
    if len(classes) > 1:
        raise GraphBreak("subclass", " and ".join(sorted(cls.__name__ for cls in classes)))
    (cls,) = classes
    owner, raw = lookup(cls, "__torch_function__")
    tx.guards.add(raw_attribute(tx, cls, "__torch_function__", None)[1], Kind.IS, raw)
    if owner in (torch.Tensor, torch.nn.Parameter):
        if raw is not DISABLED and owner is torch.Tensor:
            return by_default(tx, cls, function, rest)
        return call_on_plain_tensors(tx, function, rest)
    result = (
        ClassValue(cls)
        .attribute(tx, "__torch_function__")
        .call(tx, [function, TupleValue([ClassValue(cls)]), *rest], {})
    )
    if result.is_not_implemented():
        raise GraphBreak("subclass", f"{cls.__name__}, which does not implement an operation")
    return result


def by_default(tx: TraceContext, cls: type, function: Value, rest: list[Value]) -> Value:
    """torch.Tensor.__torch_function__: runs the operation on plain tensors; its results become
    instances of the class."""
    result = call_on_plain_tensors(tx, function, rest)
    real = getattr(function, "real", None)
    if real in torch.overrides.get_default_nowrap_functions():
        return result
    return convert_results(tx, result, cls)


def call_on_plain_tensors(tx: TraceContext, function: Value, rest: list[Value]) -> Value:
    """Runs the operation on plain tensors."""
    args = rest[0].unpack(tx)
    kwargs = rest[1] if len(rest) > 1 else Constant(None)
    named = (
        {key.constant(): unwrap_instance(tx, value) for key, value in kwargs.pairs(tx)}
        if isinstance(kwargs, DictValue)
        else {}
    )
    real = getattr(function, "real", None)
    if isinstance(real, types.MethodWrapperType):  # an attribute: Tensor.shape.__get__
        if real.__name__ != "__get__":
            raise GraphBreak("subclass", f"{real.__name__} of an attribute")
        descriptor: Any = real.__self__
        return as_seen(tx.look(unwrap_instance(tx, args[0])).attribute(tx, descriptor.__name__))
    tx.modes.subclasses_off += 1
    try:
        return call_unwrapped(
            tx, lambda tx, *args, **kwargs: function.call(tx, list(args), kwargs), args, named
        )
    finally:
        tx.modes.subclasses_off -= 1


def unwrap_instance(tx: TraceContext, value: Value) -> Value:
    value = tx.look(value)
    if isinstance(value, TensorObject):
        return value.plain
    if type(value) in (ListValue, TupleValue) and found_in(tx, [value]):
        assert isinstance(value, ListValue | TupleValue)
        return type(value)([unwrap_instance(tx, item) for item in value.items], None, value.cls)
    return value


def convert_results(tx: TraceContext, result: Value, cls: type) -> Value:
    if isinstance(result, TensorValue):
        if not is_captured(cls):
            raise GraphBreak("subclass", f"{cls.__name__}, made of a plain tensor")
        return TensorObject(cls, result)
    if type(result) in (ListValue, TupleValue):
        assert isinstance(result, ListValue | TupleValue)
        return type(result)(
            [convert_results(tx, item, cls) for item in result.unpack(tx)], None, result.cls
        )
    return result
