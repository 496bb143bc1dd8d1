"""Which operand's method answers a binary operator, and in which order they are tried: as in
Python."""

from __future__ import annotations

import operator

import framejit
import pytest
import torch

NAMES = "add sub mul truediv floordiv mod pow matmul lshift rshift and xor or".split()


def declines(self, other):
    return NotImplemented


def answers(what):
    return lambda self, other: f"{type(self).__name__}.{what}"


def made(name, bases=(), **methods):
    return type(name, bases, {f"__{method}__": function for method, function in methods.items()})


def pairs(op):
    """Operands by what their classes define."""
    base = made("Base", **{op: declines, f"r{op}": answers("reflected")})
    first = made("First", **{op: answers("own"), f"r{op}": answers("reflected")})
    yield base(), base()
    yield base(), made("Inherits", (base,))()
    yield base(), made("Overrides", (base,), **{f"r{op}": answers("other")})()
    yield first(), made("Inherits", (first,))()
    yield first(), made("Overrides", (first,), **{f"r{op}": answers("other")})()
    yield base(), made("Other", **{f"r{op}": answers("other")})()
    yield base(), made("Declines", **{f"r{op}": declines})()
    yield made("InPlace", (base,), **{f"i{op}": declines})(), base()
    yield 3, base()
    yield base(), 3


def outcome(function, *args):
    try:
        return function(*args)
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("op", NAMES)
def test_order_of_attempts(op, in_place):
    name = f"i{op}" if in_place else {"and": "and_", "or": "or_"}.get(op, op)
    sign = getattr(operator, name)
    signs = dict(zip(NAMES, "+ - * / // % ** @ << >> & ^ |".split(), strict=True))
    namespace = {}
    statement = (
        f"left {signs[op]}= right\n    return left, x + 1"
        if in_place
        else f"return left {signs[op]} right, x + 1"
    )
    exec(f"def f(left, right, x):\n    {statement}", namespace)
    for left, right in pairs(op):
        expected = outcome(sign, left, right)
        found = outcome(
            framejit.compile(namespace["f"], backend="eager"), left, right, torch.ones(2)
        )
        assert (found[0] if isinstance(found, tuple) else found) == expected
