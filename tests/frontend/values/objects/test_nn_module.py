"""Modules whose class has a __setattr__ of its own, which calls torch's."""

from __future__ import annotations

import copy

import framejit
import torch


class Counting(torch.nn.Module):
    """As a metric of torchmetrics: some names are refused, the others are torch's."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.register_buffer("total", torch.zeros(3))
        self.calls, self.last = 0, None

    def __setattr__(self, name, value):
        if name == "refused":
            raise RuntimeError(name)
        super().__setattr__(name, value)

    def forward(self, x):
        for _ in range(20):
            self.calls = self.calls + 1
            self.total = self.total + x.sum(0)
        self.last = self.layer(x)
        return self.last * 2


def test_torchs_setattr_is_not_interpreted():
    x, plain = torch.ones(2, 3), Counting()
    module = copy.deepcopy(plain)
    with framejit.config.patch(trace_budget=1800):
        compiled = framejit.compile(module, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(x), plain(x))
        assert torch.equal(module.total, plain.total)
        assert (module.calls, "last" in vars(module)) == (plain.calls, True)
    assert not compiled.framejit.explain().breaks


class Replacing(Counting):
    def forward(self, x):
        y = self.layer(x)
        self.layer = torch.nn.Identity()
        self.weight = torch.nn.Parameter(y.detach())
        return self.layer(y)


def test_what_it_registers_is_registered():
    x, plain = torch.ones(2, 3), Replacing()
    module = copy.deepcopy(plain)
    compiled = framejit.compile(module, backend="eager")
    assert torch.equal(compiled(x), plain(x))
    assert [name for name, _ in module.named_modules()] == ["", "layer"]
    assert [name for name, _ in module.named_parameters()] == ["weight"]
    assert torch.equal(compiled(x), plain(x))
