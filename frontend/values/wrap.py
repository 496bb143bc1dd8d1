"""Objects to values. Each family of values has its rule in its own file, under `@wraps(type)` or
`@wraps_subclasses(type)`; here is the choice among them."""

from __future__ import annotations

import collections.abc
from typing import Any

from ...guards.source import Source

# The families that register rules, methods or both.
from . import varying_text  # noqa: F401
from .base import Value
from .constant import wrap_literal
from .containers import (  # noqa: F401
    deque,
    dict_view,
    instance_dict,
    mapping,
    mapping_methods,
    mapping_proxy,
    protocol_methods,
    range,
    set,
)
from .containers.sequence import is_named_tuple, wrap_item_by_item
from .context import TraceContext
from .functions import (  # noqa: F401
    builtin_function,
    cached_function,
    cell,
    declared_opaque,
    function,
    method,
    partial,
    scripted,
)
from .functions.builtin_function import wrap_cython_function
from .functions.method import is_cython_function
from .iterators import existing_generator, existing_iterator  # noqa: F401
from .iterators.iterator import ListedIterator
from .modes import mode_manager  # noqa: F401
from .objects import (  # noqa: F401
    class_value,
    enum_member,
    exception,
    nn_module,
    python_module,
    super_value,
    weak_reference,
)
from .objects.frozen_object import wrap_frozen
from .objects.placement import is_placement
from .objects.user_object import wrap_object
from .registry import wrap_rule
from .tensor import (  # noqa: F401
    distributed_tensor,
    existing_tensor,
    hook_on_tensor,
    number_arithmetic,
    number_methods,
)


def wrap(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    """The value of an object, by the rule of its type, of a base class, or of its kind. The type
    decides, as an object's `__class__` can name another class."""
    cls = type(obj)
    rule = wrap_rule(cls)
    if rule is not None:
        return rule(tx, obj, source)
    if is_named_tuple(obj):
        return wrap_item_by_item(tx, obj, source)
    if issubclass(cls, tuple) and cls.__module__ == "sys":  # sys.flags and the like: read-only
        return wrap_frozen(tx, obj, source)
    folded = source is None and cls.__module__ == "builtins"
    if folded and isinstance(obj, collections.abc.Iterator):  # the result of a folded call
        return ListedIterator([tx.wrap(item, None) for item in obj], cls)
    if is_placement(cls):
        return wrap_literal(tx, obj, source)
    if is_cython_function(obj):
        return wrap_cython_function(tx, obj, source)
    return wrap_object(tx, obj, source)
