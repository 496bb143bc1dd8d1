"""The root frame of a capture."""

import framejit
import pytest
import torch


def weighted(x, weights):
    if weights is None and not torch.compiler.is_compiling():
        weights = torch.ones(x.shape[0])
    return weights[:, None] * x


def test_what_raises_only_because_it_is_compiled():
    """The program learns the truth there."""

    def f(x, weights):
        return weighted(x.sin(), weights).cos()

    compiled = framejit.compile(f, backend="eager")
    x = torch.rand(3, 2)
    for weights in (None, torch.rand(3), None):
        assert torch.equal(compiled(x, weights), f(x, weights))


def test_what_raises_in_eager_too():
    def f(x, weights):
        if torch.compiler.is_compiling():
            x = x + 0
        if weights is None:
            raise ValueError("no weights")
        return x * weights

    compiled = framejit.compile(f, backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError, match="no weights"):
            compiled(torch.ones(3), None)
    assert torch.equal(compiled(torch.ones(3), torch.ones(3)), torch.ones(3))
