"""NumPy's functions of arrays: answers about them are captured; statistics, functions between
points and arrays that run backwards are left to NumPy, with its values."""

from __future__ import annotations

import numpy as np
import pytest

from ...semantics.harness import capture_events, strict_compile
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
        lambda a: np.allclose(a, a + 1e-12),
        lambda a: np.allclose(a * 2, a),
        lambda a: (np.allclose(a, 0), np.allclose(a, a[0], rtol=5.0, atol=1.0)),
        lambda a: np.array_equal(a, a.copy()),
        lambda a: np.array_equal(a, a * 2),
        lambda a: np.array_equal(a * 2, (a * 2)[1:]),
        lambda a: (bool((a > 1).all()), bool(np.any(a > 1))),
    ],
)
def test_answers(program):
    check(lambda a: (program(a), a * 2), matrix())


def test_a_branch_names_the_call():
    compiled = strict_compile(lambda a: a * 2 if np.allclose(a, 1) else a * 3, backend="eager")
    seen = capture_events(compiled)
    np.testing.assert_array_equal(compiled(matrix()), matrix() * 3)
    (told,) = [event.sentence for event in seen if hasattr(event, "sentence")]
    assert "`numpy.allclose()`" in told


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
        lambda a: np.array_equal(a, a.copy(), equal_nan=True),
        lambda a: np.array_equal(a, [1, 2]),
        lambda a: np.array_equal([a * 0 + 1, a * 0 + 1], 1),
    ],
)
def test_left_to_numpy(program):
    assert check(program, matrix(), breaks=None).breaks
