"""A kernel that reduces and stores rows, and a reader of a few elements of each row: both become
one kernel that stores only the reader's results."""

from __future__ import annotations

from dataclasses import replace

import framejit
import pytest
import torch
from framejit.backends.native.fuse.gather import fuse_gather
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.ir.index import Hole, Index, atom, index
from framejit.backends.native.ir.program import Kernel, Store, loops
from framejit.backends.native.ir.scalar import LOAD, Scalar, load, loads, position, reduce, scalar
from framejit.backends.native.printers.triton.kernel import print_triton

from ..evaluate import evaluate
from ..kernels import Case

ROWS, WIDTH = 6, 40


def log_softmax() -> Kernel:
    (x,), (r,) = loops([index(ROWS)], "x"), loops([index(WIDTH)], "r")
    read = load("in0", atom(x) * WIDTH + atom(r), torch.float32)
    shifted = scalar("sub", read, reduce("max", read))
    value = scalar("sub", shifted, scalar("log", reduce("sum", scalar("exp", shifted))))
    return Kernel((x,), (r,), (Store("all", atom(x) * WIDTH + atom(r), value),), ("log_softmax",))


def chosen(place: Index, row: Scalar, size: int | None) -> Kernel:
    """A reader of one element for each row's target; `size`: what the check says that the target is
    below."""
    (y,) = loops([index(ROWS)], "y")
    check = (
        None
        if size is None
        else scalar(
            "and", scalar("ge", row, position(index(0))), scalar("lt", row, position(index(size)))
        )
    )
    value = scalar("neg", load("all", place, torch.float32, subscripts=(row,), check=check))
    return Kernel((y,), (), (Store("out", atom(y), value),), ("gather",))


def target() -> Scalar:
    (y,) = loops([index(ROWS)], "y")
    return load("in1", atom(y), torch.int64)


def by_row() -> Index:
    (y,) = loops([index(ROWS)], "y")
    return atom(y) * WIDTH + atom(Hole(0))


def memory() -> dict[str, torch.Tensor]:
    targets = torch.tensor([3, 39, 0, 1, 1, 7])
    return {
        "in0": torch.randn(ROWS * WIDTH),
        "in1": targets,
        "all": torch.zeros(ROWS * WIDTH),
        "out": torch.zeros(ROWS),
    }


def test_of_each_row_the_targets_element():
    kernel = fuse_gather(log_softmax(), chosen(by_row(), target(), WIDTH), set())
    assert (
        kernel is not None
        and [store.buffer for store in kernel.stores] == ["out"]
        and "all" not in kernel.read
    )
    data = memory()
    evaluate(kernel, data)
    want = torch.nn.functional.cross_entropy(
        data["in0"].view(ROWS, WIDTH), data["in1"], reduction="none"
    )
    torch.testing.assert_close(data["out"], want)
    assert any(node.op == LOAD and node.attr.checked for node in loads(kernel.roots()))
    case = Case(kernel, {name: tensor for name, tensor in data.items() if name != "all"})
    assert "index out of range" in print_triton(simplify(kernel), case.buffers).text


def test_numbers_of_rows_that_others_read_are_stored_too():
    rows = log_softmax()
    value = rows.stores[0].value
    largest = value.args[0].args[1]
    (x,) = rows.outer
    kept = Store("largest", atom(x), largest)
    rows = replace(rows, stores=(kept, *rows.stores))
    reader = chosen(by_row(), target(), WIDTH)
    kernel = fuse_gather(rows, reader, {"largest"})
    assert kernel is not None and [store.buffer for store in kernel.stores] == ["largest", "out"]
    data = memory() | {"largest": torch.zeros(ROWS)}
    evaluate(kernel, data)
    assert torch.equal(data["largest"], data["in0"].view(ROWS, WIDTH).amax(1))
    assert fuse_gather(rows, reader, {"all"}) is None  # what is stored of every element


@pytest.mark.parametrize("size", [None, WIDTH + 1, ROWS * WIDTH])
def test_a_place_that_may_lie_in_another_row_is_refused(size):
    assert fuse_gather(log_softmax(), chosen(by_row(), target(), size), set()) is None


def test_places_without_rows_are_refused():
    assert fuse_gather(log_softmax(), chosen(atom(Hole(0)), target(), WIDTH), set()) is None


def first_of_rows(x):
    return torch.softmax(x * 2, -1)[:, 3] + x[:, 1]


def two_of_rows(x):
    logarithms = torch.log_softmax(x, -1)
    return logarithms[:, 0] + logarithms[:, 1]


def last_after_layer_norm(x):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],))[:, -1].exp()


def turned(x):
    return torch.softmax(x.view(4, 16, -1), -1)[:, :, 2].t().contiguous()


@pytest.mark.parametrize("function", [first_of_rows, two_of_rows, last_after_layer_norm, turned])
def test_only_what_is_read_is_stored(function, reports):
    x = torch.randn(64, 300)
    torch.testing.assert_close(framejit.compile(function, backend="native")(x), function(x))
    assert [len(report.kernels) for report in reports] == [1]


def test_what_others_read_is_stored(reports):
    def both(x):
        rows = torch.softmax(x, -1)
        return rows[:, 0] * 2, rows

    x = torch.randn(64, 300)
    torch.testing.assert_close(framejit.compile(both, backend="native")(x), both(x))
    assert len(reports) == 1
