"""Layouts of results whose sizes vary."""

import framejit
import pytest
import torch


def spread(rows):
    """A tensor of (2, rows) elements with strides of (11, 31)."""
    return torch.arange(200.0).as_strided((rows, 2), (31, 11)).t()


def spread_rows(rows):
    """A tensor of (rows, 2) elements with strides of (31, 11)."""
    return torch.arange(200.0).as_strided((rows, 2), (31, 11))


def sum_in_place(x):
    copied = x.clone()
    copied.cumsum_(0)
    return copied


def arithmetic(x):
    return (x + 1).exp() * x


def chosen(x):
    return torch.where(x > 1, x, 0.5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("function", [sum_in_place, arithmetic, chosen])
def test_results_have_the_order_of_strides_that_vary(function, backend):
    compiled = framejit.compile(function, backend=backend, dynamic=True)
    for make in (spread, spread_rows):
        for rows in (4, 3, 5):
            expected = function(make(rows))
            result = compiled(make(rows))
            assert (result.tolist(), result.stride()) == (expected.tolist(), expected.stride())
    assert compiled.framejit.compiles == 2


@pytest.mark.parametrize("method", ["float", "double", "half", "bfloat16", "int", "long", "bool"])
def test_conversions_of_a_single_row_compile_nothing_new(method):
    compiled = framejit.compile(lambda x: getattr(x, method)(), backend="eager", dynamic=True)
    for rows in (4, 1, 6):
        given = torch.ones(rows, 3)
        assert torch.equal(compiled(given), getattr(given, method)())
    assert compiled.framejit.compiles == 1


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_padding_by_tensors_whose_sum_is_in_a_size_is_left_to_python(mode):
    def pad(x, left, right):
        padded = torch.nn.functional.pad(x, (left, right), mode)
        return padded[..., : padded.shape[-1] - 1] * 2

    compiled = framejit.compile(pad, backend="eager")
    for left in (2, 3):
        given = torch.randn(2, 8), torch.tensor(left), torch.tensor(1)
        assert torch.equal(compiled(*given), pad(*given))


def test_a_size_whose_node_the_break_removes():
    """The argument of the operator that breaks was the first use of the size in the graph."""
    library = torch.library.Library("sizes_at_a_break", "DEF")
    library.define("filled(Tensor x, SymInt n) -> Tensor")
    library.impl("filled", lambda x, n: x.new_full((n,), 2.0), "CPU")

    def doubled(x):
        x.add_(1)  # so that an error of the graph is not answered by starting over in eager
        y = torch.cat([x, x])
        n = y.shape[0]
        return torch.ops.sizes_at_a_break.filled(x, n) * y.view(n), n

    handle = framejit.compile(doubled, backend="eager")
    for size in (3, 4, 5, 6):
        got, expected = handle(torch.ones(size)), doubled(torch.ones(size))
        assert torch.equal(got[0], expected[0]) and got[1] == expected[1]
    functions = {capture.function for capture in handle.framejit.explain().captures}
    assert "<lambda>" not in functions  # which calculates the size
