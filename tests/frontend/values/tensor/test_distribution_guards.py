"""Guards of DTensors: what has to be compiled again, and that no Python runs for them."""

from __future__ import annotations

import pytest
import torch
from framejit.guards.guard import Kind
from framejit.guards.native import layout
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from ...semantics.harness import strict_compile

pytestmark = pytest.mark.usefixtures("process_group")


def parameter(placement):
    mesh = init_device_mesh("cpu", (1,))
    return nn.Parameter(distribute_tensor(torch.ones(4, 4), mesh, [placement]))


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = parameter(Shard(0))

    def forward(self, x):
        return x + self.weight.to_local()


def put_other_placements(holder):
    holder.weight = parameter(Replicate())


def put_other_spec(holder):
    holder.weight._spec = parameter(Replicate())._spec


def change_spec(holder):
    spec = holder.weight._spec
    spec.placements, spec.shard_order = (Replicate(),), ()


def change_requires_grad(holder):
    holder.weight.requires_grad_(False)


def put_other_local_tensor(holder):
    holder.weight._local_tensor = torch.ones(4, 4, dtype=torch.float64)


def put_no_parameter(holder):
    tensor = holder.weight.detach().requires_grad_()
    holder._parameters["weight"] = tensor


def put_equal_parameter(holder):
    holder.weight = parameter(Shard(0))


def keep(holder):
    pass


@pytest.mark.parametrize("change", [
    put_other_placements, put_other_spec, change_spec, change_requires_grad, put_other_local_tensor, put_no_parameter,
])  # fmt: skip
def test_a_change_is_compiled_again(change):
    assert captures_with(change) == 2


@pytest.mark.parametrize("change", [keep, put_equal_parameter])
def test_an_equal_parameter_is_not(change):
    assert captures_with(change) == 1


def captures_with(change):
    holder = Holder()
    handle = strict_compile(holder.forward)
    x = torch.ones(4, 4)
    handle(x)
    change(holder)
    assert torch.equal(handle(x), holder.forward(x))
    return len(handle.framejit.explain().captures)


@pytest.mark.parametrize("place", [Replicate(), Shard(0), Shard(1)], ids=str)
def test_sizes_that_vary_are_those_of_the_spec(place):
    handle = strict_compile(torch.sin)

    def compiles(size, told):
        mesh = init_device_mesh("cpu", (1,))
        tensor = distribute_tensor(torch.ones(size, 4), mesh, [place])
        tensor._spec.tensor_meta = tensor._spec.tensor_meta._replace(**told)
        handle(tensor)
        return handle.framejit.compiles

    same = [compiles(size, {}) for size in (4, 6, 8, 10)]
    assert same == [1, 2, 2, 2]
    assert compiles(8, {"shape": torch.Size((9, 4))}) == 3
    assert compiles(8, {"stride": (5, 1)}) == 4
    assert compiles(8, {"dtype": torch.float64}) == 5
    assert compiles(14, {}) == 5


@pytest.mark.parametrize("size", [(2, 0, 3), (1, 3)], ids=str)
def test_strides_that_do_not_follow_from_sizes(size):
    mesh = init_device_mesh("cpu", (1,))
    part = torch.ones(size)
    part = part if 0 in size else part.as_strided(size, (7, 1))
    tensor = DTensor.from_local(part, mesh, [Replicate()])
    made = strict_compile(torch.sin, dynamic=True)(tensor)
    assert torch.equal(made.to_local(), tensor.sin().to_local())
    assert made.stride() == tensor.sin().stride()


def test_no_python_runs():
    holder = Holder()
    handle = strict_compile(holder.forward)
    handle(torch.ones(4, 4))
    (entry,) = handle.framejit.cache.root.entries
    assert not [guard for guard in entry.data.guards if guard.kind is Kind.PYTHON]
    assert layout.level() == "python" or "check python" not in str(entry.data)
