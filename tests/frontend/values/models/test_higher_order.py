"""Higher-order operators of torch: associative_scan is captured in one graph, the others break."""

from __future__ import annotations

import pytest
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch._higher_order_ops.cond import cond_op

from ...semantics.harness import check, vec


def recurrence(left, right):
    """h[t] = a[t] * h[t-1] + b[t], in pairs of (product of a, h)."""
    return right[0] * left[0], right[0] * left[1] + right[1]


def scan_pairs(a, b):
    """As transformers' mamba asks for it on a GPU."""
    return associative_scan_op(
        lambda *leaves: recurrence(leaves[:2], leaves[2:]), [a.sigmoid(), b], ()
    )


def product(x):
    return associative_scan_op(lambda left, right: [left * right], [x.sin()], [])[0].sum(0)


def with_more(x, scale):
    return associative_scan_op(lambda left, right, scale: [left * right + scale], [x], (scale,))[0]


def backwards(x):
    trees = {"a": x.sigmoid(), "b": x}

    def combine(left, right):
        return {"a": right["a"] * left["a"], "b": right["a"] * left["b"] + right["b"]}

    return associative_scan(combine, trees, 1, reverse=True, combine_mode="generic")


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_a_scan_is_one_graph(length, grad):
    made = (
        {}
        if length > 1 or not grad
        else {"graphs": None, "breaks": None, "skipped": True, "again": False}
    )  # torch traces that itself
    check(scan_pairs, vec(length, 3, grad=grad), vec(length, 3), backward=grad, **made)
    check(product, vec(length, 3, grad=grad), backward=grad, **made)


@pytest.mark.parametrize("grad", [False, True])
def test_trees_in_reverse_along_another_dimension(grad):
    check(backwards, vec(2, 5, grad=grad), backward=grad)


def test_more_inputs():
    check(with_more, vec(5, 3), vec(3))
    check(
        with_more, vec(5, 3), vec(3, grad=True), graphs=None, breaks=None, skipped=True, again=False
    )  # torch refuses


def test_others_break():
    def either(x):
        return cond_op(x.sum() > 0, lambda a: (a.sin(),), lambda a: (a.cos(),), (x,))[0] + 1

    check(either, vec(3), graphs=None, breaks=None, skipped=True)
