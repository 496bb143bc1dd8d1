"""Literals (numbers, strings, None, dtypes, devices and the like), and folding of pure calls on
them."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from ...errors import GraphBreak
from ...guards.guard import Kind
from ...guards.guard_log import GuardLog
from ...guards.source import Source, safe_repr
from .base import Args, Kwargs, ObservedException, Value
from .context import TraceContext
from .emitter import Emitter
from .named_method import NamedMethod
from .registry import accepts, method_of, wraps

LITERAL_TYPES = (
    int, float, complex, str, bytes, bool, type(None), type(Ellipsis), type(NotImplemented),
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo,
)  # fmt: skip
IMMUTABLE_CONTAINERS = (tuple, frozenset, torch.Size)


def is_literal(obj: Any) -> bool:
    """Whether an object is a literal, or an immutable container of such."""
    return type(obj) in LITERAL_TYPES or (
        type(obj) in IMMUTABLE_CONTAINERS and all(map(is_literal, obj))
    )


def number_of_scalar(scalar: Any) -> Any:
    """The Python number for which torch takes a numpy scalar."""
    number = scalar.item()
    if type(number) not in (int, float):
        # a number to some, a truth value to others; the real part of a complex number
        raise GraphBreak(
            "unsupported-value", f"a numpy.{type(scalar).__name__} as an operand of a tensor"
        )
    return number


class Constant(Value):
    """A literal. Its methods and attributes are evaluated at once."""

    __slots__ = ("object",)
    is_code_constant = True

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.object = obj

    def python_type(self) -> type:
        return type(self.object)

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.object

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        is_scalar = type(self.object).__module__ == "numpy"
        literal = number_of_scalar(self.object) if is_scalar else self.object
        return literal, literal

    def describe(self) -> str:
        return safe_repr(self.object)

    def key(self, tx: TraceContext) -> Any:
        return self.object

    def truth(self, tx: TraceContext) -> bool:
        return bool(self.object)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        value = call_now(tx, getattr, self.object, name)
        if callable(value) and not isinstance(value, type):
            return ConstantMethod(self, name)
        return tx.wrap(value, None)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        handler = method_of(type(self.object), name)
        if handler is not None and accepts(handler, len(args) + 2, kwargs):
            return handler(tx, self, *args, **kwargs)
        return fold(tx, getattr(self.object, name), args, kwargs)

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        if callable(self.object):
            return super().call(tx, args, kwargs)
        raise tx.exceptions.new(TypeError, f"'{type(self.object).__name__}' object is not callable")

    def iterator(self, tx: TraceContext) -> Value:
        if isinstance(self.object, str | bytes):
            return tx.wrap(list(self.object), None).iterator(tx)
        return super().iterator(tx)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return fold(tx, reversed, [self], {})

    def length(self, tx: TraceContext) -> Value:
        return fold(tx, len, [self], {})

    def item(self, tx: TraceContext, key: Value) -> Value:
        return fold(tx, lambda obj, index: obj[index], [self, key], {})

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return fold(tx, lambda obj, other: other in obj, [self, item], {})

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_literal(self.object)


class VaryingLiteral(Value):
    """A literal whose type is known now, and itself at run time. Where tracing needs it after all,
    `constant()` specialises: compiled code is then for that literal only."""

    __slots__ = ()

    def is_constant(self) -> bool:
        return True

    def varies(self) -> bool:
        return True

    def as_constant(self) -> Constant:
        """The literal in this call; specialises."""
        return Constant(self.constant())

    def key(self, tx: TraceContext) -> Any:
        return self.constant()

    def iterator(self, tx: TraceContext) -> Value:
        return self.as_constant().iterator(tx)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return self.as_constant().reverse_iterator(tx)

    def length(self, tx: TraceContext) -> Value:
        return self.as_constant().length(tx)

    def item(self, tx: TraceContext, key: Value) -> Value:
        return self.as_constant().item(tx, key)

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return self.as_constant().contains(tx, item)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if method_of(self.python_type(), name) is not None:
            return ConstantMethod(self, name)
        return self.as_constant().attribute(tx, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        handler = method_of(self.python_type(), name)
        if handler is not None and accepts(handler, len(args) + 2, kwargs):
            return handler(tx, self, *args, **kwargs)
        return self.as_constant().method(tx, name, args, kwargs)


class GivenLiteral(VaryingLiteral):
    """A varying literal from before the frame. `now` is the one of this call."""

    __slots__ = ("now", "guards")

    def __init__(self, now: Any, source: Source, guards: GuardLog) -> None:
        super().__init__(source)
        self.now, self.guards = now, guards

    def python_type(self) -> type:
        return type(self.now)

    def constant(self) -> Any:
        self.guards.add(self.source, Kind.EQUALS, self.now)
        return self.now

    def is_same(self, other: Value) -> bool:
        one = isinstance(other, GivenLiteral) and other.source == self.source
        return one or super().is_same(other)


class ConstantMethod(NamedMethod):
    """A method of a literal."""

    __slots__ = ()

    def python_type(self) -> type:
        if isinstance(self.receiver, Constant):
            return type(getattr(self.receiver.object, self.name))
        return types.BuiltinMethodType


def can_fold(args: Args, kwargs: Kwargs) -> bool:
    return all(a.is_constant() for a in args) and all(a.is_constant() for a in kwargs.values())


def fold(tx: TraceContext, function: Any, args: Args, kwargs: Kwargs) -> Value:
    """Runs a pure function on literals now. An exception that it raises is raised in the traced
    program."""
    try:
        literals = [a.literal(tx) for a in args]
        named = {k: v.literal(tx) for k, v in kwargs.items()}
    except GraphBreak as error:
        unknown = next((a for a in (*args, *kwargs.values()) if not a.is_constant()), None)
        if unknown is None:  # a number that is known at run time only
            raise
        name = getattr(function, "__name__", function)
        raise GraphBreak(
            "unsupported-value", f"{unknown.describe()} as an argument of {name}"
        ) from error
    return tx.wrap(call_now(tx, function, *literals, **named), None)


def call_now(tx: TraceContext, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call in Python. An exception that it raises is raised in the traced
    program."""
    try:
        return function(*args, **kwargs)
    except ObservedException:
        raise
    except Exception as error:
        raise tx.exceptions.new(type(error), *error.args) from None


@wraps(*(set(LITERAL_TYPES) - {int, float, str}))
def wrap_literal(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    tx.guards.add(source, Kind.EQUALS, obj)
    return Constant(obj, source)


def is_literal_or_tuple(obj: Any) -> bool:
    return type(obj) in LITERAL_TYPES or (
        type(obj) in (tuple, torch.Size) and all(map(is_literal_or_tuple, obj))
    )
