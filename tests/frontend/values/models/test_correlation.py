"""torch.cov and torch.corrcoef: one graph, with torch's values."""

from __future__ import annotations

import pytest
import torch

from ...semantics.harness import check, strict_compile, vec

MATRIX = torch.arange(12.0).reshape(3, 4).sin()


@pytest.mark.parametrize(
    "x",
    [
        MATRIX, MATRIX.double().T, MATRIX[0], MATRIX[:1], (MATRIX * 9).long(),
        torch.complex(MATRIX, MATRIX.cos()), MATRIX * float("nan"), MATRIX[:, ::2], MATRIX.half(),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.cov(x), lambda x: x.cov(correction=0), lambda x: torch.corrcoef(x),
        lambda x: x.corrcoef() * 2, lambda x: torch.cov(x * 2, correction=-1),
    ],
)  # fmt: skip
def test_one_graph(fn, x):
    check(fn, x)


@pytest.mark.parametrize("fn", [torch.cov, torch.corrcoef])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_gradients(fn, backend):
    check(lambda x: fn(x.sin()), MATRIX.clone().requires_grad_(), backend=backend, backward=True)


@pytest.mark.parametrize("fn", [torch.cov, torch.corrcoef])
def test_sizes_that_vary(fn):
    step = strict_compile(lambda x: fn(x * 2), backend="eager")
    for length in (5, 6, 7, 9):
        x = vec(3 * length).reshape(3, length)
        torch.testing.assert_close(step(x), fn(x * 2))
    assert step.framejit.compiles == 2 and not step.framejit.explain().breaks


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.cov(x[:, :1]),  # which warns
        lambda x: torch.cov(x, fweights=torch.tensor([1, 2, 1, 1])),
        lambda x: torch.cov(x, aweights=vec(4).abs()),
        lambda x: torch.cov(x, correction=5),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_weights_and_too_few_observations_are_left_to_python(fn):
    check(fn, MATRIX, breaks=("data-dependent-value",), graphs=None)


@pytest.mark.parametrize("x", [MATRIX > 0, MATRIX[None], MATRIX.to("meta")])
def test_errors(x):
    check(lambda x: torch.cov(x), x, graphs=None, breaks=None, skipped=True)
