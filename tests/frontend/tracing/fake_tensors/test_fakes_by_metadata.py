"""Fakes that are made from metadata, beside those that torch makes."""

import framejit
import pytest
import torch
from framejit.frontend.tracing.fake_tensors import fakes_by_metadata
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from framejit.frontend.tracing.fake_tensors.fakes_by_metadata import key_of_tensor


def parameter(*sizes, **settings):
    return torch.nn.Parameter(torch.ones(*sizes), **settings)


def with_gradient(gradient):
    made = parameter(2)
    made.grad = gradient
    return made


def with_attribute():
    made = parameter(2)
    made.sharded = True
    return made


@pytest.fixture(autouse=True)
def no_kinds(monkeypatch):
    monkeypatch.setattr(fakes_by_metadata, "_kinds", set())


@pytest.mark.parametrize(
    "make",
    [
        lambda: parameter(2, 3),
        lambda: parameter(2, 3, requires_grad=False),
        lambda: parameter(0, 3),
        lambda: parameter(()),
        lambda: torch.nn.Parameter(torch.ones(2, dtype=torch.complex64)),
        lambda: torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)),
        lambda: torch.ones(2, 3),
        lambda: torch.arange(3),
        lambda: torch.tensor(1.0),
        lambda: torch.ones(2, requires_grad=True),
        lambda: with_gradient(torch.ones(2)),
    ],
)
def test_the_second_of_a_kind_has_the_properties_of_the_first(make):
    mode = CaptureFakeMode()
    first = mode.from_tensor(make(), static_shapes=True)
    second_real = make()
    second = mode.from_tensor(second_real, static_shapes=True)
    assert fakes_by_metadata._kinds
    if second_real.grad is not None:
        gradient = mode.from_tensor(second_real.grad, static_shapes=True)
        assert second.grad is gradient is not first.grad
        first.grad = gradient
    assert fakes_by_metadata.properties_of(first) == fakes_by_metadata.properties_of(second)
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata
    assert mode.from_tensor(second_real, static_shapes=True) is second
    view = mode.from_tensor(second_real.detach()[:1] if second.dim() else second_real.detach())
    assert view.untyped_storage()._cdata == second.untyped_storage()._cdata


@pytest.mark.parametrize(
    "make",
    [
        with_attribute,
        lambda: with_gradient(torch.ones(4)[:2]),
        lambda: torch.ones(2, requires_grad=True) * 2,
        lambda: torch.ones(3, dtype=torch.complex64).conj(),
        lambda: torch.ones(3).expand(2, 3),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        lambda: torch.nn.Parameter(torch.ones(4)[1:3]),
        lambda: torch.nn.Parameter(torch.ones(3, 2).t()),
        lambda: torch.nn.Parameter(torch.ones(4)[:2]),
        lambda: torch.nn.Parameter(torch.eye(2).to_sparse()),
        lambda: torch.nn.Buffer(torch.ones(2)),
    ],
)
def test_others_are_left_to_torch(make):
    assert key_of_tensor(make()) is None


def test_parameters_on_one_memory_have_fakes_on_one_memory():
    mode, memory = CaptureFakeMode(), torch.ones(2)
    mode.from_tensor(parameter(2), static_shapes=True)
    one, other = (
        mode.from_tensor(torch.nn.Parameter(memory), static_shapes=True) for _ in range(2)
    )
    assert one is not other and one.untyped_storage()._cdata == other.untyped_storage()._cdata


def test_a_gradient_on_the_memory_of_its_tensor():
    def shared():
        made = torch.ones(2, requires_grad=True)
        made.grad = made.detach()
        return made

    mode = CaptureFakeMode()
    mode.from_tensor(shared(), static_shapes=True)
    fake = mode.from_tensor(shared(), static_shapes=True)
    assert fakes_by_metadata._kinds
    assert fake.untyped_storage()._cdata == fake.grad.untyped_storage()._cdata


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_blocks_of_equal_parameters(backend):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    model[2].weight = model[0].weight  # tied
    x = torch.randn(3, 4)
    model(x).sum().backward()
    expected = [item.grad.clone() for item in model.parameters()]
    model.zero_grad()
    framejit.compile(model, backend=backend)(x).sum().backward()
    for item, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(item.grad, grad)
