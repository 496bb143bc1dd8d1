"""Distributed tensors (torch's DTensor) in two processes: one graph, equal to eager."""

from __future__ import annotations

import pytest

SMALL = 1e-5
NAMES = (
    "view_of_an_input", "pointwise", "total", "mean_of_rows", "product", "normalized", "over_the_divided_dimension",
    "views", "written", "gathered", "divided_otherwise", "whole", "local", "from_local", "partial",
    "asked",
)  # fmt: skip


@pytest.fixture(scope="module")
def compared(ranks):
    """By backend and grad mode, what each rank found of each program."""
    known = {}

    def compare(*settings):
        if settings not in known:
            known[settings] = ranks.run("sharded_tensors.compare_programs", *settings)
        return known[settings]

    return compare


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_programs(compared, backend, grad, name):
    for wrong, breaks, captures in (found[name] for found in compared(backend, grad)):
        assert wrong == []
        assert (breaks, captures) == (0, 1)


def test_placements_are_guarded(ranks):
    assert ranks.run("sharded_tensors.compiles_by_placement") == [[1, 2, 3, 3, 3]] * 2


def test_graphs_on_the_parts_are_compiled(ranks):
    assert ranks.run("sharded_tensors.compiled_directions") == [["forward", "backward"]] * 2


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_exceptions(ranks, backend):
    for plain, compiled in ranks.run("sharded_tensors.exceptions", backend):
        assert plain == compiled


@pytest.mark.parametrize("plan", ["tensor", "sequence", "prepared"])
@pytest.mark.parametrize("backend", ["eager", "native", "autotune"])
def test_parallelized_modules(ranks, plan, backend):
    found = ranks.run("sharded_tensors.train", plan, [backend] * 2, [4] * 6)
    for difference, compiles, breaks in found:
        assert difference < SMALL
        assert (compiles, breaks) == (1, 0)


@pytest.mark.parametrize("plan", ["tensor", "sequence"])
@pytest.mark.parametrize("backends", [("native", ""), ("eager", "native"), ("autotune", "native")])
@pytest.mark.sweep(3, each=("plan",))
def test_ranks_that_run_different_code(ranks, plan, backends):
    """They start the same collectives in the same order."""
    lengths = [4, 6, 8, 4, 6, 10]
    for difference, _, breaks in ranks.run("sharded_tensors.train", plan, backends, lengths):
        assert difference < SMALL and breaks == 0


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_lengths_vary(ranks, backend):
    lengths = [4, 6, 8, 10, 12]
    found = ranks.run("sharded_tensors.train", "tensor", [backend] * 2, lengths)
    for difference, compiles, breaks in found:
        assert difference < SMALL
        assert compiles <= 2 and breaks == 0


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_sizes_of_distributed_batches_vary(ranks, backend):
    """Divided evenly they are symbols; a batch that is not is compiled for itself."""
    sizes = [8, 10, 4, 6, 12, 7, 14]
    for divided, replicated in ranks.run("sharded_tensors.batches_of_sizes", backend, sizes):
        assert divided == [0, 3]
        assert replicated == [0, 2]
