"""The inputs of a trial."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.autotune.trial import Trial


def test_bytes_count_a_stretch_once():
    base = torch.ones(16)
    assert Trial(None, [base, base[:4], base[8:], torch.ones(4)]).bytes() == 80


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_nudged_numbers_change_in_their_last_bits(dtype):
    base = torch.linspace(1, 2, 64).to(dtype)
    given = [base, base[3:7], torch.zeros(3), torch.tensor([float("inf")]), torch.arange(5), 2.0]
    given += [torch.ones(1).expand(4), base.clone().requires_grad_()]
    nudged = Trial(None, given).nudged_inputs(4)
    away = (nudged[7].detach().double() / base.double() - 1).abs() / torch.finfo(dtype).eps
    assert away.min() > 1 and away.max() < 8 and nudged[7].requires_grad
    assert not torch.equal(nudged[0], base) and torch.equal(nudged[0][3:7], nudged[1])
    for same in (2, 3, 4, 6):
        assert torch.equal(nudged[same], given[same])
    assert nudged[5] == 2.0 and torch.equal(given[0], torch.linspace(1, 2, 64).to(dtype))


@pytest.mark.parametrize(
    ("dtype", "roundings"), [(torch.float32, 64), (torch.bfloat16, 4), (torch.float16, 4)]
)
def test_only_numbers_of_32_bits_are_nudged_far(dtype, roundings):
    base = torch.linspace(1, 2, 64).to(dtype)
    (nudged,) = Trial(None, [base]).nudged_inputs(64)
    away = (nudged.double() / base.double() - 1).abs() / torch.finfo(dtype).eps
    assert away.min() > roundings / 4 and away.max() < roundings * 2
