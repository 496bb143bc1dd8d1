"""Chooses the family of values for an object of NumPy's."""

from __future__ import annotations

from typing import Any

from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Value
from ..context import TraceContext
from .expected_result import is_array
from .new_array import wrap_array
from .numpy_function import NumpyFunction, is_function
from .numpy_number import is_numpy_number, wrap_number


def wrap_numpys(tx: TraceContext, obj: Any, source: Source | None) -> Value | None:
    """The value of an object of NumPy's; None if no family is known for it."""
    if is_array(obj):
        return wrap_array(tx, obj, source)
    if is_numpy_number(obj):
        return wrap_number(tx, obj, source)
    if is_function(obj):
        tx.guards.add(source, Kind.IS, obj)
        return NumpyFunction(obj, source)
    return None
