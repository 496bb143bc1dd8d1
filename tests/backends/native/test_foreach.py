"""Operators on lists of tensors: compiled one tensor at a time."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native import foreach

SIZES = ((3,), (2, 4), ())


def tensors(seed):
    made = torch.Generator().manual_seed(seed)
    return [torch.rand(size, generator=made) * 0.8 + 0.1 for size in SIZES]


def arguments(operator):
    """Arguments of an overload: lists of tensors and of numbers, a tensor, numbers."""
    given = []
    for number, argument in enumerate(operator._schema.arguments):
        kind = str(argument.type)
        if argument.kwarg_only:
            continue
        if kind == "List[Tensor]":
            given.append(tensors(number))
        elif kind.startswith("List"):
            given.append([0.5, 1.5, 2.0])
        else:
            given.append(torch.tensor(0.5) if kind == "Tensor" else 0.5)
    return given


OPERATORS = {str(operator): operator for operator in foreach.decompositions_of_lists()}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.sweep(2)
def test_an_overload(name):
    operator = OPERATORS[name]
    given = arguments(operator)
    compiled = framejit.compile(lambda *args: operator(*args), backend="native")
    torch.testing.assert_close(compiled(*given), operator(*given), rtol=1e-5, atol=1e-6)
    assert "_foreach_" not in compiled.framejit.explain().details().partition("capture 1")[0]


def test_alpha_is_passed_on():
    def f(ones, others):
        return torch._foreach_add(ones, others, alpha=3)

    given = tensors(0), tensors(1)
    torch.testing.assert_close(framejit.compile(f, backend="native")(*given), f(*given))


@pytest.mark.parametrize("cls", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_an_optimizer_with_lists_is_compiled(cls):
    def train(compile):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = cls(model.parameters(), 0.01, foreach=True)
        model(torch.ones(2, 4)).square().sum().backward()
        step = compile(lambda: optimizer.step())
        for _ in range(4):
            step()
        return [parameter.detach() for parameter in model.parameters()], step

    wanted, _ = train(lambda f: f)
    got, step = train(lambda f: framejit.compile(f, backend="native"))
    torch.testing.assert_close(got, wanted)
    details = step.framejit.explain().details()
    assert "compiled" in details and "_foreach_" not in details.partition("capture 1")[0]
