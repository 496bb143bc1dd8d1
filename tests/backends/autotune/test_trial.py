"""Copies of inputs keep how these share memory."""
from __future__ import annotations

import torch
from framejit.backends.autotune.trial import Trial, copy_tensors, memory_between


def shares(one, other):
    before = other.clone()
    with torch.no_grad():
        one.zero_()
    return not torch.equal(before, other)


def test_views_of_one_storage():
    base = torch.arange(1.0, 17.0)
    left, right, inside, other = copy_tensors([base[1:7], base[8:], base[3:5], torch.ones(3)], {0})
    assert torch.equal(left, base[1:7]) and torch.equal(right, base[8:]) and torch.equal(inside, base[3:5])
    assert not shares(left, base) and shares(base, other) is False
    assert torch.equal(inside, torch.zeros(2)) and torch.equal(right, torch.arange(9.0, 17.0))
    assert left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()


def test_two_storages_of_the_same_bytes():
    memory = bytearray(64)
    one, other = torch.frombuffer(memory, dtype=torch.float32), torch.frombuffer(memory, dtype=torch.float32, offset=16)[:4]
    one.copy_(torch.arange(16.0))
    mine, theirs = copy_tensors([one, other], {1})
    assert torch.equal(mine, one) and torch.equal(theirs, other)
    assert shares(theirs, mine) and torch.equal(one, torch.arange(16.0))


def test_views_of_several_dtypes_and_layouts():
    base = torch.arange(16, dtype=torch.int16)
    made = [base[1:4], base.view(torch.float32)[1:], base.as_strided((3, 2), (1, 0), 2), base[:0], torch.empty(2, device="meta")]
    for one, copy in zip(made[:4], copy_tensors(made, set(range(5)))[:4], strict=True):
        assert torch.equal(one, copy) and one.stride() == copy.stride()


def test_memory_between_inputs():
    base = torch.ones(8)
    inputs = copy_tensors([base[:2], base[4:]], {0, 1})
    (memory,) = memory_between(inputs)
    assert memory.view(torch.float32).tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert memory_between(copy_tensors([base[:4], base[4:]], {0, 1})) == []


def test_bytes_count_a_stretch_once():
    base = torch.ones(16)
    assert Trial(None, [base, base[:4], base[8:], torch.ones(4)]).bytes() == 80
