"""Pooling over everything, of sizes that vary."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree

POOLS = {
    "a sequence": lambda x: F.max_pool1d(x, x.size(2)),
    "a sequence, behind a convolution": lambda x: F.max_pool1d(
        F.conv1d(x, torch.ones(5, 4, 3)).relu(), kernel_size=x.shape[-1] - 2
    ).squeeze(2),
    "an image": lambda x: F.max_pool2d(x[:, None], (x.shape[1], x.shape[2])),
    "an image, by its shape": lambda x: F.max_pool2d(x[None], x.shape[1:]),
    "with a stride": lambda x: F.max_pool1d(x, x.size(2), 1),
    "transposed": lambda x: F.max_pool1d(x.transpose(1, 2), x.size(1)),
    "a half": lambda x: F.max_pool1d(x, x.size(2) // 2),
}
ONE_GRAPH = [name for name in POOLS if name.startswith("a") and name != "a half"]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", POOLS)
def test_a_window_of_the_whole_size(name, backend):
    pool = POOLS[name]
    compiled = framejit.compile(pool, backend=backend)
    for length in (6, 8, 11):
        x = torch.randn(3, 4, length).round()  # has equal elements
        x[0, 1, 2] = torch.nan
        mine, its = x.clone().requires_grad_(), x.clone().requires_grad_()
        got, expected = compiled(mine), pool(its)
        assert torch.equal(got.nan_to_num(9.0), expected.nan_to_num(9.0))
        assert got.stride() == expected.stride()
        got.nan_to_num().sum().backward()
        expected.nan_to_num().sum().backward()
        torch.testing.assert_close(mine.grad, its.grad)
        with torch.no_grad():
            assert compiled(x).stride() == pool(x).stride()
    if name in ONE_GRAPH:
        assert compiled.framejit.compiles <= 4  # 6 where each length is compiled


LAYOUTS = {
    "without indices": lambda x: F.max_pool1d(x.transpose(1, 2), 2),
    "torch's": lambda x: torch.max_pool1d(x.transpose(1, 2), 2),
    "a module": lambda x: torch.nn.MaxPool1d(2)(x.transpose(1, 2)) + 1,
    "with indices": lambda x: F.max_pool1d(x.transpose(1, 2), 2, return_indices=True),
    "what a program sees": lambda x: x * F.max_pool1d(x.transpose(1, 2), 2).is_contiguous(),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_results_of_transposed_sequences_without_gradients(name, backend):
    """torch takes another kernel than with gradients."""
    pool = LAYOUTS[name]
    compiled = framejit.compile(pool, backend=backend)
    for length in (6, 8, 10):
        x = torch.randn(3, length, 4)
        for given in (x, x.clone().requires_grad_()):
            got, expected = compiled(given), pool(given)
            torch.testing.assert_close(got, expected)
            for mine, yours in zip(pytree.tree_leaves(got), pytree.tree_leaves(expected)):
                assert mine.stride() == yours.stride()
