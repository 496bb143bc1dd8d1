"""os.path: what makes paths of texts. A path of texts that vary is made at the call."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..base import Value
from ..context import TraceContext
from ..deferred_literal import DeferredLiteral, is_dynamic
from ..functions.function import FunctionValue
from ..registry import models


def _defers(function: Callable[..., str]) -> None:
    @models(function)
    def path_of_texts(tx: TraceContext, *parts: Value) -> Value:
        given = [tx.look(part) for part in parts]
        texts = all(part.python_type() is str for part in given)
        if given and texts and any(map(is_dynamic, given)):
            return DeferredLiteral(function, tuple(given), str)
        inner = tx.wrap(function, None)
        assert isinstance(inner, FunctionValue)
        return tx.calls.inline(inner, given, {})


_defers(os.path.join)
for _function in (os.path.basename, os.path.dirname, os.path.normpath):
    _defers(_function)
