"""Existing lists that grow from call to call, a history of losses or texts: what is asked of them
without their items."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.events import Full

from ...semantics.harness import capture_events


def length(x, kept):
    kept.append(x.sum())
    return x + len(kept), len(kept) * 2


def is_empty(x, kept):
    first = not kept
    kept.append(1)
    return x + 1, first, bool(kept)


def text_of_length(x, kept):
    kept.append(f"entry {len(kept)}")
    return x + 1, f"{len(kept)} entries", kept[-1]


def last(x, kept):
    before = kept[-1] if len(kept) > 0 else 0.0
    kept.append(before + 0.5)
    kept.append(before * 2)
    return x * before, kept[-1], kept[-2], kept[-3] if len(kept) > 2 else None


def last_two(x, kept):
    kept += [x.mean().item()]
    return x + 1 if len(kept) < 3 or kept[-2] < kept[-1] else x - 1


def last_tensor(x, kept):
    if kept:
        x = x + kept[-1]
        kept[-1].add_(1)
    kept.append(x * 2)
    return x


def beyond_the_ends(x, kept):
    kept.append(0)
    try:
        return kept[-100]
    except IndexError as error:
        return x + 1, str(error)


GROWING = (length, is_empty, text_of_length, last, last_two, last_tensor)


@pytest.mark.parametrize("f", (*GROWING, beyond_the_ends), ids=lambda f: f.__name__)
def test_results_and_contents_are_eagers(f):
    handle, mine, its = framejit.compile(f, backend="eager"), [], []
    for step in range(9):
        x = torch.full((2,), step * 0.25)
        assert repr(handle(x.clone(), mine)) == repr(f(x.clone(), its))
        assert repr(mine) == repr(its)
    if f in GROWING:
        assert handle.framejit.compiles <= 5, handle.framejit.explain()


def test_a_length_decides_after_the_list_was_changed():
    def f(x, kept):
        kept.append(1)
        n = len(kept)
        kept.pop(0)
        kept.insert(0, n)
        return x + n, len(kept), kept[0], kept[-1], [*kept]

    handle, mine, its = framejit.compile(f, backend="eager"), [], []
    for _ in range(5):
        assert repr(handle(torch.ones(2), mine)) == repr(f(torch.ones(2), its))
        assert mine == its


def test_the_last_item_is_one_object_on_two_paths():
    def f(x, kept, item):
        kept[-1].append(1)
        return x + len(item), kept[-1] is item

    handle = framejit.compile(f, backend="eager")
    for same in (True, True, False, True):
        for count in (1, 2, 3):
            item = []
            kept = [[] for _ in range(count)] + ([item] if same else [[]])
            mine, its = handle(torch.ones(2), kept, item), (torch.ones(2) + same, same)
            assert repr(mine) == repr(its)


def test_a_growing_list_in_a_loop_with_breaks():
    def f(x, kept):
        for _ in range(3):
            kept.append(x.sum().item())
            print(end="")
            x = x + len(kept)
        return x, len(kept), kept[-1]

    handle, mine, its = framejit.compile(f, backend="eager"), [], []
    for _ in range(4):
        assert repr(handle(torch.ones(2), mine)) == repr(f(torch.ones(2), its))
        assert mine == its


def without_zeros(x, numbers):
    return x.cos(), [number for number in numbers if number]


def numbered(x, numbers):
    found = {}
    for position, number in enumerate(numbers):
        if number:
            found[position] = number
    return x.cos(), found


def words_of(x, numbers):
    ids = x.long().tolist()
    return x.sin(), [number for number in ids if number], {number + 1 for number in ids}


@pytest.mark.parametrize("f", [without_zeros, numbered, words_of])
def test_a_loop_over_numbers_of_which_there_are_more_or_fewer(f):
    handle = framejit.compile(f, backend="eager")
    seen = capture_events(handle)
    for count in [*range(2, 14), 0, 1, 20, 3]:
        arguments = torch.arange(count).float() * 1.5, [k % 3 for k in range(count)]
        mine, its = handle(*arguments), f(*arguments)
        assert repr(mine) == repr(its)
    assert not [record for record in seen if isinstance(record, Full)], seen


def test_a_loop_over_lists_of_two_lengths_is_unrolled():
    handle = framejit.compile(numbered, backend="eager")
    for _ in range(3):
        for count in (2, 3):
            arguments = torch.ones(2), list(range(count))
            assert repr(handle(*arguments)) == repr(numbered(*arguments))
    assert handle.framejit.compiles == 2


def copied_items(x, kept):
    kept.append(x.sum())
    return [one.clone() for one in kept], x + 1


def stacked(x, kept):
    kept.append(x.sum())
    return torch.stack(kept).sum(), x.cos()


@pytest.mark.parametrize("f", [copied_items, stacked], ids=lambda f: f.__name__)
def test_a_growing_list_of_tensors_is_compiled_for_a_few_lengths(f):
    handle = framejit.compile(f, backend="eager")
    seen = capture_events(handle)
    mine, its = [], []
    for step in range(14):
        x = torch.full((2,), float(step))
        assert repr(handle(x, mine)) == repr(f(x, its))
    assert repr(mine) == repr(its)
    assert not [record for record in seen if isinstance(record, Full)], seen
    assert handle.framejit.compiles <= 9, handle.framejit.explain()


def batch_of_tokens(x, tokens):
    return torch.tensor(tokens).float() * x.sum(), x + 1


def padded_batch(x, tokens):
    return torch.tensor([tokens, tokens]).float().sum(0) * x.sum(), x + 1


@pytest.mark.parametrize("f", [batch_of_tokens, padded_batch], ids=lambda f: f.__name__)
def test_tensors_of_lists_of_many_lengths(f):
    handle = framejit.compile(f, backend="eager")
    seen = capture_events(handle)
    for count in range(2, 16):
        arguments = torch.ones(2), [k * 7 % 5 for k in range(count)]
        assert repr(handle(*arguments)) == repr(f(*arguments))
    assert not [record for record in seen if isinstance(record, Full)], seen
    assert handle.framejit.compiles <= 6, handle.framejit.explain()
