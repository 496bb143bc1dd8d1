"""Programs with collectives in two processes: compiled results are eager's, each collective runs as
often as in eager, and no rank waits for ever."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


def neighbour(name):
    """A module beside this file."""
    spec = importlib.util.spec_from_file_location(
        f"two_ranks_{name}", Path(__file__).with_name(f"{name}.py")
    )
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


programs = neighbour("programs")
BACKENDS = programs.BACKENDS
BREAKS = {function.__name__: breaks for function, breaks in programs.FUNCTIONS.items()}
SMALL = 1e-4  # differences that other kernels make


@pytest.fixture(scope="module")
def compared(ranks):
    """By backend, what each rank found of each function."""
    known = {}

    def compare(job, backend):
        if (job, backend) not in known:
            known[job, backend] = ranks.run(job, backend)
        return known[job, backend]

    return compare


@pytest.mark.parametrize(
    ("backend", "name"),
    [("eager", name) for name in BREAKS]
    + [(other, function.__name__) for other in BACKENDS[1:] for function in programs.COMPILED],
)
def test_functions(compared, backend, name):
    for wrong, breaks in (found[name] for found in compared("compare_functions", backend)):
        assert wrong == []
        assert BREAKS[name] in (None, breaks)


@pytest.mark.parametrize("name", [function.__name__ for function in programs.DIFFERENTIATED])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients(compared, backend, name):
    assert [found[name] for found in compared("compare_gradients", backend)] == [[], []]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_exceptions(ranks, backend):
    assert ranks.run("compare_exceptions", backend) == [[], []]


@pytest.mark.parametrize("verify", [0, 2])
def test_ranks_that_compile_at_different_calls(ranks, verify):
    first, second = ranks.run("run_differently", verify)
    assert first == 1 < second


def test_groups_are_guarded(ranks):
    assert ranks.run("in_new_group") == [3, 3]


@pytest.mark.parametrize(
    ("kind", "backend", "breaks", "sizes", "options"),
    [
        ("inside", "native", 0, [16], {}),
        ("outside", "eager", 0, [16], {}),
        ("outside", "autotune", 0, [16], {"static_graph": True}),
        ("outside", "native", 0, [16, 24, 8], {}),
        ("function", "eager", 1, [16], {"gradient_as_bucket_view": True}),
    ],
)
def test_data_parallel(ranks, kind, backend, breaks, sizes, options):
    for difference, found, compiles in ranks.run(
        "train_data_parallel", kind, backend, sizes, options
    ):
        assert difference < SMALL
        assert found == breaks
        assert compiles <= 3


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_timeout_has_a_note_with_rank_and_graph(ranks, backend):
    notes, _ = ranks.run("wait_in_vain", backend)
    assert len(notes) == 1 and "rank 0, in the graph of wait_in_vain" in notes[0]
    assert "programs.py:" in notes[0]


@pytest.mark.parametrize(("kind", "backend"), [("before", "native"), ("after", "eager")])
def test_fully_shard(ranks, kind, backend):
    for difference, early, late, captured in ranks.run("train_sharded", kind, backend):
        assert difference < SMALL
        assert captured == ["Sequential.forward", "Stack.forward"]
        assert early == late <= 6  # blocks share code; calls of them are breaks


def test_sharded_tensors_compile_a_few_times(ranks):
    assert max(ranks.run("calculate_with_shards", "eager")) < 10
