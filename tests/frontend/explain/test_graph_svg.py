"""Graphs as drawings: rows follow the data, nothing overlaps, text is escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from framejit.frontend.explain.graph_svg import GAP_X, place, rows_of, svg
from framejit.frontend.explain.report_data import Node


def node(name, *inputs, kind="op", target=""):
    return Node(name, kind, target or name, inputs, "float32[3]", "a.py:1")


DIAMOND = (
    node("x", kind="input"), node("w", kind="parameter"), node("left", "x", "w"), node("right", "x"), node("far", "left"),
    node("sum", "far", "right", "x"), node("output", "sum", kind="output"),
)  # fmt: skip


@pytest.mark.parametrize(
    "nodes", [DIAMOND, DIAMOND[:1] + tuple(node(f"op{n}", "x") for n in range(30))]
)
def test_data_flows_down_and_nothing_overlaps(nodes):
    rows, edges = rows_of([one for one in nodes if one.kind != "parameter"])
    place(rows, edges)
    boxes = {box.name: box for row in rows for box in row}
    assert all(boxes[second].row == boxes[first].row + 1 for first, second in edges)
    for row in rows:
        for left, right in pairwise(sorted(row, key=lambda box: box.x)):
            assert right.x - right.width / 2 >= left.x + left.width / 2 + GAP_X - 1e-6
    assert all(box.x - box.width / 2 >= 0 for box in boxes.values())


def test_it_is_good_svg():
    root = ElementTree.fromstring(svg((*DIAMOND, node("odd", "sum", target='<b> & "q"'))))
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"left", "right", "far", "sum", '<b> & "q"'} <= set(texts) and "w" not in texts


def test_long_names_are_shortened_and_nothing_gives_nothing():
    assert "…" in svg((node("x", kind="input"), node("y", "x", target="a" * 60)))
    assert svg(()) == "" and svg((node("x", kind="input"),)) == ""
