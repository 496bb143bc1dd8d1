"""Which values the subgraphs of one graph pass to each other. A backend whose results are in memory
of its own need not copy these."""

from __future__ import annotations

import torch.fx

from ...records import record

PASSED = "passed"  # in the meta of a subgraph's module


@record
class PassedValues:
    """Positions of a subgraph's values. inputs: those that another subgraph made. results: those
    that another subgraph reads. hidden: the ones among them that the caller does not get."""

    inputs: frozenset[int] = frozenset()
    results: frozenset[int] = frozenset()
    hidden: frozenset[int] = frozenset()


NOTHING = PassedValues()


def note_passed_values(gm: torch.fx.GraphModule, passed: PassedValues) -> None:
    gm.meta[PASSED] = passed


def passed_values(gm: torch.fx.GraphModule) -> PassedValues:
    """What a captured graph gets from others of the same graph, and passes to them."""
    passed: PassedValues = gm.meta.get(PASSED, NOTHING)
    return passed
