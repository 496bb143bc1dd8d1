"""Tensors that are indexed by NumPy's arrays, and elements that are set to its numbers."""

import numpy as np
import pytest
import torch

from ...semantics.harness import strict_compile

LOWER, DIAGONAL = np.tril_indices(3, -1), np.diag_indices(3)
ROWS, MASK = np.array([2, 0, 2]), np.array([True, False, True])
FIXED = np.array([1, 2])
FIXED.flags.writeable = False


def written(x, key, value):
    x = x * 1
    x[key] = value
    return x


READ = {
    "two arrays": lambda x: x[0][LOWER[0], LOWER[1]],
    "a tuple of arrays": lambda x: x[0][LOWER],
    "an array beside a slice": lambda x: x[:, ROWS] * 2,
    "an array behind an ellipsis": lambda x: x[..., ROWS, None],
    "a mask": lambda x: x[0][MASK] * x[0][:, MASK].sum(),
    "an array beside a tensor": lambda x: x[0][ROWS, torch.tensor([0, 1, 2])],
    "shorter ints": lambda x: x[:, ROWS.astype(np.int32)] + x[:, ROWS.astype(np.int8)],
    "an array made inside": lambda x: x[0][np.arange(3), np.arange(2, -1, -1)],
    "a reversed array": lambda x: x[0][ROWS[::-1]],
    "bytes": lambda x: x[0][MASK.astype(np.uint8)],
    "an array that is not written": lambda x: x[:, FIXED],
    "a scalar array": lambda x: x[:, np.array(1)],
    "a list of arrays": lambda x: x[0][[ROWS, ROWS]],
    "floats": lambda x: x[0][ROWS.astype(np.float32)],
    "out of bounds": lambda x: x[:, ROWS + 1],
    "a mask that does not fit": lambda x: x[0][MASK[:2]],
}
WRITTEN = {
    "arrays": lambda x: written(x[0], LOWER, x[1, 0]),
    "a mask": lambda x: written(x[0], MASK, 0.5),
    "a mask that does not fit": lambda x: written(x[0], MASK[:2], 0.5),
    "out of bounds": lambda x: written(x[0], (ROWS + 1, ROWS), 0.5),
    "float64": lambda x: written(x, (Ellipsis, 0), np.log(np.exp(0.999) - 1)),
    "float32": lambda x: written(x.double(), (Ellipsis, 0), np.float32(0.1)),
    "float16": lambda x: written(x, 0, np.float16(0.1)),
    "int64": lambda x: written(x.double(), 0, np.int64(2**53 + 1)),
    "a float in an int": lambda x: written(x.long(), 0, np.float64(2.7)),
    "an int in a bool": lambda x: written(x > 3, 0, np.int32(2)),
    "a truth": lambda x: written(x, 0, np.bool_(True)),
    "a complex number": lambda x: written(x.to(torch.complex64), 0, np.complex64(1 + 2j)),
    "an array": lambda x: written(x, 0, ROWS),
    "a list": lambda x: written(x[0, 0], [0, 1], np.float32(1.5)),
}


def outcome(run, x):
    try:
        y = run(x)
        if y.requires_grad:
            y.sum().backward()
    except Exception as error:
        return type(error), str(error)
    return y.dtype, y.stride(), y.tolist(), None if x.grad is None else x.grad.tolist()


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("use", [*READ.values(), *WRITTEN.values()], ids=[*READ, *WRITTEN])
def test_indices_and_numbers_of_numpy(use, backend):
    handle = strict_compile(use, backend=backend)
    for size in (2, 3, 4):
        x, same = (torch.arange(9.0 * size).view(size, 3, 3).requires_grad_() for _ in range(2))
        assert outcome(handle, x) == outcome(use, same)


@pytest.mark.parametrize("use", [
    READ["two arrays"], READ["a mask"], WRITTEN["arrays"], WRITTEN["float64"]
])  # fmt: skip
def test_they_break_no_graph(use):
    handle = strict_compile(use, backend="eager")
    for size in (2, 3, 4):
        handle(torch.ones(size, 3, 3))
    assert not handle.framejit.explain().breaks and handle.framejit.compiles == 2


def test_the_arrays_of_each_call():
    def f(x, rows, factor):
        x = x * 1
        x[rows] = factor
        rows += 1
        return x[rows]

    handle = strict_compile(f, backend="eager")
    for call in range(4):
        mine, its = (np.array([0, call % 2]) for _ in range(2))
        x, factor = torch.arange(12.0).view(4, 3), np.float64(call / 4)
        assert torch.equal(handle(x, mine, factor), f(x, its, factor))
        assert mine.tolist() == its.tolist()
