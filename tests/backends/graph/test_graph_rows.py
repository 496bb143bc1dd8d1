"""Graphs of copies as plain values."""

from __future__ import annotations

import pickle

import pytest
import torch
from framejit.backends.graph.copies import INPUT, Copies, template, with_code
from framejit.backends.graph.graph_rows import GraphRows, Place

aten = torch.ops.aten


def make_graph():
    """(x * constant, None, cat([y, y, x]).sum(0))"""
    constant = torch.fx.Graph().get_attr("constant")
    graph = Copies({"constant": torch.tensor([2.0, 3.0]), "unused": object()}, "Graph")
    x, y = (graph.add(INPUT, (), {"val": None}, name) for name in "xy")
    product = graph.add(template(aten.mul.Tensor, "a", "b"), [x, graph.add(constant, (), {})], {})
    inputs = torch.fx.Graph()
    given, last = inputs.placeholder("given"), inputs.placeholder("last")
    joined = graph.add(inputs.call_function(aten.cat.default, ([given, given, last],)), [y, x], {})
    total = inputs.call_function(aten.sum.dim_IntList, (given, [0]), {"keepdim": True})
    graph.output([product, None, graph.add(total, [joined], {})])
    return graph


def test_a_graph_of_rows_gives_what_the_graph_gives():
    x, y = torch.tensor([1.0, 4.0]), torch.tensor([5.0, 6.0])
    rows = GraphRows.of(make_graph())
    want = with_code(make_graph().module())(x, y)
    found = with_code(rows.module())(x, y)
    assert (want[1], found[1]) == (None, None)
    torch.testing.assert_close([found[0], found[2]], [want[0], want[2]], rtol=0, atol=0)
    assert found[2].tolist() == [27.0]


def test_equal_operators_are_one():
    graph = Copies({}, "Graph")
    sine = template(aten.sin.default, "x")
    node = graph.add(INPUT, (), {}, "x")
    for _ in range(3):
        node = graph.add(sine, [node], {})
    graph.output([node])
    rows = GraphRows.of(graph)
    assert rows.operators == (("call_function", aten.sin.default, (Place(0),), {}),)
    assert rows.rows == ((-1,), (0, 0), (0, 1), (0, 2)) and rows.results == (3,)


def test_a_constant_that_is_too_large_is_not_written():
    graph = Copies({"constant": torch.zeros(1 << 19)}, "Graph")
    graph.output([graph.add(torch.fx.Graph().get_attr("constant"), (), {})])
    with pytest.raises(ValueError, match="a constant that is large"):
        pickle.dumps(GraphRows.of(graph))
