"""torch.tensor() and torch.as_tensor() of NumPy's arrays."""

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
