"""pickle.dumps() of options, which caches of methods use as keys."""

from __future__ import annotations

import pickle

from ....errors import GraphBreak
from ..base import Value
from ..constant import fold
from ..containers.mapping import DictValue
from ..context import TraceContext
from ..registry import models

# These are written alike wherever they are stored. A text that comes twice may be one object.
NUMBERS = frozenset({bool, int, float, type(None)})


@models(pickle.dumps)
def pickle_dumps(tx: TraceContext, obj: Value) -> Value:
    if type(obj) is not DictValue or obj.python_type() is not dict:
        raise GraphBreak("unknown-call", f"pickle.dumps() of {obj.describe()}")
    pairs = obj.literal(tx)
    if not all(type(key) is str and type(value) in NUMBERS for key, value in pairs.items()):
        raise GraphBreak("unknown-call", "pickle.dumps() of other options than numbers")
    return fold(tx, pickle.dumps, [obj], {})
