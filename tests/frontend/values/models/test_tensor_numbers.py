"""Numbers and answers that are read from tensors: nodes of the graph."""

from __future__ import annotations

import framejit
import pytest
import torch

from ...semantics.harness import capture_events, check, strict_compile

X = torch.arange(12.0).reshape(3, 4)
NAN = X.masked_fill(X == 5, float("nan"))


@pytest.mark.parametrize("other", [X.clone(), X + 1e-9, X + 1, NAN])
@pytest.mark.parametrize("x", [X, NAN])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: torch.equal(x, y),
        lambda x, y: (x * 2).equal(other=y * 2),
        lambda x, y: torch.equal(x[:0], y[:0]),
        lambda x, y: torch.allclose(x, y),
        lambda x, y: torch.allclose(x, y[0] * 2, 1.0, 2.0),
        lambda x, y: x.allclose(y, rtol=0.5, equal_nan=True),
        lambda x, y: (bool((x < y).any()), x * 2),
        lambda x, y: [bool(one > 3) for one in y[0]],
    ],
)
def test_an_answer_is_a_result_of_the_graph(fn, x, other):
    check(fn, x, other)


def asserts(x, y):
    y = y * 2
    assert torch.equal(x * 2, y), "not equal"
    return y + 1


def raises(x, y):
    y = y * 2
    if not torch.allclose(x * 2, y):
        raise ValueError("not close")
    return y + 1


def asks_with_bool(x, y):
    if bool((x != y).any()):
        raise ValueError("not equal")
    return y * 2


@pytest.mark.parametrize("fn", [asserts, raises, asks_with_bool])
def test_a_check_is_assumed_to_hold(fn):
    check(fn, X, X.clone())
    step = strict_compile(fn, backend="eager")
    step(X, X.clone())
    with pytest.raises((AssertionError, ValueError), match="not"):
        step(X, X + 1)


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda x: x + 1 if torch.equal(x, x * 1) else x, "torch.equal()"),
        (lambda x: x + 1 if torch.allclose(x, x * 1) else x, "torch.allclose()"),
        (lambda x: x + 1 if bool((x > 1).any()) else x, "bool()"),
    ],
)
def test_a_branch_names_the_call(fn, text):
    step = strict_compile(fn, backend="eager")
    seen = capture_events(step)
    torch.testing.assert_close(step(X), fn(X))
    (told,) = [event.sentence for event in seen if hasattr(event, "sentence")]
    assert text in told


def test_tensors_of_other_sizes_are_not_equal():
    check(lambda x: x + torch.equal(x, x[0]), X)


def test_equal_of_other_dtypes_is_left_to_python():
    check(lambda x: torch.equal(x, x.double()), X, breaks=("data-dependent-value",), graphs=None)


def split(x, positions):
    return [part * 2 for part in torch.tensor_split(x, positions, 1)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_a_split_at_positions_in_a_tensor(backend):
    step = strict_compile(split, backend=backend)
    for positions in ([1, 3], [1, 2], [2, 1], [0, 0], [3, 9], [-3, -1], [1, 2, 3]):
        given = torch.tensor(positions)
        torch.testing.assert_close(step(X, given), split(X, given))
        assert positions != [1, 2] or not step.framejit.explain().breaks


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.tensor_split(x, torch.tensor([1, 2]), 1),
        lambda x: x.tensor_split(tensor_indices_or_sections=torch.tensor([1, 2]), dim=1),
        lambda x: x.tensor_split(2),
    ],
)
def test_a_split_at_positions_of_the_frame(fn):
    check(fn, X)


@pytest.mark.parametrize("positions", [torch.tensor([1, 2], dtype=torch.int32), X])
def test_positions_that_torch_refuses(positions):
    for function in (split, framejit.compile(split, backend="eager")):
        with pytest.raises(RuntimeError, match="tensor_split expected"):
            function(X, positions)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_a_view_whose_start_is_read(backend):
    """Only the storage offset depends on the value."""

    def f(x, start):
        return x.narrow(0, start, 2) * 2

    compiled = framejit.compile(f, backend=backend, fullgraph=True)
    for start in (0, 1, 3):
        x, at = torch.arange(5.0), torch.tensor(start)
        assert torch.equal(compiled(x, at), f(x, at))


def test_a_size_beside_others_that_are_read():
    """Within the operator more numbers are read than its result has sizes."""
    compiled = framejit.compile(lambda x: torch.combinations(x, 2) * 2, fullgraph=True)
    for length in (3, 5):
        x = torch.arange(float(length))
        assert torch.equal(compiled(x), torch.combinations(x, 2) * 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("classes", [4, -1])
def test_one_hot_of_a_transposed_tensor_is_contiguous(classes, backend):
    def f(x):
        hot = torch.nn.functional.one_hot(x.transpose(0, 1), classes)
        return hot, hot.stride()

    compiled = framejit.compile(f, backend=backend)
    for rows in (3, 5, 6):
        x = torch.arange(2 * rows).reshape(rows, 2) % 4
        got, expected = compiled(x), f(x)
        assert torch.equal(got[0], expected[0])
        assert got[0].stride() == got[1] == expected[1]


@pytest.mark.parametrize("shape", [(0,), (0, 2), (2, 0)])
def test_the_list_of_an_empty_tensor(shape):
    compiled = framejit.compile(lambda x: (x + 1, x.tolist()), backend="eager")
    for dtype in (torch.float32, torch.int64):
        x = torch.empty(shape, dtype=dtype)
        assert compiled(x)[1] == x.tolist()
    assert bool(compiled.framejit.explain().breaks) is (len(shape) > 1)
    assert compiled(torch.ones(3))[1] == [1.0, 1.0, 1.0]


def test_the_numbers_of_a_constant_range_are_known():
    def f(x):
        dims, written = torch.arange(1, x.dim()), torch.arange(2)
        written += 1
        return x.sum(dims.tolist()), torch.arange(0, 5, 2).tolist(), written.tolist(), dims

    check(f, torch.ones(1, 2, 2), breaks=0)
