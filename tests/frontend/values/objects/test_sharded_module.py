"""Calls of modules of fully_shard, in a group of one process."""

from __future__ import annotations

import sys

import framejit
import pytest
import torch
from framejit.frontend.values.objects.sharded_module import is_sharded
from torch import nn

fsdp = pytest.importorskip("torch.distributed.fsdp")


@pytest.fixture
def mesh(process_group):
    return torch.distributed.device_mesh.init_device_mesh("cpu", (1,))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.layer(x).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sin()


def sharded(mesh, **options):
    torch.manual_seed(0)
    net = Net()
    for block in net.blocks:
        fsdp.fully_shard(block, mesh=mesh)
    return fsdp.fully_shard(net, mesh=mesh)


def test_which_modules_are_sharded(mesh, monkeypatch):
    assert is_sharded(type(sharded(mesh))) and not is_sharded(Net)
    monkeypatch.delitem(sys.modules, "torch.distributed.fsdp")
    assert not is_sharded(Net)


def test_blocks_share_what_is_compiled(mesh):
    plain, net = sharded(mesh), sharded(mesh)
    framejit.compile(net, backend="native")
    for _ in range(3):
        x = torch.randn(2, 4)
        wanted, got = plain(x), net(x)
        torch.testing.assert_close(got, wanted)
        wanted.sum().backward()
        got.sum().backward()
        for one, other in zip(net.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(one.grad.to_local(), other.grad.to_local())
    names = [capture.function for capture in net.framejit.explain().captures]
    assert names.count("Block.forward") <= 2 and names.count("Net.forward") <= 3


def test_a_sharded_module_in_a_function(mesh):
    net, plain = sharded(mesh), sharded(mesh)

    @framejit.compile(backend="eager")
    def step(x):
        return net(x.cos()) * 2

    x = torch.randn(2, 4)
    torch.testing.assert_close(step(x), plain(x.cos()) * 2)
    assert any("fully_shard" in one.reason for one in step.framejit.explain().breaks)
