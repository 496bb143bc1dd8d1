"""Long rows in chunks: the same numbers as in one, and only where that helps."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native import backend as native
from framejit.backends.native.fuse import split
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.ir.program import Program, writes

from .. import kernels
from ..evaluate import evaluate

CASES = {
    name: case for name, case in kernels.all_cases().items() if case.kernel.inner and not case.sizes
}


@pytest.fixture
def short(monkeypatch):
    """Rows of a few elements count as long."""
    monkeypatch.setattr(split, "MIN_ROW", {"cpu": 4})
    monkeypatch.setattr(split, "MIN_CHUNK", 2)


def test_each_reduction_in_chunks(short):
    split_ones = set()
    for name, case in CASES.items():
        program = Program(dict(case.buffers), [], [], [])
        steps = split.split_kernel(program, simplify(case.kernel), {"cpu": 64})
        want, got = (
            {buffer: tensor.clone() for buffer, tensor in case.memory.items()} for _ in range(2)
        )
        evaluate(case.kernel, want, {})
        for step in steps:
            for buffer in writes(step):
                found = program.buffers[buffer]
                got.setdefault(
                    buffer,
                    torch.zeros([size.value for size in found.size], dtype=found.dtype).flatten(),
                )
            evaluate(step, got, {})
        for buffer in case.memory:
            assert kernels.told_difference(name, got[buffer], want[buffer]) is None
        if len(steps) > 1:
            split_ones.add(name.split("-")[0])
    assert split_ones == {
        "sum",
        "prod",
        "max",
        "min",
        "any",
        "running mean",
    }  # not argmax, which needs places, and not softmax, which needs whole rows


def test_several_reductions_and_loops(short, monkeypatch, reports):
    monkeypatch.setattr(native, "processors", lambda: {"cpu": 16})
    x = torch.randn(6, 32, 20, generator=torch.Generator().manual_seed(0))

    def f(x):
        return x.sum((0, 1)), (x * x).amax((0, 1)) + 1, x.mean(), torch.softmax(x, 1)

    torch.testing.assert_close(framejit.compile(f, backend="native")(x), f(x))
    assert (
        reports[0].host.count("in chunks") == 2
    )  # the first two are one kernel; softmax needs its rows whole


def test_short_rows_and_many_rows_stay_whole(reports):
    x = torch.randn(64, 100)
    framejit.compile(lambda x: (x.exp().sum(1), x.sum(0)), backend="native")(x)
    assert "in chunks" not in reports[0].host


@pytest.mark.parametrize("shape", [(64, 12), (3, 40, 70), (240, 1)])
def test_elements_are_stored_by_the_chunks(shape, short, monkeypatch, reports):
    """A gradient and its sum over rows, for a bias, are one kernel for all processors."""
    monkeypatch.setattr(native, "processors", lambda: {"cpu": 4})
    x, tangent = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).unbind()

    def f(x, tangent):
        gradient = torch.where(x > 0, tangent, 0)
        return gradient, gradient.flatten(0, -2).sum(0), gradient.flatten(0, -2).sum(0) * 2

    compiled = framejit.compile(f, backend="native")
    torch.testing.assert_close(compiled(x, tangent), f(x, tangent))
    assert reports[0].host.count("in chunks") == 1, reports[0].host


def test_elements_that_need_the_result_are_not(short, monkeypatch, reports):
    monkeypatch.setattr(native, "processors", lambda: {"cpu": 4})
    x = torch.randn(64, 12)
    compiled = framejit.compile(lambda x: x - x.sum(0), backend="native")
    torch.testing.assert_close(compiled(x), x - x.sum(0))
    assert "in chunks" not in reports[0].host


@pytest.mark.parametrize(("with_elements", "chunks"), [(True, 128), (False, 16)])
def test_sums_over_columns_on_a_gpu_are_split_into_more_chunks_where_elements_are_stored(
    with_elements, chunks, reports, monkeypatch
):
    """Programs that also store what they add wait longer for memory, and are faster in short
    chunks."""
    processors = {"cpu": 1 << 20, "cuda": 264}
    x = torch.randn(8192, 2048)
    made = []
    monkeypatch.setattr(
        native, "split_long_rows", lambda program, _: made.extend(program.steps) or program
    )

    def f(x):
        y = x * 2
        return (y, y.sum(0)) if with_elements else y.sum(0)

    framejit.compile(f, backend="native")(x)
    (kernel,) = (step.pattern.kernel for step in made)
    count = split.chunk_count_on(kernel, torch.device("cuda"), processors)
    assert count == chunks
