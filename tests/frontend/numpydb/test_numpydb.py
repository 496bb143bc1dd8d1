"""A slice of NumPy's functions, compiled against NumPy. sweep.py runs more calls of each."""

from __future__ import annotations

import pytest

from ..semantics.harness import strict_compile
from . import sweep

DTYPES = ("float64", "float32", "int64", "complex128", "bool")
EVERYTHING = sweep.everything_but_undefined()
# Two dtypes a function; the next one gets others.
CASES = [
    (name, DTYPES[(number + step) % len(DTYPES)])
    for number, name in enumerate(EVERYTHING)
    for step in (0, 2)
]


@pytest.mark.sweep(5, each=("dtype",))
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_function(name, dtype):
    """Equal to NumPy, or left to it."""
    count = sweep.Count()
    sweep.measure(name, EVERYTHING[name], dtype, 3, count, strict_compile)
    assert count.different == []


@pytest.mark.parametrize("name", ["sin", "add", "sum", "matmul", "concatenate", "linalg.inv", "array.reshape", "array floordiv"])  # fmt: skip
@pytest.mark.sweep(2)
def test_native(name):
    count = sweep.Count()
    sweep.measure(name, EVERYTHING[name], "float64", 8, count, strict_compile, "native")
    assert count.different == []
    assert count.captured[name]
