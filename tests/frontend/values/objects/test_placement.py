"""Placements of distributed tensors are literals."""

from __future__ import annotations

import framejit
import pytest
import torch

tensors = pytest.importorskip("torch.distributed.tensor")
Shard, Replicate, Partial = tensors.Shard, tensors.Replicate, tensors.Partial


def test_they_are_made_and_compared():
    @framejit.compile(fullgraph=True, backend="eager")
    def choose(x, placements):
        if placements == (Shard(1), Replicate()) and placements[0].is_shard(1):
            return x + placements[0].dim
        return x - len({Shard(0): 1, Shard(0): 2, Partial(): 3})

    x = torch.ones(3)
    assert choose(x, (Shard(1), Replicate())).tolist() == [2.0] * 3
    assert choose(x, (Shard(1), Replicate())).tolist() == [2.0] * 3
    assert choose.framejit.compiles == 1
    assert choose(x, (Shard(2), Replicate())).tolist() == [-1.0] * 3
    assert choose.framejit.compiles == 2


def test_they_are_returned():
    @framejit.compile(fullgraph=True, backend="eager")
    def make(x, dim):
        return x + 1, [Shard(dim), Replicate()]

    assert make(torch.ones(3), 1)[1] == [Shard(1), Replicate()]


def test_bad_arguments_raise_as_in_eager():
    @framejit.compile(backend="eager")
    def make(x):
        return x + 1, Shard("a")

    with pytest.raises(TypeError):
        make(torch.ones(3))


def test_placements_of_ones_own_stay_in_python():
    class Mine(Shard):
        pass

    @framejit.compile(backend="eager")
    def dim_of(x, placement):
        return x + placement.dim

    assert dim_of(torch.ones(3), Mine(1)).tolist() == [2.0] * 3
