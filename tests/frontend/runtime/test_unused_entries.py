"""Versions that have served one call each, with default settings: no more of them are compiled."""

from __future__ import annotations

import warnings

import framejit
import pytest
import torch
from framejit.frontend.runtime import account
from framejit.frontend.runtime.unused_entries import ENTRIES, MISSES, mostly_unused


class Entry:
    def __init__(self, hits):
        self.hits = hits


@pytest.mark.parametrize("hits, unused", [
    ([1] * ENTRIES, True), ([1] * (ENTRIES - 1), False), ([9, 1, 1, 1], True), ([2, 2, 1, 1], False), ([], False),
])  # fmt: skip
def test_half_of_the_entries_have_to_be_used_again(hits, unused):
    assert mostly_unused(map(Entry, hits)) is unused


def by_text(x, text):
    return x * 2 + len(text) if text[:1] == "a" else x - 1


def run(handle, texts):
    for text in texts:
        assert torch.equal(handle(torch.ones(2), text), by_text(torch.ones(2), text))


@pytest.fixture
def handle():
    return framejit.compile(by_text, backend="autotune")


def compiled(handle):
    return handle.framejit.compiles


def test_values_that_never_come_again_stop_compiling_without_a_warning(handle):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(handle, [f"a{number}" for number in range(40)])
    assert compiled(handle) == ENTRIES


def test_values_that_come_again_are_compiled(handle, monkeypatch):
    monkeypatch.setattr(account, "FIRST_GRAPHS", account.FREE_GRAPHS)  # whatever its calls take
    texts = [f"a{number}" for number in range(ENTRIES + 2)]
    run(handle, texts * 2)
    handle.comparison = None  # calls run compiled
    run(handle, texts * (MISSES + 1))
    assert compiled(handle) == len(texts)


@pytest.mark.parametrize(
    "settings",
    [{"backend": "eager"}, {"backend": "autotune", "options": {"compile_budget": float("inf")}}],
)
def test_a_backend_that_was_asked_for_and_a_budget_compile_each(settings):
    handle = framejit.compile(by_text, **settings)
    run(handle, [f"a{number}" for number in range(ENTRIES + 2)])
    assert compiled(handle) == ENTRIES + 2
