"""numpy beside tensors: its scalars and functions of them are captured, its arrays are clean breaks."""
from __future__ import annotations

import numpy as np
import pytest
import torch

from .harness import check, strict_compile, vec


def operands(x, a):
    return x * a, a * x, x - a, a / x, x**a, x < a, x.add(a), torch.mul(x, a), x.clamp(max=a), x.half() * a, torch.where(x > 1, x, a)


def arithmetic(x, a):
    numbers = [a + 1, a * 2.5, -a, abs(a), a > 1, round(a), int(a), float(a), a == 3, str(a), f"{a:.2f}", a.item(), {a: 1}[a], a // 2]
    return x + 1, [(type(number).__name__, repr(number)) for number in numbers], isinstance(a, np.floating | np.integer), type(a).__name__


@pytest.mark.parametrize("number", [np.float64(2), np.float32(0.1), np.float16(3), np.int64(1), np.int32(-1), np.float64("nan"), np.float64(-0.0)],
                         ids=lambda number: f"{type(number).__name__} {number}")  # fmt: skip
def test_scalars(number):
    check(operands, vec(2), number, fullgraph=True)
    if number == number:
        check(arithmetic, vec(2), number, fullgraph=True)


def sizes(x, n):
    return x.reshape(n, 2), x[n - 1 :], torch.zeros(n) + x, [x, x * 2][n - 1], x.sum(n - 1), x.repeat(n, 2), list(range(n))


def test_sizes():
    check(sizes, vec(2), np.int64(1), fullgraph=True)


def functions(x):
    return x / np.sqrt(x.shape[-1]) * np.pi, x.reshape(int(np.prod(x.shape))), x + np.float32(0.1), np.maximum(3, 4), np.log2(8), np.clip(5, 0, 3)


def test_functions_of_literals():
    eager, compiled = functions(vec(2)), strict_compile(functions, fullgraph=True)(vec(2))
    assert all(torch.equal(a, b) for a, b in zip(eager[:3], compiled[:3], strict=True))
    assert [(type(a), a) for a in eager[3:]] == [(type(a), a) for a in compiled[3:]]


def test_another_number_is_another_entry():
    def f(x, a):
        return x / a

    compiled = strict_compile(f)
    for number in (np.float64(0.0), np.float64(-0.0), np.float32(0.0), 0.0, np.int64(0), np.float64(0.0)):
        assert torch.equal(compiled(vec(2), number), f(vec(2), number))
    for step in range(20):  # one that is another each time stays Python's
        assert torch.equal(compiled(vec(2), np.float64(step + 0.5)), f(vec(2), np.float64(step + 0.5)))


def truth_as_number(x, flag):
    return x * flag + 1, x + (2 if flag else 3)


def as_data(x, number):
    return torch.tensor(number) + x, torch.full((2,), number), x * 2


def array_made(x, number):
    return x + 1, np.arange(3).tolist(), (np.array([1.0]) * number).tolist()


def from_and_to(x, number):
    made = (x + 1).numpy() * number
    return torch.from_numpy(made) + 1


@pytest.mark.parametrize("function, number", [(truth_as_number, np.bool_(True)), (as_data, np.float64(3)), (array_made, 2), (from_and_to, 2)])
def test_what_is_left_to_python(function, number):
    check(function, vec(2), number, graphs=None, breaks=None)


def test_warnings_come_with_each_call():
    def f(x):
        return x + 1, float(np.log(0.0))

    compiled = strict_compile(f)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            assert compiled(vec(2))[1] == -np.inf
