"""Copies of tensors keep how these share memory."""

from __future__ import annotations

import torch
from framejit.backends.graph.memory_copies import copy_tensors, memory_between


def shares(one, other):
    before = other.clone()
    with torch.no_grad():
        one.zero_()
    return not torch.equal(before, other)


def test_views_of_one_storage():
    base = torch.arange(1.0, 17.0)
    left, right, inside, other = copy_tensors([base[1:7], base[8:], base[3:5], torch.ones(3)], {0})
    assert (
        torch.equal(left, base[1:7])
        and torch.equal(right, base[8:])
        and torch.equal(inside, base[3:5])
    )
    assert not shares(left, base) and shares(base, other) is False
    assert torch.equal(inside, torch.zeros(2)) and torch.equal(right, torch.arange(9.0, 17.0))
    assert left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()


def test_two_storages_of_the_same_bytes():
    memory = bytearray(64)
    one, other = (
        torch.frombuffer(memory, dtype=torch.float32),
        torch.frombuffer(memory, dtype=torch.float32, offset=16)[:4],
    )
    one.copy_(torch.arange(16.0))
    mine, theirs = copy_tensors([one, other], {1})
    assert torch.equal(mine, one) and torch.equal(theirs, other)
    assert shares(theirs, mine) and torch.equal(one, torch.arange(16.0))


def test_views_of_several_dtypes_and_layouts():
    base = torch.arange(16, dtype=torch.int16)
    made = [
        base[1:4],
        base.view(torch.float32)[1:],
        base.as_strided((3, 2), (1, 0), 2),
        base[:0],
        torch.empty(2, device="meta"),
    ]
    for one, copy in zip(made[:4], copy_tensors(made, set(range(5)))[:4], strict=True):
        assert torch.equal(one, copy) and one.stride() == copy.stride()


def test_memory_between_inputs():
    base = torch.ones(8)
    inputs = copy_tensors([base[:2], base[4:]], {0, 1})
    (memory,) = memory_between(inputs)
    assert memory.view(torch.float32).tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert not any(map(torch.any, memory_between(copy_tensors([base[:4], base[4:]], {0, 1}))))
    assert memory_between(copy_tensors([base, base[2:4]], {0})) == []


def test_memory_between_inputs_that_overlap():
    """Together they have as many elements as the memory, and leave a gap all the same."""
    base = torch.ones(8)
    (memory,) = memory_between(copy_tensors([base[:2], base[:2], base[1:3], base[6:]], {0}))
    assert memory.view(torch.float32).tolist() == [0, 0, 0, 1, 1, 1, 0, 0]


def test_copies_are_equal_where_no_input_is():
    """Also the bytes in front of an input that begins in the middle of a word."""
    base = torch.arange(64.0)
    given = [base[1:5], base[7:40:3]]
    for _ in range(20):
        torch.full((64,), float(_))  # memory with other content is freed
        one, other = (memory_between(copy_tensors(given, {0, 1})) for _ in range(2))
        assert all(map(torch.equal, one, other))


def test_conjugated_and_negated_views_share_memory():
    base = torch.randn(4, dtype=torch.complex64)
    given = [base, base.conj(), base.conj().imag]
    assert given[1].is_conj() and given[2].is_neg()
    copies = copy_tensors(given, {0})
    assert all(
        one.is_conj() == two.is_conj() and one.is_neg() == two.is_neg() and torch.equal(one, two)
        for one, two in zip(given, copies, strict=True)
    )
    copies[0].mul_(2)
    assert torch.equal(copies[1], base.conj() * 2) and torch.equal(copies[2], base.conj().imag * 2)
