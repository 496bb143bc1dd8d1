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


LAYERS = [torch.nn.Linear(2, 2) for _ in range(12)]


def of_a_layer(x, number):
    return LAYERS[number](x).relu()


def of_a_table(x, number):
    return x * {key: float(key) for key in range(20)}[number]


def of_a_slice(x, number):
    return x * len(range(20)[number:])


@pytest.mark.parametrize(("f", "compiles"), [(of_a_layer, 5), (of_a_table, 5), (of_a_slice, 6)])
def test_a_number_of_many_values_is_specialised_for_three(f, compiles):
    """Then the statement that needs its value is left to Python, once for all values."""
    compiled = framejit.compile(f, backend="eager")
    for number in range(12):
        assert torch.equal(compiled(torch.ones(2), number), f(torch.ones(2), number))
    assert compiled.framejit.compiles == compiles
    assert [found.id for found in compiled.framejit.explain().breaks] == ["unsupported-value"]


def test_a_whole_graph_is_specialised_for_each_number():
    compiled = framejit.compile(of_a_layer, backend="eager", fullgraph=True)
    for number in range(6):
        assert torch.equal(compiled(torch.ones(2), number), of_a_layer(torch.ones(2), number))
    assert compiled.framejit.compiles == 6
