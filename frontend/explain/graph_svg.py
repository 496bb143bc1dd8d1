"""A captured graph as SVG: one row for each step, with data flowing down. Colours are the page's
CSS classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import networkx

from .report_data import Node

MOST_NODES = 500
CHARACTER, PADDING = 6.6, 20  # pixels
HEIGHT, GAP_X, GAP_Y, MARGIN = 26, 16, 26, 12
SWEEPS = 6


@dataclass
class Box:
    """A node with its position; without a `node`, a bend in an edge over several rows."""

    name: str
    row: int
    node: Node | None = None
    x: float = 0.0  # of its middle

    @property
    def label(self) -> str:
        if self.node is None:
            return ""
        text = self.node.target if self.node.kind != "output" else "output"
        return text if len(text) <= 34 else f"{text[:14]}…{text[-19:]}"

    @property
    def width(self) -> float:
        return 2.0 if self.node is None else len(self.label) * CHARACTER + PADDING

    @property
    def y(self) -> float:
        return MARGIN + self.row * (HEIGHT + GAP_Y)


def svg(nodes: Sequence[Node]) -> str:
    """The drawing, "" where there is nothing to draw. Parameters are left out, and what comes after
    MOST_NODES nodes."""
    shown = [node for node in nodes if node.kind != "parameter"][:MOST_NODES]
    if not any(node.kind == "op" for node in shown):
        return ""
    rows, edges = rows_of(shown)
    place(rows, edges)
    boxes = {box.name: box for row in rows for box in row}
    width = max(box.x + box.width / 2 for box in boxes.values()) + MARGIN
    height = MARGIN * 2 + len(rows) * HEIGHT + (len(rows) - 1) * GAP_Y
    lines = [edge(boxes[first], boxes[second]) for first, second in edges]
    figures = [figure(box) for box in boxes.values() if box.node is not None]
    return (
        f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img">{"".join(lines)}{"".join(figures)}</svg>'
    )


def rows_of(nodes: Sequence[Node]) -> tuple[list[list[Box]], list[tuple[str, str]]]:
    """Boxes by row, each below its inputs, and edges between neighbouring rows."""
    graph = networkx.DiGraph()
    by_name = {node.name: node for node in nodes}
    graph.add_nodes_from(by_name)
    graph.add_edges_from(
        (name, node.name) for node in nodes for name in node.inputs if name in by_name
    )
    row = {
        name: number
        for number, names in enumerate(networkx.topological_generations(graph))
        for name in names
    }
    for node in nodes:  # an input stands just above the first that takes it
        users = [row[user] for user in graph.successors(node.name)]
        if node.kind == "input" and users:
            row[node.name] = min(users) - 1
    rows: list[list[Box]] = [[] for _ in range(max(row.values()) + 1)]
    for name, number in row.items():
        rows[number].append(Box(name, number, by_name[name]))
    edges: list[tuple[str, str]] = []
    for first, second in graph.edges:
        path = [
            first,
            *(f"{first}>{second}>{number}" for number in range(row[first] + 1, row[second])),
            second,
        ]
        for number, name in enumerate(path[1:-1], row[first] + 1):
            rows[number].append(Box(name, number))
        edges += pairwise(path)
    return rows, edges


def place(rows: list[list[Box]], edges: list[tuple[str, str]]) -> None:
    """Orders each row by the middle of what it is joined to, going down and up in turn, then
    spreads it."""
    boxes = {box.name: box for row in rows for box in row}
    above: dict[str, list[Box]] = {name: [] for name in boxes}
    below: dict[str, list[Box]] = {name: [] for name in boxes}
    for first, second in edges:
        above[second].append(boxes[first])
        below[first].append(boxes[second])
    for row in rows:
        spread(row)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            for box in row:
                joined = (above if sweep % 2 == 0 else below)[box.name]
                if joined:
                    box.x = sum(other.x for other in joined) / len(joined)
            row.sort(key=lambda box: box.x)
            spread(row)
    left = min(box.x - box.width / 2 for box in boxes.values())
    for box in boxes.values():
        box.x += MARGIN - left


def spread(row: list[Box]) -> None:
    """Moves boxes apart until none overlaps, the row as a whole staying where it was."""
    if not row:
        return
    wanted = sum(box.x for box in row)
    for left, right in pairwise(row):
        right.x = max(right.x, left.x + (left.width + right.width) / 2 + GAP_X)
    shift = (wanted - sum(box.x for box in row)) / len(row)
    for box in row:
        box.x += shift


def edge(first: Box, second: Box) -> str:
    start = first.y + (HEIGHT if first.node is not None else HEIGHT / 2)
    end = second.y + (0 if second.node is not None else HEIGHT / 2)
    middle = (start + end) / 2
    return (
        f'<path class="edge" d="M{first.x:.1f} {start:.1f} C{first.x:.1f} {middle:.1f} '
        f"{second.x:.1f} {middle:.1f} "
        f'{second.x:.1f} {end:.1f}"/>'
    )


def figure(box: Box) -> str:
    """A node as SVG: a rectangle with its label; its call, type and line are its tooltip."""
    node = box.node
    assert node is not None
    about = "\n".join(
        filter(
            None, (f"{node.name} = {node.target}({', '.join(node.inputs)})", node.type, node.line)
        )
    )
    return (
        f'<g class="node {node.kind}"><title>{escape(about)}</title><rect '
        f'x="{box.x - box.width / 2:.1f}" y="{box.y:.1f}" '
        f'width="{box.width:.1f}" height="{HEIGHT}" rx="6"/><text x="{box.x:.1f}" '
        f'y="{box.y + HEIGHT / 2 + 4:.1f}">'
        f"{escape(box.label)}</text></g>"
    )
