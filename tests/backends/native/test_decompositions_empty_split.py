"""Splits along a dimension of size 0."""

from __future__ import annotations

import framejit
import pytest
import torch

SPLITS = {
    "one": lambda x: x.split(1),
    "two": lambda x: x.split(2, -1),
    "sizes": lambda x: x[:, :0].split([0, 0], 1),
    "chunk": lambda x: x.chunk(2, 1),
    "written": lambda x: x[:, 2:].split(1, 1)[0].add_(1),
}


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("columns", [0, 1, 2])
def test_split_of_an_empty_dimension(name, columns):
    def f(x):
        return SPLITS[name](x[:, columns:]), x * 2

    want, got = f(torch.ones(3, 2)), framejit.compile(f, backend="native")(torch.ones(3, 2))
    torch.testing.assert_close(got, want)
