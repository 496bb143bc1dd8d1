"""The inputs of a graph may be called as anything: code that is generated for it has names of its
own."""

from __future__ import annotations

import itertools
import types

import pytest
import torch

from .harness import strict_compile

WEIGHT = torch.nn.Parameter(torch.arange(4.0).view(2, 2))


def builtins(input, input_1, type, type_1):
    return input - input_1, type * 2, type_1 * 3


def operations(x, add, add_1, mul_1):
    return (x + 1 + x) * add * 2, add * 2, add_1 * 3, mul_1 - add


def constants(x, constant0, constant1):
    return x @ (WEIGHT * 2), constant0 + 1, constant1 + constant0


def no_letters(_, _1, __2):
    return _ * 2 - _1, __2 + 1


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize(
    "f", [builtins, operations, constants, no_letters], ids=lambda f: f.__name__
)
def test_names(f, backend):
    given = [torch.arange(4.0).view(2, 2) + 10 * place for place in range(f.__code__.co_argcount)]
    with torch.no_grad():
        handle, wanted = strict_compile(f, backend=backend), f(*given)
        for _ in range(2):
            assert all(map(torch.equal, handle(*given), wanted))


def pairs(items):
    return [a + b for a, b in items]


def test_the_variable_of_a_comprehension():
    """Where comprehensions have frames, it is called .0."""
    inner = [const for const in pairs.__code__.co_consts if isinstance(const, types.CodeType)]
    handle = strict_compile(
        types.FunctionType(inner[0], globals()) if inner else pairs, backend="eager"
    )
    tensors = [torch.full((2,), float(place)) for place in range(4)]
    assert all(
        map(
            torch.equal,
            handle(itertools.combinations(tensors, 2)),
            pairs(itertools.combinations(tensors, 2)),
        )
    )
