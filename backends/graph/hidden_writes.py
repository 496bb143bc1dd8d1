"""Writes into tensors with autograd history that autograd does not record: under no_grad, through
`.data` or detach().

torch's operators leave the history as it was. A compiled graph writes once, at its end, and what it
writes has a history or has none.
"""

from __future__ import annotations

import torch
import torch.fx

from .mutations import is_norm, may_write, written_nodes
from .node_targets import name_of
from .passes.memory import plain_memory_at
from .runtime_errors import GRAD_MODE


def hides_writes(gm: torch.fx.GraphModule) -> bool:
    """Whether a captured graph writes so into the memory of an input that comes with a history."""
    inputs = gm.graph.find_nodes(op="placeholder")
    made = {plain_memory_at(node) for node in inputs if node.meta.get("grad_fn") is not None} - {
        None
    }
    if not made:
        return False
    grad = True
    for node in gm.graph.nodes:
        if name_of(node) == GRAD_MODE:
            grad = bool(node.args[0])
        elif node.op.startswith("call_") and not is_norm(node) and may_write(node):
            for written in written_nodes(node):
                if plain_memory_at(written) in made and not (
                    grad and written.meta["example_value"].requires_grad
                ):
                    return True
    return False
