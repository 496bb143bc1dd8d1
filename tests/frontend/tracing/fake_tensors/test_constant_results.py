"""Operators on numbers of the program that are tensors."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from torch._subclasses.fake_tensor import FakeTensorMode


def calls_of_torch(monkeypatch):
    called = []
    dispatch = FakeTensorMode.dispatch

    def count(self, func, *args):
        called.append(func)
        return dispatch(self, func, *args)

    monkeypatch.setattr(FakeTensorMode, "dispatch", count)
    return called


def test_a_calculation_with_constants_is_one(monkeypatch):
    called = calls_of_torch(monkeypatch)
    with CaptureFakeMode():
        step = torch.tensor(3.0)
        result = (1 - 0.9**step).double()
    assert not called
    assert result.constant.item() == (1 - 0.9 ** torch.tensor(3.0)).double().item()
    assert result.dtype == torch.float64


def test_a_tensor_and_a_constant_give_no_constant(monkeypatch):
    mode = CaptureFakeMode()
    x = mode.from_tensor(torch.ones(3), static_shapes=True)
    called = calls_of_torch(monkeypatch)
    with mode:
        result = x * torch.tensor(3.0)
    assert not called
    assert result.constant is None
    assert result.shape == (3,)


def test_a_constant_that_is_written_is_none_any_more():
    with CaptureFakeMode():
        step = torch.tensor(3.0)
        result = step * 2
        result.uniform_()
    assert result.constant is None
    assert step.constant.item() == 3.0


@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_a_quotient_of_numbers_as_a_size(mode):
    """Its strides are corrected for tensors; a copy of a constant would have another value."""

    def f(x):
        half = torch.div(8, 2, rounding_mode=mode)
        y = x.expand(half, 8)
        return y + y.shape[0], x.view(half, -1), x.new_zeros(half)

    compiled = framejit.compile(f, backend="eager", fullgraph=True)
    assert str(compiled(torch.ones(8))) == str(f(torch.ones(8)))
