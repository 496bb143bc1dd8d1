"""torch's jagged nested tensors: one graph for batches of several lengths; which of them share
their offsets is guarded."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from ...semantics.harness import strict_compile, vec
from .test_wrapper_subclass import assert_same, outcome
from .wrappers import visible

BACKENDS = ("eager", "aot_eager", "native")
BATCHES = ((2, 3, 4), (5, 1, 2), (3, 4, 6, 2), (1, 7))
WEIGHT, BIAS = vec(8, 8) / 8, vec(8)


def jagged(lengths, grad=False):
    parts = [vec(length, 8) * (place + 1) for place, length in enumerate(lengths)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=grad)


def pointwise(x):
    return (x.sin() * x.cos() + 1).relu(), 2 * x - x.abs()


def unit(x):
    return F.linear(x.sin() * x.cos(), WEIGHT, BIAS) + x


def normalized(x):
    return F.layer_norm(x, (8,)), F.softmax(x, -1)


def flat(x):
    return x.values() * 2, x.offsets(), x.values().sum()


def made(x):
    return torch.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets())


def asked(x):
    return x * 2, x.is_nested, x.dim(), x.shape[0], x.size(2), x.layout, x.lengths()


def viewed(x):
    return x.unflatten(-1, (2, 4)).transpose(1, 2), x.view(x.shape[0], x.shape[1], 2, 4) * 2


PROGRAMS = [pointwise, unit, normalized, flat, made, asked, viewed]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_for_several_batches(program, grad, backend):
    handle = strict_compile(program, backend=backend)
    for lengths in BATCHES:
        wanted = outcome(program, (jagged(lengths, grad),), grad)
        assert_same(wanted, outcome(handle, (jagged(lengths, grad),), grad))
    assert not handle.framejit.explain().breaks
    assert handle.framejit.compiles == 1


def reduced(x):
    return torch.nested.to_padded_tensor(x * 2, 0.0), x.sum(1), (x * 2).sum(-1), x.mean(1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_reductions(backend):
    handle = strict_compile(reduced, backend=backend)
    for lengths in BATCHES:
        assert_same(visible(reduced(jagged(lengths))), visible(handle(jagged(lengths))))
    assert not handle.framejit.explain().breaks


@pytest.mark.parametrize("backend", BACKENDS)
def test_padding_to_a_given_size(backend):
    def padded(x):
        return torch.nested.to_padded_tensor(x * 2, 0.0, (3, 5, 8))

    handle = strict_compile(padded, backend=backend)
    for lengths in ((2, 3, 4), (5, 1, 2)):
        assert_same(padded(jagged(lengths)), handle(jagged(lengths)))
    assert not handle.framejit.explain().breaks


@pytest.mark.parametrize("backend", BACKENDS)
def test_marks_of_the_class_promise_nothing(backend):
    """A jagged tensor marks the tensor that holds the length of its longest sequence as dynamic."""
    handle = strict_compile(reduced, backend=backend)
    for lengths in ((1, 1, 1), (2, 3, 4), (5, 1)):
        assert_same(visible(reduced(jagged(lengths))), visible(handle(jagged(lengths))))
    assert handle.framejit.compiles <= 2


LAYERS = [torch.nn.Linear(8, 8) for _ in range(3)]


def attention(x):
    query, key, value = (layer(x * 2).unflatten(-1, (2, 4)).transpose(1, 2) for layer in LAYERS)
    mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2)
    return mixed.flatten(-2) + x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_attention_is_one_break_for_all_batches(grad, backend):
    handle = strict_compile(attention, backend=backend)
    for lengths in BATCHES:
        wanted = outcome(attention, (jagged(lengths, grad),), grad)
        assert_same(wanted, outcome(handle, (jagged(lengths, grad),), grad))
    assert [one.id for one in handle.framejit.explain().breaks] == ["data-dependent-value"]
    assert handle.framejit.compiles == 2  # before it, and behind it


def test_a_write_into_a_view_raises_as_in_eager():
    def written(x):
        view = (x * 2).unflatten(-1, (2, 4)).transpose(1, 2)
        print(end="")
        view.mul_(3)
        return view * 1

    def gradient(function):
        x = jagged((3, 4), True)
        return torch.autograd.grad(function(x).values().sum(), x)

    for function in (written, strict_compile(written, backend="eager")):
        with pytest.raises(NotImplementedError, match="new_empty_strided"):
            gradient(function)


def test_without_automatic_sizes_the_rows_are_constants():
    handle = strict_compile(unit, backend="eager", dynamic=False)
    for lengths in BATCHES[:3]:
        handle(jagged(lengths))
    assert handle.framejit.compiles == 3


def test_unbinding_reads_the_lengths_in_the_graph():
    def unbound(x):
        return [part + 1 for part in (x * 2).unbind()]

    handle = strict_compile(unbound, backend="eager")
    for lengths in BATCHES:
        assert_same(visible(unbound(jagged(lengths))), visible(handle(jagged(lengths))))
    assert handle.framejit.explain().breaks == ()


def test_comparing_ragged_sizes_is_left_to_python():
    def alike(x, y):
        return x * 2, x.shape == y.shape

    x = jagged((2, 3))
    handle = strict_compile(alike, backend="eager")
    for y in (jagged((2, 3)), x * 2, jagged((2, 3))):
        assert_same(visible(alike(x, y)), visible(handle(x, y)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_have_the_offsets_of_their_inputs(backend):
    x = jagged((2, 3))
    result = strict_compile(lambda x: x.sin() * 2, backend=backend)(x)
    assert result.offsets() is x.offsets()
    assert_same(visible(x.sin() * 2 + x), visible(result + x))


def test_which_inputs_share_their_offsets_is_guarded():
    def alike(x, y):
        return x * 2, y * 2, x.offsets() is y.offsets()

    x = jagged((2, 3))
    handle = strict_compile(alike, backend="eager")
    for y in (x * 2, jagged((2, 3)), x * 3, x):
        assert_same(visible(alike(x, y)), visible(handle(x, y)))
    assert handle.framejit.compiles == 3


def test_other_offsets_raise_as_in_eager():
    handle = strict_compile(lambda x, y: x + y, backend="eager")
    x = jagged((2, 3))
    handle(x, x * 2)
    with pytest.raises(RuntimeError, match="binary pointwise"):
        handle(x, jagged((2, 3)))
