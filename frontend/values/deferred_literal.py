"""Literals computed from numbers and texts that vary: formatted text, a rounded number.

Such a literal seldom decides which operations run, so a new number is no reason to compile again:
generated code computes the literal in each call. Where tracing needs its value (as a dictionary
key that is looked up, in a comparison), the numbers and texts are specialised.
"""

from __future__ import annotations

import operator
import re
import string
from collections.abc import Callable
from typing import Any

from .base import Value
from .constant import Constant, VaryingLiteral, fold
from .context import TraceContext
from .emitter import Emitter
from .tensor.number_arithmetic import calculate_at_the_call


class DeferredLiteral(VaryingLiteral):
    """`function(*operands)`, of type `cls`. The function is pure and does not raise for any
    operands of these types."""

    __slots__ = ("function", "operands", "cls")

    def __init__(
        self, function: Callable[..., Any], operands: tuple[Value, ...], cls: type
    ) -> None:
        super().__init__()
        self.function, self.operands, self.cls = function, operands, cls

    def constant(self) -> Any:
        return self.function(*(operand.constant() for operand in self.operands))

    def is_same(self, other: Value) -> bool:
        return self is other

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(self.function, self.operands)


SAMPLES: dict[type, Any] = {bool: True, int: 1, float: 1.5, str: ""}
CONVERSIONS = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?([dioxXeEfFgGrs])|%%")


def format_number(tx: TraceContext, number: Value, spec: str) -> Value:
    """format(number, spec), deferred where the number, or text, varies. `c` (a code point) is
    refused for some ints, so those are specialised."""
    if is_dynamic(number) and number.python_type() is str and not spec:
        return number  # as Python does
    if (
        is_dynamic(number)
        and number.python_type() in SAMPLES
        and not spec.endswith("c")
        and accepts_spec(number.python_type(), spec)
    ):
        return DeferredLiteral(format, (number, Constant(spec)), str)
    return fold(tx, format, [number, Constant(spec)], {})


def accepts_spec(cls: type, spec: str) -> bool:
    try:
        format(SAMPLES[cls], spec)
    except ValueError:
        return False
    return True


def text_of(tx: TraceContext, function: Callable[[Any], str], number: Value) -> Value:
    """str() or repr() of a number or text. str() of a text is the text itself."""
    if is_dynamic(number):
        if function is str and number.python_type() is str:
            return number
        return DeferredLiteral(function, (number,), str)
    return fold(tx, function, [number], {})


def join_parts(parts: list[Value]) -> Value:
    """The parts of an f-string as one text."""
    if any(map(is_dynamic, parts)):
        return DeferredLiteral(concatenate, tuple(parts), str)
    return Constant("".join(part.constant() for part in parts))


def concatenate(*parts: str) -> str:
    return "".join(parts)


def format_template(template: str, items: list[Value]) -> Value | None:
    """`template % items`, deferred where a number varies; None where it is to be computed now."""
    if not any(map(is_dynamic, items)) or not all(item.is_constant() for item in items):
        return None
    found = [one.group(1) for one in CONVERSIONS.finditer(template)]
    if CONVERSIONS.sub("", template).count("%"):
        return None
    for conversion, item in zip(filter(None, found), items, strict=False):
        if conversion in "dioxX" and is_dynamic(item) and item.python_type() is float:
            return None  # which is refused where it is not finite
    try:
        template % tuple(
            SAMPLES.get(item.python_type()) if item.varies() else item.constant() for item in items
        )
    except (TypeError, ValueError, OverflowError):
        return None
    return DeferredLiteral(fill_template, (Constant(template), *items), str)


def fill_template(template: str, *items: Any) -> str:
    return template % items


def fill_fields(template: str, items: list[Value]) -> Value | None:
    """`template.format(*items)`, deferred where a number or text varies; None where it is to be
    computed now."""
    if not any(map(is_dynamic, items)) or not all(item.is_constant() for item in items):
        return None
    types = [item.python_type() for item in items]
    try:
        fields = [*string.Formatter().parse(template)]
        if not all(cls in SAMPLES for cls in types) or not all(map(is_simple_field, fields)):
            return None
        template.format(*(SAMPLES[cls] for cls in types))
    except (IndexError, KeyError, ValueError):
        return None
    return DeferredLiteral(str.format, (Constant(template), *items), str)


def is_simple_field(field: tuple[str, str | None, str | None, str | None]) -> bool:
    """Whether a replacement field names an item, not a part of one, and can be filled with all
    items of a type if with one."""
    _, name, spec, _ = field
    simple = not name or name.isdigit()
    return simple and not (spec and ("{" in spec or spec.endswith("c")))


def join_with(separator: str, *parts: str) -> str:
    return separator.join(parts)


def round_number(tx: TraceContext, *args: Value) -> Value:
    """round(number) or round(number, digits), deferred for a float that varies. With digits after
    the point the result is never too large for a float."""
    found = calculate_at_the_call(tx, round, *args)
    if found is not None:
        return found
    number, *digits = args
    fixed = [
        isinstance(one, Constant) and type(one.object) is int and one.object >= 0 for one in digits
    ]
    if is_dynamic(number) and number.python_type() is float and fixed == [True]:
        return DeferredLiteral(round, args, float)
    return fold(tx, round, [*args], {})


def truncate(tx: TraceContext, number: Value) -> Value | None:
    """int(number) of a float that varies, deferred; None for other numbers. Only for an argument of
    the program, which guards keep finite: a calculated float may be too large for an int."""
    if not is_dynamic(number) or number.python_type() is not float:
        return None
    found = calculate_at_the_call(tx, int, number)
    if found is None and number.source is not None:
        return DeferredLiteral(int, (number,), int)
    return found


def concatenate_texts(left: Value, right: Value) -> Value | None:
    """left + right of two texts, at least one of them deferred; None for others."""
    if left.python_type() is right.python_type() is str and (is_dynamic(left) or is_dynamic(right)):
        return DeferredLiteral(operator.add, (left, right), str)
    return None


def is_dynamic(value: Value) -> bool:
    return isinstance(value, VaryingLiteral)
