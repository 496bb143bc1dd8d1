"""Removes attention masks that mask nothing: those that are computed without inputs and are all
True.

Some libraries create masks in Python when they detect a compiler, which would prevent attention's
fast kernels. Those kernels may lay out their result differently; where the graph's results would
show that, the mask stays. The nodes that computed the mask are left to dead code elimination.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.functional import scaled_dot_product_attention

from ..fake_values import fake_of
from ..memory import memory_of
from ..mutations import may_write
from ..node_targets import name_of, run_node
from .captured_nodes import example, is_understood, window_of
from .symbolic_sizes import varies

MASK_POSITION = 3  # position of attn_mask
MOST_NODES = 100
MOST_ELEMENTS = 1 << 24
RANDOM = ("rand", "dropout", "bernoulli", "normal", "uniform", "empty")


def drop_full_masks(graph: torch.fx.Graph) -> int:
    """Removes the mask from each attention whose mask is known to be all True; returns the number
    of removed masks."""
    known: dict[torch.fx.Node, Any] = {}
    dropped = 0
    for node in graph.nodes:
        mask = mask_of(node)
        if mask is not None and is_full(mask, known):
            dropped += without_mask(node)
    return dropped


def mask_of(node: torch.fx.Node) -> torch.fx.Node | None:
    """The node of an attention's mask."""
    if node.target is not scaled_dot_product_attention:
        return None
    mask = (
        node.args[MASK_POSITION] if len(node.args) > MASK_POSITION else node.kwargs.get("attn_mask")
    )
    return mask if isinstance(mask, torch.fx.Node) else None


def without_mask(node: torch.fx.Node) -> bool:
    """Removes an attention's mask unless results would show it. Nodes whose layout changes get new
    fake tensors."""
    before = node.args, node.kwargs
    replace_mask(node)
    # fake tensors with symbolic sizes keep their old layout
    if is_understood(example(node)) and not varies(example(node)):
        try:
            moved = nodes_with_new_layouts(node)
        except (RuntimeError, ValueError):  # a view of the old layout may not exist in the new one
            moved = None
        if moved is None:
            node.args, node.kwargs = before
            return False
        for other, fake in moved.items():
            other.meta["example_value"] = fake
    return True


def nodes_with_new_layouts(attention: torch.fx.Node) -> dict[torch.fx.Node, FakeTensor] | None:
    """The nodes whose layout changes, with their new fake tensors; None where the graph returns or
    writes one."""
    moved = {attention: with_new_layout(attention, {})}
    if window_of(moved[attention]) == window_of(example(attention)):
        return {}
    memory = {memory_of(moved[attention])}
    node = attention.next
    while node.op != "root":
        if not moved.keys().isdisjoint(node.all_input_nodes) and (
            node.users or node.op == "output" or may_write(node)
        ):
            if (
                node.op == "output"
                or may_write(node)
                or not all(map(is_tensor, (node, *node.all_input_nodes)))
            ):
                return None
            fake = with_new_layout(node, moved)
            if memory_of(fake) in memory or window_of(fake) != window_of(example(node)):
                moved[node] = fake
                memory.add(memory_of(fake))
        node = node.next
    return moved


def is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(example(node), FakeTensor)


def with_new_layout(node: torch.fx.Node, moved: dict[torch.fx.Node, FakeTensor]) -> FakeTensor:
    """The fake tensor of a node whose inputs have a new layout."""
    before = example(node)
    with before.fake_mode, torch.set_grad_enabled(before.requires_grad):
        return run_node(node, lambda other: moved.get(other, example(other)))


def replace_mask(node: torch.fx.Node) -> None:
    if len(node.args) > MASK_POSITION:
        node.args = (*node.args[:MASK_POSITION], None, *node.args[MASK_POSITION + 1 :])
    else:
        node.kwargs = {**node.kwargs, "attn_mask": None}


def is_full(mask: torch.fx.Node, known: dict[torch.fx.Node, Any]) -> bool:
    """Whether a mask is a constant of the graph and all True."""
    fake = fake_of(mask)
    if fake is None or fake.dtype is not torch.bool or varies(fake):
        return False
    if fake.numel() > MOST_ELEMENTS:
        return False
    ancestors = constant_ancestors(mask)
    if ancestors is None:
        return False
    with torch.no_grad():
        for node in ancestors:
            if node not in known:
                known[node] = run_node(node, known.__getitem__)
    return bool(known[mask].all())


def constant_ancestors(node: torch.fx.Node) -> list[torch.fx.Node] | None:
    """The nodes that compute a value, in order, if they use no inputs, random numbers, mutations
    or levels of torch.func, which are entered by nodes of their own."""
    found: dict[torch.fx.Node, None] = {}
    work = [node]
    while work:
        current = work.pop()
        if current in found:
            continue
        if not is_pure(current) or len(found) > MOST_NODES:
            return None
        found[current] = None
        work += current.all_input_nodes
    return [n for n in node.graph.nodes if n in found]


def is_pure(node: torch.fx.Node) -> bool:
    fake = node.meta.get("example_value")
    if node.op not in ("call_function", "call_method") or (
        isinstance(fake, torch.Tensor) and is_functorch_wrapped_tensor(fake)
    ):
        return False
    return not any(word in name_of(node) for word in RANDOM) and not any(
        map(may_write, (node, *node.users))
    )
