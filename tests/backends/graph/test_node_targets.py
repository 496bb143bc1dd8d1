"""The names of what graph nodes call."""

from __future__ import annotations

import torch
from framejit.backends.graph.node_targets import target_name


class Described:
    """A callable whose description takes long."""

    def __init__(self) -> None:
        self.described = 0

    def __str__(self) -> str:
        self.described += 1
        return "described"


def test_names_of_targets():
    assert target_name("sin") == "sin"
    assert target_name(torch.sin) == "sin"
    assert target_name(torch.ops.aten.sin.default) == "sin.default"
    assert target_name(Described()) == "described"


def test_a_target_with_a_name_is_not_described():
    target = Described()
    target.__name__ = "named"
    assert target_name(target) == "named" and target.described == 0
