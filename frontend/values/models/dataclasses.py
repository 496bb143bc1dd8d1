"""dataclasses: queries about the class. Instances are made by the __init__ that dataclass has
written."""

from __future__ import annotations

import dataclasses
from typing import Any

from ....errors import GraphBreak
from ....guards.source import AttrSource
from ..base import Value
from ..constant import Constant
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..objects.class_value import ClassValue
from ..objects.frozen_object import FrozenObject
from ..objects.user_object import UserObject
from ..registry import models


def _class_of(obj: Value) -> type:
    return obj.cls if isinstance(obj, ClassValue) else obj.python_type()


@models(dataclasses.fields)
def fields(tx: TraceContext, obj: Value) -> Value:
    return TupleValue([FrozenObject(field) for field in fields_of(_class_of(obj))])


def fields_of(cls: type) -> tuple[Any, ...]:
    """The fields; GraphBreak for a class that is no dataclass."""
    if not isinstance(
        cls.__dict__.get("__dataclass_fields__") or getattr(cls, "__dataclass_fields__", None), dict
    ):
        raise GraphBreak(
            "exception-leaves", "TypeError: must be called with a dataclass type or instance"
        )
    return dataclasses.fields(cls)


@models(dataclasses.is_dataclass)
def is_dataclass(tx: TraceContext, obj: Value) -> Value:
    return Constant(dataclasses.is_dataclass(_class_of(obj)))


@models(dataclasses.replace)
def replace(tx: TraceContext, obj: Value, **changes: Value) -> Value:
    initial = {field.name for field in fields_of(obj.python_type()) if field.init}
    cls: Any = obj.python_type()
    plain = len(cls.__dataclass_fields__) == len(fields_of(cls))  # no InitVar
    if not isinstance(obj, UserObject) or not plain or not initial.issuperset(changes):
        raise GraphBreak("unknown-call", "dataclasses.replace() with these fields")
    given = {
        name: changes.get(name) or obj.attribute(tx, name)
        for name in cls.__dataclass_fields__
        if name in initial
    }
    return ClassValue(obj.cls, obj.source and AttrSource(obj.source, "__class__")).call(
        tx, [], given
    )
