"""Arrays that run backwards: captured, with NumPy's values, strides and memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ...semantics.harness import strict_compile
from .test_array import check, matrix


def picture():
    return (np.arange(60).reshape(5, 4, 3) * 4).astype(np.uint8)


def discounted(a):
    return np.cumsum((a * 0.9)[::-1], axis=0)[::-1].copy()


def written_later(a):
    backwards = a[::-1]
    a[0] = 5
    return backwards * 2


def mirrored_in_place(a):
    a[:] = a[:, ::-1]
    a += a[::-1]
    return a


def of_rows(a):
    total = 0
    for row in a[::-1]:
        total = total * 0.5 + row
    return total


def facts(a):
    b = a[::-1, ::2]
    return b.shape, b.strides, len(b), b.dtype, b.ndim, b.size, isinstance(b, np.ndarray)


CAPTURED = {
    "returned": lambda a: a[::-1],
    "a result": lambda a: (a * 2)[:, ::-1],
    "steps": lambda a: (a[::-2] * 2, a[2:0:-1], a[1::-1] + 1),
    "both ways": lambda a: a[::-1, ::-1].sum(axis=0),
    "operands": lambda a: a[::-1] + a - a[:, ::-1],
    "unary": lambda a: (-a[::-1], abs(a[::-1]), np.sqrt(a[::-1])),
    "compared": lambda a: (a == a[::-1], bool((a == a[::-1]).all())),
    "methods": lambda a: (a[::-1].sum(), a[::-1].max(axis=0), a[:, ::-1].mean(axis=1)),
    "new order": lambda a: (a[::-1].astype(np.float32), a[::-1].copy(), a[:, ::-1].ravel()),
    "np.array": lambda a: (np.array(a[:, ::-1]), np.ascontiguousarray(a[::-1])),
    "of Fortran": lambda a: (np.array(a.T[:, ::-1]), a.T[::-1] * 2),
    "slices of it": lambda a: (a[::-1][1:], a[::-1][::2] * 2, a[::-1, 1:3], a[::-1][:, ::-1]),
    "forwards again": lambda a: (a[::-1][::-1], a[::-1][2::-2]),
    "elements": lambda a: (a[::-1][0], a[::-1][-1, 2], a[::-1, ::-1][1]),
    "new dimensions": lambda a: a[..., None, ::-1] * 2,
    "indices": lambda a: a[::-1][np.array([0, 2])],
    "a mask": lambda a: a[::-1][a > 3],
    "lists": lambda a: (np.concatenate([a, a[::-1]]), np.stack((a[:, ::-1], a))),
    "products": lambda a: (a[::-1] @ a.T, np.dot(a, a.T[::-1]), np.convolve(a[0], a[1][::-1])),
    "out": lambda a: np.add(a[::-1], 1, out=a),
    "in lists": lambda a: [a[::-1]] + [a * 2, a[::-1] * 2],
    "transposed": lambda a: (a[::-1].T, a[::-1].transpose() * 2, a[::-1].transpose(1, 0)),
    "flip": lambda a: (np.flip(a), np.flip(a, 1) * 2, np.flip(a, axis=(0, -1)), np.flipud(a)),
    "fliplr": lambda a: np.fliplr(a) * 2,
    "sorted": lambda a: (np.sort(a, axis=1)[:, ::-1], a[0][np.argsort(a[0])[::-1][:2]]),
    "to a tensor": lambda a: torch.from_numpy(a[::-1].copy()) * 2,
    "discounted": discounted, "written later": written_later, "of rows": of_rows, "facts": facts,
    "mirrored in place": mirrored_in_place,
}  # fmt: skip


@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name):
    check(CAPTURED[name], matrix())


@pytest.mark.parametrize(
    "program",
    [
        lambda a: a[..., ::-1],
        lambda a: a[..., ::-1] / 255.0,
        lambda a: np.ascontiguousarray(a[:, :, ::-1].transpose(2, 0, 1)),
        lambda a: np.flip(a, (0, 2))[1:3],
    ],
)
def test_pictures(program):
    check(program, picture())


def test_sizes_that_vary():
    compiled = strict_compile(lambda a: a[::-1] * 2 + np.flip(a))
    for length in (4, 5, 6, 8):
        a = np.arange(length) + 0.5
        np.testing.assert_array_equal(compiled(a), a[::-1] * 3)
    assert compiled.framejit.compiles == 2 and not compiled.framejit.explain().breaks


def stores(a):
    backwards = a[::-1]
    backwards[0] = 5
    return backwards


def adds(a):
    backwards = a[::-1]
    backwards += 1
    return a


LEFT = {
    "stores": stores,
    "adds": adds,
    "out": lambda a: (np.add(a, 1, out=a[::-1]), a),
    "a key": lambda a: a.__setitem__(slice(None, None, -1), a + 1),
    "reshaped": lambda a: a[0][::-1].reshape(2, 2),
    "itself": lambda a: np.asarray(a[::-1]),
    "a list": lambda a: np.flip([a * 2, a]),
    "no elements": lambda a: a[2:2:-1],
}


@pytest.mark.parametrize("name", LEFT)
def test_left_to_numpy(name):
    assert check(LEFT[name], matrix(), breaks=None).breaks


@pytest.mark.parametrize(
    "program",
    [
        lambda a: a[::-1][9],
        lambda a: a[::-1, ::-1, ::-1],
        lambda a: np.flip(a, 3),
        lambda a: np.fliplr(a[0]),
        lambda a: torch.from_numpy(a[::-1]),
        lambda a: torch.tensor(a[::-1]),
    ],
)
def test_errors(program):
    compiled = strict_compile(program)
    for _ in range(2):
        with pytest.raises(Exception) as expected:  # noqa: PT011 - compared below
            program(matrix())
        with pytest.raises(type(expected.value)) as found:
            compiled(matrix())
        assert str(found.value) == str(expected.value)
