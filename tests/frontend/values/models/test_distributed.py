"""torch.distributed in a group of one process: what is in the graph, and what is left to Python."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.errors import FramejitWarning

dist = torch.distributed
pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo"
)


@pytest.fixture(autouse=True)
def alone(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def started():
    return dist.group.WORLD._get_sequence_number_for_group()


def plain(x):
    dist.all_reduce(x)
    return x + 1


def complex_numbers(x):
    y = torch.complex(x, x)
    dist.all_reduce(y)
    return y.real + y.imag


def other_layout(x):
    y = (x * 2).t()
    dist.all_reduce(y)
    return y + 1


def many(x):
    dist.all_reduce_coalesced([x])
    return x + 1


def group_given(x):
    dist.all_reduce(x, group=dist.group.WORLD)
    return x + dist.get_rank(dist.group.WORLD)


def result_asked(x):
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    return x + work.is_success()


def barrier(x):
    y = x.sin()
    dist.barrier()
    return y.cos()


@pytest.mark.parametrize(
    ("function", "breaks"),
    [
        (plain, False),
        (group_given, False),
        (complex_numbers, True),
        (other_layout, True),
        (many, True),
        (result_asked, True),
        (barrier, True),
    ],
)
def test_functions(function, breaks):
    handle = framejit.compile(function)
    for _ in range(2):
        x = torch.randn(4, 4)
        before = started()
        wanted = function(x.clone())
        between = started()
        got = handle(x.clone())
        torch.testing.assert_close(got, wanted)
        assert started() - between == between - before
    assert bool(handle.framejit.explain().breaks) is breaks


def test_capture_runs_no_collective():
    """Neither on the constant that it knows, nor to find out whether torch has a kernel."""

    def count(x):
        rows = torch.tensor(x.shape[0])
        dist.all_reduce(rows)
        wide = (x * 10).to(torch.int64)
        dist.all_reduce(wide)
        return x / rows + wide

    before = started()
    framejit.export(count, torch.randn(4))
    assert started() == before


@pytest.mark.parametrize("fails", ["before", "behind"])
def test_a_backend_that_fails(fails):
    """Its subgraph runs as captured; the collective runs once a call."""

    def failing(gm, examples):
        def run(*args):
            behind = any("cos" in str(node.target) for node in gm.graph.nodes)
            if behind == (fails == "behind"):
                raise ArithmeticError("no such kernel")
            return gm.forward(*args)

        return run

    def call(x):
        y = x.sin()
        dist.all_reduce(y)
        return y.cos()

    handle, x = framejit.compile(call, backend=failing), torch.randn(4)
    before = started()
    with pytest.warns(FramejitWarning, match="no such kernel"):
        got = handle(x)
    assert started() == before + 1
    torch.testing.assert_close(got, call(x))
    torch.testing.assert_close(handle(x), call(x))


def test_a_new_group_is_another(tmp_path):
    handle, x = framejit.compile(plain), torch.ones(3)
    handle(x.clone())
    dist.destroy_process_group()
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/new", rank=0, world_size=1)
    torch.testing.assert_close(handle(x.clone()), plain(x.clone()))
    assert handle.framejit.compiles == 2


def test_without_a_group(tmp_path):
    def call(x):
        if dist.is_initialized():
            x = x * dist.get_world_size()
        return x + 1

    handle, x = framejit.compile(call), torch.ones(3)
    for _ in range(2):
        torch.testing.assert_close(handle(x), call(x))
        dist.destroy_process_group()
        torch.testing.assert_close(handle(x), call(x))
        dist.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/again{_}", rank=0, world_size=1
        )
    assert not handle.framejit.explain().breaks
