"""sys: the exception that is being handled."""

from __future__ import annotations

import sys

from ....guards.source import AttrSource
from ..base import LazyValue, Value
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..objects.current_exception import Traceback
from ..registry import models


@models(sys.exception)
def exception(tx: TraceContext) -> Value:
    if tx.exceptions.handled is None:
        return tx.exceptions.handled_outside()
    return tx.look(tx.exceptions.handled)


@models(sys.exc_info)
def exc_info(tx: TraceContext) -> Value:
    error = exception(tx)
    if error.is_constant():
        return TupleValue([error] * 3)
    traceback: Value = Traceback(tx.frames.break_position())
    if error.source is not None:
        traceback = LazyValue(error.real.__traceback__, AttrSource(error.source, "__traceback__"))
    return TupleValue([tx.wrap(error.python_type(), None), error, traceback])
