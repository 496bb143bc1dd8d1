"""Operators traced with their backward passes."""

import framejit
import pytest
import torch


def mask_of_chance(x):
    mask = torch.bernoulli(x[0], p=0.5)
    return torch.where(mask == 1, x, 0) * 2


def product_with_chance(x):
    return x * torch.bernoulli(x[0], p=0.5)


def outcome(run):
    torch.manual_seed(0)
    x = torch.rand(4, 5, requires_grad=True)
    try:
        result = run(x)
        result.sum().backward()
    except RuntimeError as error:
        return str(error)
    return result.tolist(), x.grad.tolist()


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", [mask_of_chance, product_with_chance])
def test_an_operator_without_a_derivative(program, backend):
    """Its result may be used where no gradient flows; else the backward pass raises."""
    with framejit.config.patch(suppress_errors=False):
        compiled = framejit.compile(program, backend=backend)
    assert outcome(compiled) == outcome(program)
