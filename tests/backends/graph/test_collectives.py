"""Which nodes communicate, and what a graph with such nodes is split into."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.collectives import (
    CountedCollectives,
    collectives_started,
    has_collectives,
    is_collective,
    is_wait,
    may_communicate,
)
from framejit.backends.graph.higher_order_call import HigherOrderCall

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this torch has no torch.distributed"
)
functional = torch.ops._c10d_functional if torch.distributed.is_available() else None


def node_of(target, *args):
    graph = torch.fx.Graph()
    return graph.call_function(target, (graph.placeholder("x"), *args))


@pytest.mark.parametrize(
    ("operator", "collective", "wait"),
    [
        (lambda: functional.all_reduce, True, False),
        (lambda: functional.all_reduce_.default, True, False),
        (lambda: functional.wait_tensor, True, True),
        (lambda: functional.wait_tensor.default, True, True),
        (lambda: torch.ops.aten.sin, False, False),
        (lambda: torch.sin, False, False),
    ],
)
def test_operators(operator, collective, wait):
    node = node_of(operator())
    assert (is_collective(node), is_wait(node)) == (collective, wait)
    assert has_collectives([node_of(torch.sin), node]) is collective


def test_collectives_in_subgraphs():
    inner = torch.fx.Graph()
    reduced = inner.call_function(functional.all_reduce, (inner.placeholder("x"), "sum", "0"))
    inner.output(reduced)
    call = HigherOrderCall(torch.ops.higher_order.cond, (torch.fx.GraphModule({}, inner),))
    node = node_of(call)
    assert has_collectives([node]) and not is_collective(node)


def test_runs_are_counted():
    before = collectives_started()
    assert CountedCollectives(lambda x: x + 1)(1) == 2
    assert collectives_started() == before + 1


@torch.library.custom_op("framejit_tests::shift", mutates_args=())
def shift(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@shift.register_fake
def shift_fake(x):
    return torch.empty_like(x)


@pytest.fixture(params=[False, True])
def joined(request, tmp_path):
    """Whether the process has joined a group."""
    if request.param:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
        )
    yield request.param
    if request.param:
        torch.distributed.destroy_process_group()


def test_operators_of_the_program(joined):
    """In a process of a group they run as captured, between graphs."""
    graphs = []

    def keep(gm, examples):
        graphs.append(gm)
        return gm.forward

    def calculate(x):
        return shift(x.sin()).cos()

    x = torch.ones(3)
    torch.testing.assert_close(framejit.compile(calculate, backend=keep)(x), calculate(x))
    assert len(graphs) == (2 if joined else 1)
    assert may_communicate(node_of(torch.ops.framejit_tests.shift)) is joined
