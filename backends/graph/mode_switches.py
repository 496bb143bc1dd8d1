"""Nodes of a captured graph that switch one of torch's modes for later nodes."""

from __future__ import annotations

from collections.abc import Iterable

import torch.fx

from .node_targets import name_of

GRAD_MODE = "_set_grad_enabled"
ENTER_AUTOCAST, EXIT_AUTOCAST = "_enter_autocast", "_exit_autocast"
ENTER_INFERENCE_MODE = "_enter_inference_mode"
ENTER_VMAP, EXIT_VMAP = "_vmap_increment_nesting", "_leave_vmap"  # the latter is ours
ENTER_LEVEL = (ENTER_VMAP, "_grad_increment_nesting", "_jvp_increment_nesting")  # of torch.func
MODES = (GRAD_MODE, ENTER_AUTOCAST, ENTER_INFERENCE_MODE, *ENTER_LEVEL)


def switches_modes(node: torch.fx.Node) -> bool:
    """Whether a node switches one of torch's modes for later nodes."""
    return name_of(node) in MODES


def leaves_vmap_open(nodes: Iterable[torch.fx.Node]) -> bool:
    """Whether a level of torch.func.vmap begins or ends among nodes, but not both."""
    names = [name_of(node) for node in nodes]
    return names.count(ENTER_VMAP) != names.count(EXIT_VMAP)
