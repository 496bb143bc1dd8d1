"""Sequences of lengths that vary, padded to the longest one: two compiles, whichever is the
longest."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

LENGTHS = ((3, 5, 2), (4, 4, 7), (6, 2, 3), (2, 9, 5), (1, 1, 1), (3, 0, 2), (7, 8, 9))


def rows_first(items):
    return pad_sequence(items, batch_first=True) * 2


def steps_first(items):
    return pad_sequence(items, padding_value=-1.5)


def from_the_left(items):
    return pad_sequence(items, True, 0.5, "left").sin()


def with_a_mask(items):
    padded = pad_sequence(items, batch_first=True)
    lengths = torch.tensor([len(item) for item in items])
    mask = torch.arange(padded.shape[1])[None] < lengths[:, None]
    return (padded * mask[..., None]).sum(1) / lengths[:, None]


def by_hand(items):
    longest = max(len(item) for item in items)
    padded = items[0].new_zeros(len(items), longest, 2)
    for row, item in enumerate(items):
        padded[row, : len(item)] = item
    return padded + min(item.shape[0] for item in items), longest


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(
    "f", [rows_first, steps_first, from_the_left, with_a_mask, by_hand], ids=lambda f: f.__name__
)
def test_two_compiles_are_enough(f, backend):
    handle = framejit.compile(f, backend=backend)
    for lengths in LENGTHS:
        grads = []
        for fn in (f, handle):
            torch.manual_seed(0)
            items = [torch.randn(length, 2, requires_grad=True) for length in lengths]
            found = fn(items)
            result = found[0] if isinstance(found, tuple) else found
            result.nan_to_num().sum().backward()
            grads.append([found, result.stride(), *(item.grad for item in items)])
        torch.testing.assert_close(grads[1], grads[0], equal_nan=True)
        if lengths == LENGTHS[3]:
            assert handle.framejit.compiles <= 2, handle.framejit.explain()


def test_sequences_that_do_not_fit_raise_as_in_eager():
    handle = framejit.compile(rows_first, backend="eager")
    for lengths in LENGTHS[:3]:
        items = [torch.ones(length, 2) for length in lengths]
        assert handle(items).equal(rows_first(items))
    wrong = [torch.ones(3, 2), torch.ones(4, 3)]
    with pytest.raises(RuntimeError) as expected:
        rows_first(wrong)
    with pytest.raises(RuntimeError) as got:
        handle(wrong)
    assert str(got.value) == str(expected.value)


def test_a_module_is_moved_to_where_a_tensor_is():
    layer = torch.nn.Linear(2, 2)

    def function(x, like):
        return layer.to(like)(x), torch._C._nn._parse_to(like, True)

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2, 2)
    assert str(compiled(x, x)) == str(function(x, x))
    with pytest.raises(TypeError, match="only accepts floating point"):
        framejit.compile(function, backend="eager")(x, x.int())
    parsed = framejit.compile(torch._C._nn._parse_to, backend="eager")
    assert parsed(x.double(), non_blocking=True) == (x.device, torch.float64, True, None)
