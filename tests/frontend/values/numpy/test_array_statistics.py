"""Statistics of arrays, and answers about them: one graph, with NumPy's values and dtypes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ...semantics.harness import capture_events, strict_compile
from .test_array import check, matrix, same

DTYPES = (np.float64, np.float32, np.int64, np.int32, np.uint8)


def quarters(dtype):
    return (np.arange(24) * 7 % 24 / 4 - 1).astype(dtype).reshape(4, 6)


CAPTURED = {
    "cov": lambda a: (np.cov(a), np.cov(a[0]), np.cov(a[0], a[1]), np.cov(a, rowvar=False)),
    "cov of all": lambda a: (np.cov(a, bias=True), np.cov(a, ddof=2), np.cov(a[0], a[1][::-1])),
    "corrcoef": lambda a: (np.corrcoef(a), np.corrcoef(a[0], a[1]), np.corrcoef(a[0])),
    "histogram": lambda a: (np.histogram(a), np.histogram(a, 3), np.histogram(a, bins=7)),
    "edges": lambda a: (np.histogram(a, [0, 1, 2, 5]), np.histogram(a, np.array([0.0, 0.5, 2.0]))),
    "density": lambda a: (np.histogram(a, 4, density=True), np.histogram(a, [0, 4], density=True)),
    "digitize": lambda a: (np.digitize(a, np.array([0.0, 1, 2])), np.digitize(a, [0, 1], True)),
    "interp": lambda a: (
        np.interp(a, [0.0, 1, 2], [5.0, 1, 2]),
        np.interp(a[0], np.arange(6.0), a[1]),
        np.interp(a, [0, 2], [1, 0], left=-7, right=9.5),
    ),
    "trapezoid": lambda a: (np.trapezoid(a), np.trapezoid(a, dx=0.5, axis=0)),
    "over places": lambda a: np.trapezoid(a, a[0]),
    "polyval": lambda a: (np.polyval([1.5, 2, 3], a), np.polyval([1, 2], a), np.polyval(a[0], a)),
}  # fmt: skip


@pytest.mark.skipif(not hasattr(np, "trapezoid"), reason="NumPy 2")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name, dtype):
    a = quarters(dtype)
    if dtype is np.uint8:
        a = a % 6
    check(CAPTURED[name], a)


def test_a_range():
    check(lambda a: np.histogram(a, bins=4, range=(0, 3)), quarters(np.float64))


@pytest.mark.parametrize("size", [5, 50])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_each_element_is_counted_in_its_bin(dtype, size):
    generator = np.random.RandomState(0)
    compiled = strict_compile(lambda a: np.histogram(a, 7), backend="eager")
    for digits in (0, 0, 1, 2, 8) * 4:
        a = np.round(generator.randn(size) * 3, digits).astype(dtype)
        counts, edges = np.histogram(a, 7)
        found, at = compiled(a)
        assert found.tolist() == counts.tolist() and at.tolist() == edges.tolist()
    assert not compiled.framejit.explain().breaks


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


@pytest.mark.parametrize(
    "program",
    [
        lambda a: np.searchsorted(a[0, ::2], a[:, ::2]),
        lambda a: a[0, ::2].searchsorted(a[1, ::2], side="right"),
        lambda a: (np.searchsorted(a[0], 3.0), np.interp(a[:, ::2], a[0, ::2], a[1, ::2])),
    ],
)
def test_gaps_between_elements_give_no_warning_of_torch(program):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(program, np.arange(24.0).reshape(4, 6))


def test_a_branch_names_the_call():
    compiled = strict_compile(lambda a: a * 2 if np.allclose(a, 1) else a * 3, backend="eager")
    seen = capture_events(compiled)
    np.testing.assert_array_equal(compiled(matrix()), matrix() * 3)
    (told,) = [event.sentence for event in seen if hasattr(event, "sentence")]
    assert "`numpy.allclose()`" in told


@pytest.mark.parametrize(
    "program",
    [
        lambda a: np.cov(a, fweights=[1, 2, 3, 4]),
        lambda a: np.histogram(a, 4, weights=a),
        lambda a: np.histogram(a, "auto"),
        lambda a: np.interp(a, [0, 1], [2, 3], period=3),
        lambda a: np.array_equal(a, a.copy(), equal_nan=True),
        lambda a: np.array_equal(a, [1, 2]),
        lambda a: np.array_equal([a * 0 + 1, a * 0 + 1], 1),
        lambda a: np.polyval(a[0], 2.0),
    ],
)
def test_left_to_numpy(program):
    assert check(program, matrix(), breaks=None).breaks
