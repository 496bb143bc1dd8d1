"""Which instructions are in a loop."""

from __future__ import annotations

import argparse
import textwrap

import networkx
from framejit.frontend.pycode.decode import decode
from framejit.frontend.pycode.liveness import loop_around, successors


def functions_of(*owners):
    return [
        code
        for owner in owners
        for value in vars(owner).values()
        if (code := getattr(value, "__code__", None))
    ]


def test_loops_are_the_strong_components_of_the_control_flow():
    loops = 0
    for code in functions_of(argparse, argparse.ArgumentParser, textwrap.TextWrapper):
        decoded = decode(code)
        graph = networkx.DiGraph(
            (i, j) for i in range(len(decoded.instrs)) for j in successors(decoded, i)
        )
        expected = {
            index: frozenset(component)
            for component in networkx.strongly_connected_components(graph)
            for index in component
            if len(component) > 1 or graph.has_edge(index, index)
        }
        for index in range(len(decoded.instrs)):
            assert loop_around(decoded, index) == expected.get(index, frozenset())
        loops += len(set(expected.values()))
    assert loops > 20
