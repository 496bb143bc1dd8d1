"""Each operator of each pair of builtin families: the same results, errors and changes as in
eager."""

from __future__ import annotations

import collections
import types

import framejit
import pytest
import torch
from framejit.frontend.values.operation import UNARY


class Words(list):
    """A list that adds in its own way."""

    def __add__(self, other):
        return "added"


class Ranked:
    """Less than everything, equal to threes."""

    def __lt__(self, other):
        return True

    def __eq__(self, other):
        return other == 3 or NotImplemented

    __hash__ = None

    def __repr__(self):
        return "Ranked"


OPERANDS = {
    "int": lambda: 3, "text": lambda: "%s", "none": lambda: None, "list": lambda: [1, 2], "words": lambda: Words([1, 2]),
    "tuple": lambda: (1, [2]), "size": lambda: torch.Size([1, 2]), "set": lambda: {1, 2}, "frozen": lambda: frozenset({2, 3}),
    "keys": lambda: {"a": 1}.keys(), "values": lambda: {"a": 1}.values(), "counter": lambda: collections.Counter("aab"),
    "proxy": lambda: types.MappingProxyType({"a": 1}), "deque": lambda: collections.deque([1], maxlen=3), "slice": lambda: slice(1, 2),
    "range": lambda: range(2), "builtin": lambda: len, "object": Ranked, "tensor": lambda: torch.ones(2),
}  # fmt: skip
SIGNS = ("+", "*", "%", "|", "-", "==", "!=", "<", ">=")  # one for each rule that a family has
STATEMENTS = [
    *(f"out = left {sign} right" for sign in SIGNS),
    *(f"out = left; out {sign} right" for sign in ("+=", "*=", "|=")),
]


def attempts_of(statements, parameters):
    """A function that returns what each statement leaves in `out`, or the class of its error."""
    lines = [f"def attempts(x, {parameters}):", "    y, found = x + 1, []"]
    for statement in statements:
        lines += ["    try:", f"        {statement}; found.append(out)",
                  "    except Exception as error:", "        found.append(type(error))"]  # fmt: skip
    namespace = {"__name__": __name__}
    exec("\n".join([*lines, f"    return y, found, {parameters}"]), namespace)
    return namespace["attempts"]


def text(results):
    """What a function gave; the order of a set with tensors depends on addresses."""
    y, found, *operands = results
    return [
        sorted(map(repr, one)) if isinstance(one, set) else repr(one)
        for one in (y, *found, *operands)
    ]


@pytest.mark.parametrize("left", OPERANDS)
@pytest.mark.sweep(3)
def test_binary_operators(left):
    function = attempts_of(STATEMENTS, "left, right")
    for right, make in OPERANDS.items():
        expected = function(torch.ones(1), OPERANDS[left](), make())
        assert text(
            framejit.compile(function, backend="eager")(torch.ones(1), OPERANDS[left](), make())
        ) == text(expected), right


@pytest.mark.parametrize("operand", OPERANDS)
def test_unary_operators(operand):
    function = attempts_of([f"out = {sign}value" for sign in (*UNARY, "not ")], "value")
    expected = function(torch.ones(1), OPERANDS[operand]())
    assert text(
        framejit.compile(function, backend="eager")(torch.ones(1), OPERANDS[operand]())
    ) == text(expected)
