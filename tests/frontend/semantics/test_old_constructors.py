"""torch.FloatTensor([...]), Tensor.new() and the like, as older code makes its tensors: left to
Python."""

import numpy as np
import pytest
import torch

from .harness import strict_compile

MADE = {
    "floats": lambda x: x * torch.FloatTensor([1.0, 2, 3]) + torch.Tensor([1, 2, 0.5]),
    "a tuple": lambda x: x + torch.DoubleTensor((1, 2, 3)),
    "rows": lambda x: x @ torch.Tensor([[1, 2], [3, 4], [5, 6]]),
    "ints": lambda x: x[:, torch.LongTensor([2, 0])] + torch.IntTensor([1.7, 2]),
    "a size": lambda x: x * torch.FloatTensor(x.shape[0], 3).fill_(2) + torch.LongTensor(3).zero_(),
    "nothing": lambda x: torch.cat([x.flatten(), torch.Tensor([])]),
    "small": lambda x: x.char() + torch.ByteTensor([1, 2, 3]) + torch.HalfTensor([0.1]),
    "numbers that vary": lambda x: x * torch.FloatTensor([x.shape[0], 1.5, 2.0]),
    "no argument": lambda x: torch.cat([x.flatten(), torch.Tensor()]),
    "a tensor": lambda x: x * torch.Tensor(x.shape[1:]).fill_(3) + torch.FloatTensor(x[0]),
    "an array": lambda x: x * torch.Tensor(np.array([1.0, 2, 3])),
    "tensors": lambda x: x * torch.FloatTensor([x.sum(), 1, 2]),
    "truths": lambda x: x[:, torch.BoolTensor([True, False, True])],
    "a device": lambda x: x + torch.FloatTensor([1, 2, 3], device="cpu"),
    "unequal rows": lambda x: torch.Tensor([[1, 2], [3]]),
    "a class that asks": lambda x: x * isinstance(torch.LongTensor([1]), torch.LongTensor),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_they_make(make, dtype):
    handle = strict_compile(make, backend="eager")
    for rows in (2, 4, 5):
        x = torch.arange(3.0 * rows).view(rows, 3)
        try:
            torch.set_default_dtype(dtype)
            expected = make(x)
        except Exception as error:
            with pytest.raises(type(error)) as raised:
                handle(x)
            assert str(raised.value) == str(error)
        else:
            found = handle(x)
            torch.testing.assert_close(found, expected)
            assert found.dtype == expected.dtype
        finally:
            torch.set_default_dtype(torch.float32)


OF_DATA = {
    "ints": lambda x: (x.new([1, 2]), x.new((1, 2))), "floats": lambda x: x.new([[1.5, 2], [3, 4]]),
    "of an int tensor": lambda x: x.to(torch.int32).new([1.5, 2]), "none": lambda x: x.new([]),
}  # fmt: skip


@pytest.mark.parametrize("make", OF_DATA.values(), ids=OF_DATA)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_new_of_data(make, dtype):
    x = torch.ones(2, dtype=dtype)
    found, expected = strict_compile(make)(x), make(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("data", [[np.float32(1.5)], [[1], [2, 3]], np.ones(2)], ids=repr)
def test_new_of_other_data(data):
    def make(x):
        return x.new(data), x + 1

    for dtype in (torch.float32, torch.int64):
        x = torch.ones(2, dtype=dtype)
        try:
            expected = make(x)
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                strict_compile(make)(x)
        else:
            torch.testing.assert_close(strict_compile(make)(x), expected, rtol=0, atol=0)


def test_a_scalar_of_numpy_as_an_int_raises():
    def make(x, number):
        return torch.tensor([number], dtype=torch.int64)

    compiled = strict_compile(make)
    for number in (0.5, 1.5, 2.5):
        with pytest.raises(TypeError):
            compiled(torch.ones(2), np.float32(number))
