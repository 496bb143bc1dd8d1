"""torch.tensor() and torch.as_tensor() of NumPy's arrays, and of numbers in tensors."""

import warnings

import framejit
import numpy as np
import pytest
import torch

from ...semantics.harness import strict_compile


def of_indexes(x, rows, columns):
    found = torch.as_tensor(rows, dtype=torch.int64), torch.as_tensor(columns, dtype=torch.int64)
    return x[found] + 1, *found


def written(x, rows, columns):
    shared = torch.as_tensor(columns, dtype=torch.int64)
    converted = torch.as_tensor(rows, dtype=torch.int64)
    shared[0] = 1
    converted[0] = 1
    return x[shared] * 2, shared, converted


def without_dtype(x, rows, columns):
    return x[torch.tensor(columns, dtype=None)], torch.as_tensor(rows, dtype=None)


@pytest.mark.parametrize("f", [of_indexes, written, without_dtype])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_as_a_dtype(f, backend):
    """What has the dtype already shares the array's memory."""
    compiled = strict_compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        got, want = (
            (np.array([0, 2, 1], dtype=np.int32), np.array([2, 0, 2])[::-1].copy())
            for _ in range(2)
        )
        x = torch.arange(9.0).reshape(3, 3)
        assert str(compiled(x, *got)) == str(f(x, *want))
        assert str(got) == str(want)


def test_a_view_with_other_strides():
    def f(x, found):
        return x + torch.as_tensor(found, dtype=torch.float32), torch.as_tensor(found)

    compiled = strict_compile(f, backend="eager", fullgraph=True)
    for dtype in (np.float32, np.float64):
        found = np.arange(12, dtype=dtype).reshape(3, 4).T
        got, want = compiled(torch.ones(4, 3), found), f(torch.ones(4, 3), found)
        for left, right in zip(got, want, strict=True):
            assert torch.equal(left, right) and left.stride() == right.stride()
        assert got[1].data_ptr() == want[1].data_ptr()


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_numbers_in_tensors_are_put_together(backend):
    def f(x):
        items = [x[i] * 2 for i in range(3)]
        order = [x.argmax(), x.argmin()]
        return (
            torch.tensor(items),
            torch.tensor([items, items[::-1]], dtype=torch.float32),
            torch.as_tensor(tuple(items), dtype=x.dtype),
            torch.tensor(order),
            torch.tensor([[(x > 0)[0]], [(x > 0)[1]]]),
        )

    compiled = framejit.compile(f, backend=backend, fullgraph=True)
    for dtype in (torch.float64, torch.float16):
        for factor in (1.0, -3.3):
            x = torch.tensor([0.3, -1.0, 7.1], dtype=dtype) * factor
            for got, expected in zip(compiled(x), f(x), strict=True):
                assert got.dtype == expected.dtype and torch.equal(got, expected)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.tensor([x[0], x[1]], dtype=torch.int64),
        lambda x: torch.tensor([x.argmax(), x.argmin()], dtype=torch.float32),
        lambda x: torch.tensor([x[0], x.argmax()]),
        lambda x: torch.tensor([x[:1], x[1:]]),
        lambda x: torch.tensor([x[0], 2.0]),
        lambda x: torch.tensor([x[0], x[1]], device="meta"),
        lambda x: torch.func.vmap(lambda row: torch.tensor([row, row]))(x),
    ],
)
def test_tensors_that_torch_reads_in_another_way(program):
    def f(x):
        try:
            made = program(x)
        except (RuntimeError, TypeError, ValueError) as error:
            return x + 1, type(error)
        return x + 1, made.dtype, made.device, made.shape, str(made)

    compiled = framejit.compile(f, backend="eager")
    x = torch.tensor([1.5, 2.5])
    assert str(compiled(x)) == str(f(x))


def test_a_gradient_that_a_new_tensor_loses():
    def f(x):
        return torch.tensor([x[0], x[1]]) * x

    compiled = framejit.compile(f, backend="eager")
    gradients = []
    for call in (f, compiled):
        x = torch.tensor([1.5, 2.5], requires_grad=True)
        with warnings.catch_warnings(record=True):
            call(x).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)
