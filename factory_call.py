"""FactoryCall: how a function that was made at run time is made again in another process, by a call
of its factory with the same arguments. Without one, a function cannot be stored on disk."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from .records import record

Made = TypeVar("Made", bound=Callable[..., Any])
ATTRIBUTE = "_framejit_factory_call"


@record
class FactoryCall:
    """`factory(*arguments)` makes the function again; the factory is a function of a module.
    made: the function, as functools.wraps copies attributes to others."""

    factory: Callable[..., Any]
    arguments: tuple[Any, ...]
    made: weakref.ref[Any]


def record_factory(made: Made, factory: Callable[..., Any], *arguments: Any) -> Made:
    """Records on a function how it can be made again. Returns it."""
    setattr(made, ATTRIBUTE, FactoryCall(factory, arguments, weakref.ref(made)))
    return made


def factory_call_of(function: Any) -> FactoryCall | None:
    """How a function can be made again; None where that was not recorded."""
    call: FactoryCall | None = getattr(function, ATTRIBUTE, None)
    return call if call is not None and call.made() is function else None
