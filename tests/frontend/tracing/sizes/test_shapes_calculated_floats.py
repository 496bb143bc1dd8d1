"""A calculation with floats that vary and whose value is asked for: the guards on it hold for the
call that they were made for, and results are eager's. (Rearranged as mathematics allows, `-10 * (p
+ 0.1)` is another float.)"""

from __future__ import annotations

import math

import framejit
import pytest
import torch


class Holder:
    def __init__(self):
        self.p = 0.0


CALCULATIONS = [
    lambda p: math.exp(-10 * p), lambda p: math.exp(3 * (p + 0.1)), lambda p: math.log1p(0.1 * p + 0.3 * p),
    lambda p: round((p - 0.3) * 0.1 * 3, 3),
    lambda p: 1.0 if -10 * (p + 0.1) == -4.0 else 2.0, lambda p: 2.0 / (1.0 + math.exp(-10 * p / 7)) - 1,
    lambda p: math.floor(p * 10), lambda p: -10 * p, lambda p: math.log(p + 1.5, 2), lambda p: 10.0 ** -p,
    lambda p: 10 ** (-p / 2), lambda p: round(p * 0.37 - 0.1, 2), lambda p: int(p * 30), lambda p: int(-p * 30) + round(p, 1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALCULATIONS)))
def test_values_are_eagers_at_each_step(number):
    calculate = CALCULATIONS[number]

    def step(x, holder):
        holder.p += 0.1
        return x * calculate(holder.p)

    x, ours, eagers = torch.ones(2, dtype=torch.float64), Holder(), Holder()
    with framejit.config.patch(strict=True, recompile_limit=32):
        compiled = framejit.compile(step, backend="eager")
        for _ in range(12):
            assert torch.equal(compiled(x, ours), step(x, eagers)) and ours.p == eagers.p


FEW = {  # of a number that varies, at most two compiles
    "log to a base": lambda n: math.log(n + 1.5, 2),
    "power of a literal": lambda n: 10.0**-n,
    "power of an int, to a float": lambda n: 10 ** (-n / 2),
    "round": lambda n: round(n * 0.37, 2),
    "int": lambda n: int(n * 0.5),
    "int of a power": lambda n: int(100 * 0.9**n),
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", FEW)
def test_a_number_that_python_calculates_is_no_reason_to_compile_again(name, backend):
    calculate = FEW[name]

    def f(x, n):
        return x * calculate(n), calculate(n)

    x, handle = torch.ones(2, dtype=torch.float64), framejit.compile(f, backend=backend)
    for n in range(2, 14):
        got, wanted = handle(x, n), f(x, n)
        assert torch.equal(got[0], wanted[0])
        assert (got[1], type(got[1])) == (wanted[1], type(wanted[1]))
    assert handle.framejit.compiles <= 2


@pytest.mark.parametrize("value", [0.0, -0.0, 1e300, -1e300, 5e-324, math.inf, math.nan, 2.0**63])
def test_numbers_at_the_ends_of_their_ranges(value):
    def f(x, p):
        found = []
        for function in (int, lambda p: round(p, 2), lambda p: 10.0**-p, lambda p: math.log(p, 3)):
            try:
                found.append(function(p))
            except (ValueError, OverflowError, ZeroDivisionError) as error:
                found.append(type(error))
        return x * p, found

    x, handle = torch.ones(2, dtype=torch.float64), framejit.compile(f, backend="eager")
    for p in (1.5, 2.5, 3.5, value, 4.5, value):
        got, wanted = handle(x, p), f(x, p)
        assert torch.equal(got[0].nan_to_num(7), wanted[0].nan_to_num(7))
        assert repr(got[1]) == repr(wanted[1])
