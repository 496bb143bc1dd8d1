"""Where the wait for a collective is moved."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.graph.passes.late_waits import delay_waits
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this torch has no torch.distributed"
)
functional = torch.ops._c10d_functional if torch.distributed.is_available() else None


class Program:
    """A graph under construction, with fake results."""

    def __init__(self):
        self.graph, self.mode = torch.fx.Graph(), FakeTensorMode()

    def input(self, name):
        node = self.graph.placeholder(name)
        with self.mode:
            node.meta["example_value"] = torch.empty(4)
        return node

    def call(self, target, *args, **kwargs):
        node = self.graph.call_function(target, args, kwargs)
        fakes = torch.fx.map_arg(args, lambda one: one.meta["example_value"])
        named = torch.fx.map_arg(kwargs, lambda one: one.meta["example_value"])
        if target is not functional.wait_tensor:
            with self.mode:
                node.meta["example_value"] = target(*fakes, **named)
        return node

    def wait(self, node):
        return self.call(functional.wait_tensor, node)

    def order(self, *results):
        self.graph.output(results)
        delay_waits(self.graph)
        self.graph.lint()
        calls = [node for node in self.graph.nodes if node.op == "call_function"]
        return [getattr(node.target, "__name__", "").rstrip("_") for node in calls]


def independent(p, x):
    y = p.call(functional.all_reduce, x, "sum", "0")
    p.wait(y)
    z = p.call(torch.sin, x)
    return p.call(torch.add, y, z)


def used_at_once(p, x):
    y = p.call(functional.all_reduce, x, "sum", "0")
    p.wait(y)
    z = p.call(torch.sin, y)
    return p.call(torch.cos, z)


def view_used(p, x):
    y = p.call(functional.all_reduce, x, "sum", "0")
    part = p.call(torch.narrow, y, 0, 0, 2)
    p.wait(y)
    z = p.call(torch.sin, part)
    return p.call(torch.cos, z)


def unused(p, x):
    p.wait(p.call(functional.all_reduce, x, "sum", "0"))
    return p.call(torch.sin, x)


def source_written(p, x):
    y = p.call(torch.mul, x, 2)
    gathered = p.call(functional.all_gather_into_tensor, y, 2, "0")
    p.wait(gathered)
    z = p.call(torch.sin, x)
    p.call(torch.add, y, 1, out=y)
    p.call(torch.cos, z)
    return gathered


def in_place(p, x):
    y = p.call(torch.mul, x, 2)
    p.call(functional.all_reduce_, y, "sum", "0")
    p.wait(y)
    z = p.call(torch.sin, x)
    return p.call(torch.add, y, z)


def input_in_place(p, x):
    p.call(functional.all_reduce_, x, "sum", "0")
    p.wait(x)
    return p.call(torch.sin, p.other)


def two(p, x):
    one = p.call(functional.all_reduce, x, "sum", "0")
    p.wait(one)
    other = p.call(functional.all_reduce, x, "max", "0")
    p.wait(other)
    z = p.call(torch.sin, other)
    return p.call(torch.add, one, z)


@pytest.mark.parametrize(
    ("program", "order"),
    [
        (independent, "all_reduce sin wait_tensor add"),
        (used_at_once, "all_reduce wait_tensor sin cos"),
        (view_used, "all_reduce narrow wait_tensor sin cos"),
        (unused, "all_reduce sin wait_tensor"),
        (source_written, "mul all_gather_into_tensor sin wait_tensor add cos"),
        (in_place, "mul all_reduce sin wait_tensor add"),
        (input_in_place, "all_reduce wait_tensor sin"),
        (two, "all_reduce all_reduce wait_tensor sin wait_tensor add"),
    ],
)
def test_order(program, order):
    p = Program()
    x, p.other = p.input("x"), p.input("other")
    assert p.order(program(p, x)) == order.split()
