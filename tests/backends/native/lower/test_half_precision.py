"""Values in half precision that eager rounds, and that decide about a mask, an integer or a whole
number; operands of other dtypes among halves."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

HALVES = [torch.bfloat16, torch.float16]


def tiny(a):
    return a * a * 1e-3 * 1e-3 * 1e-3


DISCRETE = {
    "equal": lambda a, b, c: a * b == c,
    "compared as float32": lambda a, b, c: (a * b).float() < 0.25,
    "compared through views": lambda a, b, c: (a * b).t().reshape(-1) * 2 > 0.5,
    "compared with a mean": lambda a, b, c: a * b > (a * c).mean(-1, keepdim=True),
    "infinite": lambda a, b, c: (a * b * 1000 * 1000).isinf(),
    "not": lambda a, b, c: torch.logical_not(tiny(a)),
    "any": lambda a, b, c: tiny(a).any(-1),
    "to int": lambda a, b, c: (a * b * 100).long(),
    "to bool": lambda a, b, c: torch.where(tiny(a).bool(), b, c),
    "whole numbers": lambda a, b, c: ((a * b * 64).floor(), (a * b * 64).round(), tiny(a).sign()),
    "fraction": lambda a, b, c: (a * b * 64).frac(),
    "rest": lambda a, b, c: ((a * b * 64) % 3, (a * b * 64).fmod(c)),
    "whole quotient": lambda a, b, c: ((a * b) // c, torch.div(a * b, c, rounding_mode="trunc")),
    "whole quotient by a number": lambda a, b, c: (a * b) // 0.3,
    "position": lambda a, b, c: (a * b * 1.1).argmax(-1),
    "position and value": lambda a, b, c: (a * b * 1.1).max(-1),
    "positions of an operator that is called": lambda a, b, c: (a * b * 1.1).topk(3).indices,
    "threshold": lambda a, b, c: F.threshold(a * b * 1.1, 0.5, 3.0),
    "a constant": lambda a, b, c: (
        torch.full_like(a, 0.1) == a.new_tensor(0.1),
        a.clamp(-0.3, 0.3) == a.new_tensor(0.3),
    ),
}


def assert_same(functions, *inputs):
    """All of them in one graph; values that one shares with another would be computed once."""

    def all_of_them(*inputs):
        return {name: function(*inputs) for name, function in functions.items()}

    expected = all_of_them(*inputs)
    found = framejit.compile(all_of_them, backend="native")(*inputs)
    for name in functions:
        for mine, eagers in zip(tree_leaves(found[name]), tree_leaves(expected[name]), strict=True):
            torch.testing.assert_close(
                mine, eagers, rtol=0, atol=0, equal_nan=True, msg=lambda text: f"{name}: {text}"
            )


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_what_decides_about_another_result_is_rounded(dtype):
    torch.manual_seed(0)
    a, b, c = (torch.randn(16, 100).to(dtype) for _ in range(3))
    c[:8] = (a * b)[:8]
    assert_same(DISCRETE, a, b, c)


OPERATORS = [torch.add, torch.sub, torch.mul, torch.div, torch.remainder, torch.pow, torch.eq,
             torch.lt, torch.floor_divide, torch.atan2, torch.nextafter]  # fmt: skip


def with_tensors(operator):
    def function(a, integers, *single):
        others = (integers, *single)
        return [operator(a, each) for each in others] + [operator(each, a) for each in others]

    return function


def with_numbers(operator):
    return lambda a, *_: (operator(a, 0.1), operator(a, 0.7))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_an_operand_of_another_dtype_is_converted_first(dtype):
    """But the second one of a product or a quotient, if it has a single element."""
    torch.manual_seed(0)
    a = torch.randn(60).to(dtype).abs()
    a[:2] = torch.tensor([0.1, 0.7])
    single = torch.tensor(0.1, dtype=torch.float64), torch.tensor(0.7), torch.tensor(257)
    tables = {
        "tensors": {each.__name__: with_tensors(each) for each in OPERATORS},
        "numbers": {
            each.__name__: with_numbers(each)
            for each in OPERATORS
            if each not in (torch.atan2, torch.nextafter)
        },
    }
    for functions in tables.values():
        assert_same(functions, a, torch.arange(250, 310), *single)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_the_factor_of_a_sum_is_converted_first(dtype):
    torch.manual_seed(0)
    a, b = torch.randn(2, 512, dtype=dtype)  # a multiple of a vector: torch rounds the rest twice
    sums = {
        "add": lambda a, b: torch.add(a, b, alpha=1.7),
        "sub": lambda a, b: torch.sub(a, b, alpha=1.7),
        "rsub": lambda a, b: torch.rsub(a, b, alpha=1.7),
        "in place": lambda a, b: a.clone().sub_(b, alpha=1.7),
        "of a number": lambda a, b: torch.add(a, 1.1, alpha=1.7),
        "by position": lambda a, b: torch.ops.aten.sub.Scalar(a, 1.1, 1.7),
    }
    assert_same(sums, a, b)
