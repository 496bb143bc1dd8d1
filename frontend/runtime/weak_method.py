"""A bound method that does not keep its object alive: sites belong to a cache, and call it."""

from __future__ import annotations

import weakref
from typing import Any


def weak_method(owner: Any, name: str) -> Any:
    """The owner's method of this name; it returns None once the owner is gone."""
    reference = weakref.WeakMethod(getattr(owner, name))

    def call(*args: Any) -> Any:
        method = reference()
        return None if method is None else method(*args)

    return call
