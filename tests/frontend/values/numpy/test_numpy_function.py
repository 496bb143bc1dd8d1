"""NumPy's functions of arrays: orders, statistics, functions between points, answers about arrays,
and arrays that run backwards are left to NumPy, with its values."""

from __future__ import annotations

import numpy as np
import pytest

from ...semantics.harness import strict_compile
from .test_array import check, matrix, same


@pytest.mark.parametrize(
    "program",
    [
        lambda a: np.histogram(a, 4),
        lambda a: np.histogram(a, [0, 1, 2]),
        lambda a: np.interp(a, [0, 1], [2, 3]),
        lambda a: np.interp(a, [1, 0], [2, 3]),
        lambda a: np.digitize(a, [2, 1, 0]),
        lambda a: np.cov(a),
        lambda a: np.polyval([1.0, 2], a),
        lambda a: np.allclose(a, a.copy(), equal_nan=True),
        lambda a: np.array_equal(a, a.copy()),
    ],
)
@pytest.mark.parametrize("odd", [np.nan, np.inf, 3.0])
@pytest.mark.filterwarnings("ignore")
def test_values_for_which_numpy_is_asked(program, odd):
    compiled = strict_compile(program, backend="eager")
    for value in (1.0, odd, odd, 1.0):
        a = np.arange(6.0)
        a[2] = value
        try:
            expected = program(a)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:12]):
                compiled(a)
        else:
            same(expected, compiled(a))


@pytest.mark.parametrize(
    "program",
    [
        lambda a: (np.cov(a), np.corrcoef(a * 2)),
        lambda a: (np.histogram(a, 4), np.digitize(a * 2, [0.0, 1.0])),
        lambda a: (np.interp(a, [0, 1], [2, 3]), np.searchsorted(a[0], a * 2)),
        lambda a: a[0].searchsorted(3.0) + a,
        lambda a: (np.polyval([1.5, 2], a), a * 2),
        lambda a: (np.cumsum((a * 0.9)[::-1], axis=0)[::-1].copy(), (a * 2)[:, ::-1]),
        lambda a: (a[::-1] + 1, np.flip(a, 1) * 2, np.fliplr(a), a[..., None, ::-1]),
        lambda a: (a.__setitem__(slice(None, None, -1), a + 1), a),
        lambda a: (np.add(a, 1, out=a[::-1]), a),
        lambda a: [row * 2 for row in a[::-1]],
        lambda a: (np.array_equal(a, a.copy()), np.allclose(a, a * 2)),
        lambda a: (np.argsort(a), a.argsort(axis=0), np.argsort(a, kind="stable")),
        lambda a: (np.median(a), np.quantile(a, 0.3)),
    ],
)
def test_left_to_numpy(program):
    assert check(program, matrix(), breaks=None).breaks
