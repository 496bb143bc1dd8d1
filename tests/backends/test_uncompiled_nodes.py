"""Calls of higher-order operators: what backends get of a graph that contains some."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.higher_order_call import HigherOrderCall
from framejit.backends.registry import Backend
from framejit.backends.uncompiled_nodes import compile_around
from framejit.errors import RequirementError
from framejit.events import UNREPORTED


def captured(fn, *args):
    """The graph of a function as captured, before a backend gets it."""
    graphs = []

    def keep(gm, examples):
        graphs.append(gm)
        return gm.forward

    handle = framejit.compile(fn, backend=keep)
    handle(*args)
    return graphs


def between(x):
    y = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x + 1,))
    return y * 2 + x


def counts(gm):
    return sum(isinstance(node.target, HigherOrderCall) for node in gm.graph.nodes)


def test_a_backend_gets_the_graphs_between():
    graphs = captured(between, torch.ones(3))
    assert len(graphs) == 2 and not any(map(counts, graphs))


@pytest.mark.parametrize("fails", [False, True])
def test_a_backend_that_takes_them_gets_the_whole_graph_first(fails):
    seen = []

    def build(gm, examples):
        seen.append(counts(gm))
        if fails and counts(gm):
            raise ValueError("no rule for this")
        return gm.forward

    run_graph(build)
    assert seen == ([1, 0, 0] if fails else [1])


def test_what_the_user_requires_is_not_worked_round():
    def build(gm, examples):
        raise RequirementError("cannot")

    with pytest.raises(RequirementError):
        run_graph(build)


def run_graph(build):
    """Compiles the graph of `between` with a backend that takes higher-order operators."""
    backend = Backend("whole", build, higher_order=True)
    x = torch.ones(3)

    def keep(gm, examples):
        compiled = compile_around(gm, examples, backend, build, UNREPORTED)
        torch.testing.assert_close(compiled(x)[0], between(x))
        return gm.forward

    framejit.register_backend("keeps_whole_graphs", keep, higher_order=True)
    try:
        with framejit.config.patch(strict=True, suppress_errors=False):
            framejit.compile(between, backend="keeps_whole_graphs")(x)
    except framejit.BackendError as error:
        raise error.__cause__ from None
    finally:
        framejit.backends.registry._backends.pop("keeps_whole_graphs")
