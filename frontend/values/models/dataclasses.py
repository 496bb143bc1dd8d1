"""dataclasses: questions about the class; instances are made by the __init__ that dataclass wrote."""
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ....guards.source import AttrSource
from ..base import Value
from ..constant import Constant
from ..facts import Facts
from ..klass import ClassValue
from ..registry import models
from ..sequence import TupleValue
from ..user_object import UserObject

if TYPE_CHECKING:
    from ..context import TraceContext


def _class_of(obj: Value) -> type:
    return obj.cls if isinstance(obj, ClassValue) else obj.python_type()


@models(dataclasses.fields)
def fields(tx: TraceContext, obj: Value) -> Value:
    return TupleValue([Facts(field) for field in dataclasses.fields(_class_of(obj))])


@models(dataclasses.is_dataclass)
def is_dataclass(tx: TraceContext, obj: Value) -> Value:
    return Constant(dataclasses.is_dataclass(_class_of(obj)))


@models(dataclasses.replace)
def replace(tx: TraceContext, obj: Value, **changes: Value) -> Value:
    assert isinstance(obj, UserObject)
    given = {
        field.name: changes.get(field.name) or obj.attribute(tx, field.name) for field in dataclasses.fields(obj.cls) if field.init
    }
    return ClassValue(obj.cls, obj.source and AttrSource(obj.source, "__class__")).call(tx, [], given)
