"""Fake tensors are made as torch makes them."""

from __future__ import annotations

import pytest
import torch
from framejit.frontend.tracing.fake_tensors.fake_creation import make_fake
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


def described(fake):
    keys = torch._C._dispatch_keys(fake).raw_repr()
    return vars(fake), keys, fake.requires_grad, fake.is_leaf, fake.untyped_storage()._cdata


@pytest.mark.parametrize("mode", [CaptureFakeMode, FakeTensorMode])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_later_fakes_are_as_torchs(mode, device):
    made, device = mode(), torch.device(device)
    for meta in (
        torch.empty(2, 3, device="meta"),
        torch.empty(2, 3, device="meta").t(),
        torch.empty(2, device="meta", dtype=torch.complex64).conj(),
        torch.empty(2, device="meta", requires_grad=True),
    ):
        fake = make_fake(made, meta, device)
        assert described(fake) == described(FakeTensor(made, meta, device))
        if mode is CaptureFakeMode:
            with pytest.raises(RuntimeError, match="(?i)data pointer|storage"):
                fake.untyped_storage().data_ptr()


def test_facts_of_one_are_not_those_of_another():
    mode, device = CaptureFakeMode(), torch.device("cpu")
    one, other = (make_fake(mode, torch.empty(3, device="meta"), device) for _ in range(2))
    one.constant = torch.ones(3)
    assert other.constant is None
    assert make_fake(mode, torch.empty(3, device="meta"), device).constant is None
