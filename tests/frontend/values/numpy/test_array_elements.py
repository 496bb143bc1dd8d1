"""Elements of arrays beside tensors, as data of tensors, and with each other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from ...semantics.harness import strict_compile, vec
from .test_numpy_number import captured, kinds

TIMES = np.linspace(19, 0, 5).astype(np.int64)
FRACTIONS = np.linspace(0, 1, 4)
# of a tensor, with elements of arrays of the program
OF_ELEMENTS = {
    "data": lambda x: [x * torch.tensor([t] * 3) for t in TIMES],
    "full": lambda x: [torch.full((3,), t) + x for t in TIMES],
    "full of a dtype": lambda x: [torch.full((3,), t, dtype=torch.long) for t in TIMES],
    "full_like": lambda x: [torch.full_like(x, t) for t in FRACTIONS],
    "operators": lambda x: [(x * s, s + x, x.to(torch.int32) * s, x > s) for s in FRACTIONS],
    "half precision": lambda x: [x.half() * s for s in FRACTIONS],
    "without dimensions": lambda x: [x.sum() * s for s in FRACTIONS],
    "differences": lambda x: [x * (a - b) for a, b in zip(TIMES[:-1], TIMES[1:], strict=True)],
    "arguments": lambda x: [torch.clamp(x, max=s).add(s) for s in FRACTIONS],
    "stored": lambda x: [x.clone().fill_(s) for s in FRACTIONS],
    "range": lambda x: [x + i for i in np.arange(4)],
}


@pytest.mark.parametrize("program", OF_ELEMENTS.values(), ids=OF_ELEMENTS)
def test_elements_of_arrays_are_captured(program):
    compiled = strict_compile(program, fullgraph=True)
    expected = program(vec(3))
    for _ in range(2):
        for found, right in zip(compiled(vec(3)), expected, strict=True):
            assert kinds(found) == kinds(right)


def stored_elements(x, a):
    y = torch.zeros(3)
    y[0] = a[1]
    y[a[0]] = a[2]
    return y + x


def test_elements_stored_in_tensors():
    assert captured(stored_elements, vec(3), np.array([2, 5, 7]))
    assert captured(stored_elements, vec(3), np.array([2, 5, 7], dtype=np.int32))


@pytest.mark.parametrize(
    "numbers, dtype",
    [([2**62, 2**62], np.int64), ([2, 3], np.uint8), ([100, 100], np.int8)],
)
@pytest.mark.parametrize("operate", [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b])
def test_overflow_of_elements_warns_as_in_numpy(operate, numbers, dtype):
    def program(a):
        return operate(a[0], a[1])

    def outcome(call, array):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = call(array)
        return type(found), found, [str(one.message) for one in caught]

    compiled = strict_compile(program)
    small = np.array([1, 0], dtype=dtype)
    assert outcome(compiled, small) == outcome(program, small)
    for _ in range(2):
        array = np.array(numbers, dtype=dtype)
        assert outcome(compiled, array) == outcome(program, array)


def lists_of_arrays(x, s):
    a = x.numpy()
    return (
        np.array([a, a * 2]),
        np.array([a[0], 1.0, s]),
        np.array([[a[0], 2], [3, a[1]]]),
        np.array([a, [1, 2, 3], (s, s, s)]),
        np.array([a.astype(np.int8)[0], 2]),
        np.asarray([a, a], dtype=np.float64),
    )


def test_arrays_of_lists_of_arrays():
    compiled = strict_compile(lists_of_arrays)
    for number in (1.5, 2.5, 3.5):
        for found, right in zip(
            compiled(vec(3), number), lists_of_arrays(vec(3), number), strict=True
        ):
            assert (found.dtype, found.tolist()) == (right.dtype, right.tolist())
    report = compiled.framejit.explain()
    assert (len(report.captures), len(report.breaks)) == (2, 0)


FROM_ARRAYS = {
    "one": lambda a: torch.tensor([1 - (a[1] - j) / 40 for j in range(4)]), "items": lambda a: torch.tensor([a[1], a[2]]),
    "all": lambda a: torch.tensor([v * 2 for v in a]), "roots": lambda a: torch.tensor([np.sqrt(v) for v in a]),
    "maximum": lambda a: torch.as_tensor([a.max()]), "mean": lambda a: torch.tensor([a.mean()]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
@pytest.mark.parametrize("program", FROM_ARRAYS.values(), ids=FROM_ARRAYS)
def test_scalars_taken_from_arrays_of_tensors(program, dtype):
    def f(x):
        return program(x.numpy())

    handle, x = strict_compile(f), torch.tensor([1, 2, 5]).to(getattr(torch, dtype))
    expected = kinds(f(x))
    assert kinds(handle(x)) == expected == kinds(handle(x))


ALPHAS = torch.linspace(0.1, 0.9, 20)


def denoise(x, steps):
    times = np.linspace(19, 0, steps).astype(int)
    for i, t in enumerate(times):
        after = ALPHAS[times[i + 1]] if i + 1 < len(times) else torch.tensor(1.0)
        x = x * ALPHAS[t] + after
    return x


def last_and_beyond(x, steps):
    times = np.linspace(0, 1, steps)
    try:
        return x * times[5], times[-1]
    except IndexError as error:
        return x * times[-2], str(error)


@pytest.mark.parametrize(
    ("program", "lengths"),
    [
        (denoise, (5, 7, 6, 4, 3)),
        (last_and_beyond, (5, 7, 6, 4)),  # for some of them, the length is part of a text
    ],
)
def test_arrays_of_a_length_that_varies(program, lengths):
    compiled = strict_compile(program)
    for steps in lengths:
        found, expected = compiled(vec(3), steps), program(vec(3), steps)
        assert kinds(found) == kinds(expected)
    assert not compiled.framejit.explain().breaks
