"""isinstance() and issubclass()."""

from __future__ import annotations

import abc
import types
from typing import Any

import torch
from torch._subclasses import fake_tensor

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant, call_now
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..functions.trace_rules import is_of_library
from ..objects.class_value import ClassValue
from ..objects.mro import lookup
from ..objects.object_attributes import PLAIN_CLASS
from ..objects.user_object import UserObject
from ..registry import models
from ..tensor.opaque_tensor import OpaqueTensor
from ..tensor.tensor import TensorValue


def _classes(tx: TraceContext, spec: Value) -> Any:
    """The second argument of isinstance, as a tuple or a class."""
    if isinstance(spec, TupleValue):
        return tuple(_classes(tx, item) for item in spec.all(tx))
    if isinstance(spec, ClassValue):
        return spec.cls
    if spec.is_constant():
        return spec.constant()
    raise spec.unsupported_use("isinstance")


@models(isinstance)
def builtin_isinstance(tx: TraceContext, obj: Value, spec: Value) -> Value:
    """isinstance(obj, spec): asked of the real object or the fake tensor where there is one,
    otherwise of the class. Breaks where Python code of a class decides."""
    classes = _classes(tx, spec)
    _refuse_hooks(classes, "__instancecheck__")
    try:
        isinstance(None, classes)
    except TypeError as error:
        if isinstance(spec, TupleValue):  # items after the first match are not realised
            return Constant(
                any(builtin_isinstance(tx, obj, item).truth(tx) for item in spec.all(tx))
            )
        raise tx.exceptions.new(TypeError, *error.args) from None
    if any(_is_protocol(cls) and cls not in obj.python_type().__mro__ for cls in _flat(classes)):
        raise GraphBreak(
            "unknown-call",
            f"isinstance() of {obj.describe()}, with a runtime_checkable protocol",
        )
    if (
        isinstance(obj, UserObject)
        and says_another_class(obj.cls)
        and not _is_subclass(obj.cls, classes)
    ):
        raise GraphBreak(
            "unknown-call", f"isinstance() of {obj.describe()}, whose class overrides __class__"
        )
    if isinstance(obj, TensorValue | OpaqueTensor | UserObject) and obj.real is not None:
        return Constant(isinstance(obj.real, classes))
    if isinstance(obj, TensorValue):
        return Constant(
            any(isinstance(obj.fake, cls) for cls in _flat(classes) if not _names_parameter(cls))
        )
    return Constant(_is_subclass(obj.python_type(), classes))


def asks_in_python(cls: Any, name: str) -> bool:
    """Whether isinstance or issubclass with a class calls a function of the program."""
    method = lookup(type(cls), name)[1] if isinstance(cls, type) else None
    return (
        type(method) is types.FunctionType and method.__module__.split(".")[0] not in ASK_AS_C_DOES
    )


ASK_AS_C_DOES = frozenset(
    {"abc", "_py_abc", "typing", "typing_extensions", "torch", "numpy", "enum"}
)


def _refuse_hooks(classes: Any, name: str) -> None:
    """Breaks where a class calls a function of the program to find its instances or subclasses: the
    call would happen now, and its answer be kept. An abstract class keeps the answers of its hook
    itself, so a library's hook may be asked now: frozendict gives MutableMapping one."""
    for cls in _flat(classes):
        if asks_in_python(cls, name):
            raise GraphBreak("unknown-call", f"{name}() of {cls.__qualname__}")
        if isinstance(cls, type) and isinstance(cls, abc.ABCMeta):
            hook = getattr(lookup(cls, "__subclasshook__")[1], "__func__", None)
            by_program = type(hook) is types.FunctionType and not is_of_library(hook)
            if by_program or lookup(cls, "__subclasses__")[0] is not None:
                raise GraphBreak(
                    "unknown-call",
                    f"__subclasshook__ or __subclasses__ of {cls.__qualname__}",
                )


def _is_protocol(cls: Any) -> bool:
    # typing's mark, and typing_extensions'
    return isinstance(cls, type) and vars(cls).get("_is_protocol", False)


def says_another_class(cls: type) -> bool:
    """Whether an object's `__class__` is computed by a function of the program."""
    return (
        type(lookup(cls, "__getattribute__")[1]) is types.FunctionType
        or lookup(cls, "__class__")[0] not in PLAIN_CLASS
    )


def _flat(classes: Any) -> list[Any]:
    if isinstance(classes, tuple):
        return [cls for part in classes for cls in _flat(part)]
    return [classes]


def _names_parameter(cls: Any) -> bool:
    """Whether a class is Parameter's or a fake tensor's, so that a fake tensor would give a wrong
    answer. Operators never make parameters."""
    return isinstance(cls, type) and issubclass(cls, torch.nn.Parameter | fake_tensor.FakeTensor)


def _is_subclass(cls: type, classes: Any) -> bool:
    try:
        return issubclass(cls, classes)
    except TypeError:  # X | Y holds None, and the like
        if not hasattr(classes, "__args__"):
            raise
        return any(cls is type(None) if c is None else issubclass(cls, c) for c in classes.__args__)


@models(issubclass)
def builtin_issubclass(tx: TraceContext, cls: Value, spec: Value) -> Value:
    if not isinstance(cls, ClassValue):
        raise tx.exceptions.new(TypeError, "issubclass() arg 1 must be a class")
    classes = _classes(tx, spec)
    _refuse_hooks(classes, "__subclasscheck__")
    return Constant(call_now(tx, issubclass, cls.cls, classes))
