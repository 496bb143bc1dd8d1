"""framejit.compile of a DistributedDataParallel, in a group of one process."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.usefixtures("process_group")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, scale=1):
        return self.layer(x).relu() * scale


class Doubled(DistributedDataParallel):
    def forward(self, x):
        return super().forward(x) * 2


def test_the_module_inside_is_compiled():
    net, x = Net(), torch.randn(3, 4)
    wanted = net(x)
    parallel = DistributedDataParallel(net)
    assert framejit.compile(parallel, fullgraph=True) is parallel
    torch.testing.assert_close(parallel(x), wanted)
    torch.testing.assert_close(parallel(x, scale=2), wanted * 2)
    assert parallel.framejit is net.framejit and parallel.framejit.is_compiled
    report = parallel.framejit.explain()
    assert len(report.graphs) == 2 and not report.breaks


def test_a_class_with_its_own_forward():
    """It is compiled itself, up to the break at torch's forward."""
    net, x = Net(), torch.randn(3, 4)
    wanted = net(x) * 2
    parallel = framejit.compile(Doubled(net))
    torch.testing.assert_close(parallel(x), wanted)
    assert "framejit" not in vars(net)
    assert len(parallel.framejit.explain().graphs) == 2


def test_gradients_reach_the_reducer():
    nets = Net(), Net()
    nets[1].load_state_dict(nets[0].state_dict())
    seen = []
    calls = [DistributedDataParallel(nets[0]), framejit.compile(DistributedDataParallel(nets[1]))]

    def note(state, bucket):
        seen.append(len(bucket.parameters()))
        future = torch.futures.Future()
        future.set_result(bucket.buffer() * 3)
        return future

    x = torch.randn(3, 4)
    for call in calls:
        call.register_comm_hook(None, note)
        call(x).sum().backward()
    assert seen == [2, 2]
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_hooks_of_the_wrapper_run():
    parallel, calls = framejit.compile(DistributedDataParallel(Net())), []
    parallel.register_forward_hook(lambda *args: calls.append("after"))
    parallel.module.register_forward_pre_hook(lambda *args: calls.append("inside"))
    parallel(torch.randn(3, 4))
    assert calls == ["inside", "after"]


def test_a_copy_of_the_module_is_not_compiled():
    parallel = framejit.compile(DistributedDataParallel(Net()))
    copied = copy.deepcopy(parallel.module)
    assert parallel.framejit.is_compiled and not copied.framejit.is_compiled
