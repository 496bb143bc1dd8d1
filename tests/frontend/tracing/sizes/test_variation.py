import framejit
import pytest
import torch
from framejit.frontend.tracing.sizes.variation import Variation
from framejit.guards.source import AttrSource, FrameView, SlotSource


def step(x, cache):
    """A language model's: all of a prompt, then one token a call."""
    cache = x * 2 if cache is None else torch.cat([cache, x * 2], 1)
    return cache, (cache * x.sum(1, keepdim=True)).softmax(1)


X, CACHE = SlotSource(0, "x"), SlotSource(1, "cache")


def test_sizes_that_differ_vary():
    variation = Variation()
    variation.note_capture({X: (2, 6)}, {})
    assert variation.dims(X, (2, 7)) == {1}
    assert variation.dims(X, (2, 6)) == frozenset()


def test_a_tensor_seen_first_varies_where_it_has_a_size_that_differed():
    variation = Variation()
    variation.note_capture({X: (2, 6)}, {})
    assert variation.dims(CACHE, (2, 6)) == frozenset()
    variation.compare(FrameView((torch.ones(2, 1),), step))
    assert variation.dims(X, (2, 6)) == variation.dims(CACHE, (2, 6)) == {1}
    assert variation.dims(CACHE, (6, 5)) == {0}


def test_a_size_that_another_tensor_keeps_says_nothing():
    variation = Variation()
    variation.note_capture({X: (6, 6)}, {})
    variation.compare(FrameView((torch.ones(5, 6),), step))
    assert variation.dims(X, (6, 6)) == {0}
    assert variation.dims(CACHE, (6, 6)) == frozenset()


@pytest.mark.parametrize("backend", ["eager", "native", "autotune"])
def test_a_cache_that_a_first_call_made(backend):
    compiled = framejit.compile(step, backend=backend)
    cache = expected = None
    for length in (6, 1, 1, 1, 1):
        x = torch.randn(2, length, 4)
        (cache, scores), (expected, wanted) = compiled(x, cache), step(x, expected)
        torch.testing.assert_close((cache, scores), (expected, wanted))
    assert compiled.framejit.compiles == 2


def test_comparing_asks_no_object_for_an_attribute():
    asked = []

    class Holder:
        @property
        def grad(self):
            asked.append(self)
            return torch.ones(2, 1)

    variation = Variation()
    variation.note_capture({AttrSource(X, "grad"): (2, 6)}, {})
    variation.compare(FrameView((Holder(),), step))
    assert not asked and not variation.former
