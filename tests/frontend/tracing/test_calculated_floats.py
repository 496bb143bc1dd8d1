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
    lambda p: math.floor(p * 10), lambda p: -10 * p,
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
