"""copy.copy of literals and builtin containers. Other copies are left to Python: a class has many
ways to say how it is copied."""

from __future__ import annotations

import collections
import copy

from ....errors import GraphBreak
from ..base import Value
from ..containers.list import ListValue
from ..containers.mapping import DictValue
from ..containers.set import SetValue
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..functions.function import FunctionValue
from ..registry import models


@models(copy.copy)
def shallow(tx: TraceContext, obj: Value) -> Value:
    cls = obj.python_type()
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue) or cls is tuple:
        return obj
    has_attributes = cls is collections.OrderedDict
    if isinstance(obj, ListValue | DictValue | SetValue) and not has_attributes:
        return obj.method(tx, "copy", [], {})
    raise GraphBreak("unknown-call", f"copy.copy() of {obj.describe()}")


@models(copy.deepcopy)
def deep(tx: TraceContext, obj: Value, memo: Value | None = None) -> Value:
    raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
