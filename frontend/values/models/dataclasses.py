"""dataclasses: queries about the class. Instances are made by the __init__ that dataclass has
written."""

from __future__ import annotations

import dataclasses
from typing import Any

from ....errors import GraphBreak
from ..base import Value
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..objects.class_value import ClassValue
from ..objects.frozen_object import FrozenObject
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
