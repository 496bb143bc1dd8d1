"""Functions called with a number that differs from call to call are compiled twice: for the first
number, and for any."""

from __future__ import annotations

import math

import framejit
import numpy
import pytest
import torch

from ...semantics.harness import vec

X = torch.arange(24.0).reshape(6, 4)


def written(x, key, value):
    x = x.clone()
    x[key] = value
    return x


INDICES = {
    "a row": lambda x, n: x[n],
    "a column": lambda x, n: x[:, n],
    "a slice and an element": lambda x, n: x[1:3, n],
    "a new dimension": lambda x, n: x[None, n, None],
    "new dimensions around": lambda x, n: x[None, None, 1:, None, n, None],
    "the end": lambda x, n: x[..., n],
    "from behind": lambda x, n: x[-n],
    "two": lambda x, n: x[n, n - 1],
    "two and a slice": lambda x, n: x.view(6, 2, 2)[n, :, n // 4],
    "an int that is fixed": lambda x, n: x[2, n],
    "a row, written": lambda x, n: written(x, n, 7.0),
    "a column, written": lambda x, n: written(x, (slice(None), n), torch.arange(6.0)),
    "an element, written": lambda x, n: written(x, (n, n), torch.tensor(3)),
    "beside a tensor": lambda x, n: x[n, torch.tensor([3, 0])],
    "behind a tensor": lambda x, n: x[torch.tensor([[0, 5], [-1, 2]]), -n],
    "between tensors": lambda x, n: x.view(2, 3, 4)[torch.arange(2), n - 1, torch.arange(2)],
    "behind a slice": lambda x, n: x.view(2, 3, 4)[:, n - 1, torch.tensor([1, 0])],
    "around a tensor": lambda x, n: x.view(6, 2, 2)[None, n, ..., torch.tensor([1, 0]), None],
    "before a tensor, written": lambda x, n: written(x, (n, torch.tensor([3, 0])), 7.0),
    "behind a tensor, written": lambda x, n: written(x, (torch.arange(2), n), torch.arange(2.0)),
    "rows by a list": lambda x, n: x[[0, 1]][:, n],
}
DATA = {
    "a number": lambda x, n: x * torch.tensor(n),
    "a list": lambda x, n: x + torch.tensor([n, 1, n + 1, 2]),
    "floats": lambda x, n: x + torch.tensor([n / 3, 0.5, 1.0, 2.0]),
    "ints and floats": lambda x, n: x + torch.tensor([n, 0.5, 1.0, 2]),
    "lists of lists": lambda x, n: x[:2] + torch.tensor([(n, 1, 2, 3), (n // 2, n + 1, 2, 4)]),
    "a dtype": lambda x, n: torch.tensor([n], dtype=torch.float64) + x,
    "as_tensor": lambda x, n: torch.as_tensor(n / 7) + x,
}
MATH = {
    "log": lambda x, n: x * math.log(n),
    "log10 of a sum": lambda x, n: x * math.log10(1 + n / 2),
    "a decay": lambda x, n: x * math.exp(-n / 30.0),
    "expm1, log1p": lambda x, n: x * math.expm1(n / 5) + math.log1p(n),
    "a root": lambda x, n: x * n**0.5 + n**-0.5,
    "a root of a size": lambda x, n: x * x.repeat(1, n).sin().shape[1] ** -0.5,
    "powers": lambda x, n: x * n**1.5 + n**-2 + (n + 1) ** -1,
    "floor": lambda x, n: x + math.floor(n / 1.7) + math.ceil(n / 1.3) + math.trunc(n * 0.6),
    "rounded": lambda x, n: x.new_zeros(round(n * 2.5)) + round(n / 3, 1),
    "a size": lambda x, n: x.new_zeros(math.ceil(n * 2.5)),
    "shifts": lambda x, n: x.new_zeros(n << 3) + (n >> 1) + (5 << n),
    "lowest bits": lambda x, n: x * (n & 7) + (3 & n),
    "bits": lambda x, n: x * (n | 4) + (n ^ 9) + (n & 5) + ~n,
    "powers of two": lambda x, n: x.new_zeros(2**n) + 3 ** (n + 1),
    "padded to a power of two": lambda x, n: x.new_zeros(2 ** math.ceil(math.log2(n + 0.5))),
    "isqrt, gcd": lambda x, n: x.new_zeros(math.isqrt(n * 9)) + math.gcd(n * 2, 6),
    "pow, hypot, fmod": lambda x, n: x * math.pow(n, 0.3) + math.hypot(n, 2) + math.fmod(n, 1.5),
    "powers of floats": lambda x, n: x * (1 + n / 3) ** 2 + (2.5 - n) ** 3 + (n / 7) ** -1.5,
    "powers of a literal": lambda x, n: (
        x * (1 - math.pow(0.9, n)) + math.pow(2, n) + math.pow(1, n)
    ),
    "a debiased step": lambda x, n: x / math.sqrt(1 - math.pow(0.99, n)),
    "a branch": lambda x, n: x + 1 if math.floor(n * 1.5) > 100 else x - math.log(n),
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(
    "function", [*INDICES.values(), *DATA.values(), *MATH.values()], ids=[*INDICES, *DATA, *MATH]
)
def test_a_number_that_varies(function, backend):
    compiled = framejit.compile(function, backend=backend)
    for n in (1, 3, 2, 1, 3):
        got, expected = compiled(X, n), function(X, n)
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
        assert (
            got.dtype == expected.dtype
            and got.stride() == expected.stride()
            and (got._base is X) == (expected._base is X)
        )
    assert compiled.framejit.compiles == 2


@pytest.mark.parametrize("key", [
    lambda n: n, lambda n: (slice(None), n - 3), lambda n: -n - 1, lambda n: (n, torch.arange(4)),
])  # fmt: skip
def test_an_index_that_is_out_of_bounds(key):
    compiled = framejit.compile(lambda x, n: x[key(n)] * 2, backend="eager")
    for n in (0, 3, 5, 9, 4, 6, 3):
        try:
            expected = X[key(n)] * 2
        except IndexError as error:
            with pytest.raises(IndexError) as raised:
                compiled(X, n)
            assert str(raised.value) == str(error)
        else:
            assert torch.equal(compiled(X, n), expected)


def test_gradients_of_rows():
    def work(x, n):
        y = x * 2
        y[n] = x[n - 1] * 3
        return y[:, n].sum()

    compiled = framejit.compile(work, backend="eager")
    for n in (1, 2, 3):
        mine, its = (X.clone().requires_grad_() for _ in range(2))
        compiled(mine, n).backward()
        work(its, n).backward()
        assert torch.equal(mine.grad, its.grad)
    assert compiled.framejit.compiles == 2


@pytest.mark.parametrize(
    ("function", "outside"),
    [
        (math.log, 0.0),
        (lambda v: v**2, 1e200),
        (lambda v: v**-2, 0.0),
        (lambda v: abs(v**1.5), -2.5),
        (math.log, -1.0),
        (math.exp, 1e6),
        (math.floor, 1e300),
        (math.ceil, math.inf),
        (round, math.inf),
        (round, math.nan),
    ],
)
def test_outside_of_what_a_function_is_defined_for(function, outside):
    compiled = framejit.compile(lambda x, v: x * function(v), backend="eager")
    for v in (1.5, 2.5, 3.5, outside, 4.5, 1.0):
        try:
            expected = X * function(v)
        except (ArithmeticError, ValueError, RuntimeError) as error:
            with pytest.raises(type(error)) as raised:
                compiled(X, v)
            assert str(raised.value) == str(error)
        else:
            assert torch.equal(compiled(X, v), expected)


BY_BITS = (lambda n: 1 << n, lambda n: 2**n)


@pytest.mark.parametrize("function", [
    *BY_BITS,
    lambda n: (n << 2, n >> 1, n & 3, n | 5, n ^ 3, ~n, 8 & n, n & 6),
    lambda n: math.isqrt(n),
    lambda n: math.pow(n, -0.5),
    lambda n: (math.pow(0.9, n), math.pow(3, n) if n < 900 else math.pow(3.5, n)),
    lambda n: (math.gcd(n, 12), math.fmod(n, 4), n.bit_length()),
    lambda n: n & True,
    lambda n: n >> -1,
])  # fmt: skip
def test_ints_of_any_sign_and_length(function):
    compiled = framejit.compile(lambda x, n: (x * 2, function(n)), backend="eager")
    for n in (3, 5, 4, -4, -5, 0, -1, 40, 61, 64, 200, 2**40, -(2**62), 2**70, 1.5, True):
        if n > 300 and function in BY_BITS:
            continue
        try:
            expected = function(n)
        except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
            with pytest.raises(type(error)) as raised:
                compiled(X, n)
            assert str(raised.value) == str(error)
        except AttributeError:
            continue
        else:
            found = compiled(X, n)[1]
            assert repr(found) == repr(expected)


def test_what_a_calculated_number_decides_is_guarded():
    def work(x, v):
        level = math.floor(v / 2)
        return (x + level, "many") if math.log(v) > 2 else (x * level, "few")

    compiled = framejit.compile(work, backend="eager")
    for v in (1.0, 3.0, 5.5, 9.0, 7.0, 7.5, 2.0, 40.0):
        got, expected = compiled(X, v), work(X, v)
        assert torch.equal(got[0], expected[0]) and got[1] == expected[1]


def dropped(x, p):
    torch.manual_seed(0)
    return torch.nn.functional.dropout(x.sin(), p) * 2


NEEDED = {
    "dropout": dropped,
    "layer norm": lambda x, v: torch.native_layer_norm(x, (4,), None, None, v)[0].cos(),
    "a method": lambda x, v: x.bernoulli(v * 0) + x.renorm(2, 0, v),
    "numpy's result, returned": lambda x, v: (x * 2, numpy.log(v))[0],
    "numpy's result in an operation": lambda x, v: x * numpy.sqrt(v) + 1,
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", NEEDED.values(), ids=NEEDED)
def test_an_operation_that_needs_the_number_is_left_to_python(function, backend):
    """What lies around it is compiled for any number."""
    compiled, settled = framejit.compile(function, backend=backend), 0
    for k in range(12):
        v = 0.05 * k + 0.1
        torch.testing.assert_close(compiled(X, v), function(X, v))
        settled = compiled.framejit.compiles if k == 6 else settled
    assert settled == compiled.framejit.compiles <= 6


def test_an_operation_that_needs_the_number_under_fullgraph():
    compiled = framejit.compile(NEEDED["layer norm"], backend="eager", fullgraph=True)
    for v in (0.1, 0.2, 0.3):
        assert torch.equal(compiled(X, v), NEEDED["layer norm"](X, v))
    assert compiled.framejit.compiles == 3


def one_object(x, p, q):
    return x * p, p is q


def test_floats_that_vary():
    x, compiled = vec(2), framejit.compile(one_object)
    compiled(x, 1.5, 0.5)
    for number in (2.5, 3.5, 4.5):
        other = float(str(number))
        assert compiled(x, number, number)[1] is True
        assert compiled(x, number, other)[1] is False
        assert compiled(x, number, 0.5)[1] is False
