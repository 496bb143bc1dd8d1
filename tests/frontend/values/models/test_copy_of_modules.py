"""copy.deepcopy of modules and tensors in a compiled function: one break at most, and copies that
nothing shares with their originals."""

from __future__ import annotations

import copy

import pytest
import torch

from ...semantics.harness import check, vec

LINEAR = torch.nn.Linear(3, 3)
NET = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.ReLU())


def a_module(x):
    made = copy.deepcopy(LINEAR)
    return made(x), made.weight is LINEAR.weight, made.weight, made.training


def a_module_with_buffers(x, net):
    made = copy.deepcopy(net)
    y = made(x)
    return y, net[1].num_batches_tracked, made[1].num_batches_tracked, made[1].running_mean


def a_tensor(x):
    made = copy.deepcopy(x)
    made.add_(1)
    return x, made


def an_intermediate(x):
    y = x * 2
    made = copy.deepcopy(y)
    made.add_(1)
    return y, made


def a_parameter(x):
    made = copy.deepcopy(LINEAR.weight)
    return x @ made, type(made).__name__, made.requires_grad, made.is_leaf, made is LINEAR.weight


def one_tensor_twice(x):
    made = copy.deepcopy({"a": x, "b": [x, x[0]]})
    made["a"].add_(1)
    return made, made["a"] is made["b"][0], x


def a_view(x):
    made = copy.deepcopy(x.t())
    return made, made.stride()


def a_shallow_copy(x):
    made, module = copy.copy(x), copy.copy(LINEAR)
    made.add_(1)
    return x, made, made is x, module(x), module.weight is LINEAR.weight


def a_module_changed_before(x, net):
    net[0].extra = 3
    made = copy.deepcopy(net)
    net[0].extra = 4
    return made[0].extra, made(x)


CASES = [
    (a_module, (), 1), (a_module_with_buffers, (NET,), 1), (a_tensor, (), 1), (an_intermediate, (), 1), (a_parameter, (), 1),
    (one_tensor_twice, (), 1), (a_view, (), 1), (a_shallow_copy, (), 2), (a_module_changed_before, (NET,), 1),
]  # fmt: skip


@pytest.mark.parametrize(("f", "more", "breaks"), CASES, ids=[f.__name__ for f, _, _ in CASES])
def test_one_break_at_most(f, more, breaks):
    check(f, vec(2, 3), *more, graphs=None, breaks=("unknown-call",) * breaks)


NORM_FIRST = torch.nn.Sequential(
    torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3), torch.nn.ReLU()
)  # no gradient is all rounding


def test_the_copy_trains_by_itself():
    def f(x, net):
        made = copy.deepcopy(net)
        (made(x).sum() + net(x).sum() * 2).backward()
        return [p.grad for p in made.parameters()], [p.grad for p in net.parameters()]

    check(f, vec(2, 3), NORM_FIRST, graphs=None, breaks=None)
