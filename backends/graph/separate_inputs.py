"""Gives inputs that share a storage without overlapping storages of their own.

Views of one buffer (chunks, rows, interleaved columns) can be treated as separate tensors where
guards check that they do not overlap. But compilers compare storages: aot_autograd would make one
input of them, with their offsets compiled in. In: a captured graph and its example inputs. Out: the
same, with other fake tensors in its nodes' meta and other examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .grad_mode import grad_mode_kept
from .gradient_history import note_history
from .memory import plain_memory_at
from .mode_switches import ENTER_AUTOCAST, EXIT_AUTOCAST, GRAD_MODE, switches_modes
from .node_targets import name_of, run_node

# nodes that switch modes, and may run again
UNDERSTOOD = (GRAD_MODE, ENTER_AUTOCAST, EXIT_AUTOCAST)


class Inseparable(Exception):
    """The graph cannot run on other fake tensors; the message says why."""


def shared_inputs(inputs: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """The inputs in storages that contain several inputs, one of them written."""
    places = {node: memory for node in inputs if (memory := plain_memory_at(node)) is not None}
    stored = Counter(places.values())
    written = {memory for node, memory in places.items() if node.meta.get("mutated")}
    return [node for node, memory in places.items() if memory in written and stored[memory] > 1]


def separate(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> list[Any]:
    """Gives inputs in shared, written storages storages of their own, in the graph's meta and in
    the returned examples. Raises Inseparable, with nothing changed."""
    inputs = gm.graph.find_nodes(op="placeholder")
    shared = shared_inputs(inputs)
    if not shared:
        return list(examples)
    # the example no longer has its original content
    anew = {*shared, *(node for node in inputs if node.meta.get("mutated"))}
    made = [
        on_separate_memory(item) if node in anew else item
        for node, item in zip(inputs, examples, strict=True)
    ]
    mode = shared[0].meta["example_value"].fake_mode
    fakes = {
        node: mode.from_tensor(item, static_shapes=True)
        for node, item in zip(inputs, made, strict=True)
        if node in anew
    }
    before = {node: dict(node.meta) for node in fakes}
    try:
        for node, fake in fakes.items():
            note_history(node, fake)
        found = propagate_fakes(gm, fakes, mode)
    except Inseparable:
        for node, meta in before.items():
            node.meta = meta
        raise
    for node, value in found.items():
        node.meta["example_value"] = value
    return made


def on_separate_memory(tensor: Any) -> torch.Tensor:
    """A tensor of the same kind on separate memory."""
    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, FakeTensor):
        raise Inseparable("sizes vary")
    if (
        tensor.is_conj()
        or tensor.is_neg()
        or tensor.is_inference()
        or type(tensor) not in (torch.Tensor, torch.nn.Parameter)
    ):
        raise Inseparable("one of them is no plain tensor")
    sizes, strides = tensor.shape, tensor.stride()
    reach = (
        sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
        if tensor.numel()
        else 0
    )
    with torch.no_grad():
        memory = tensor.detach().as_strided((reach,), (1,)).clone()
        made = memory.as_strided(sizes, strides).detach()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    if not tensor.requires_grad or tensor.is_leaf:
        return made.requires_grad_(tensor.requires_grad)
    with torch.enable_grad():
        return (memory.requires_grad_() * 1).as_strided(sizes, strides)


def propagate_fakes(
    gm: torch.fx.GraphModule, fakes: dict[torch.fx.Node, Any], mode: Any
) -> dict[torch.fx.Node, Any]:
    """Runs the graph on other fake inputs. The others, which are not written, stay as they are."""
    values: dict[torch.fx.Node, Any] = {}
    if any(switches_modes(node) and name_of(node) not in UNDERSTOOD for node in gm.graph.nodes):
        raise Inseparable("it switches modes")
    with grad_mode_kept(), mode:
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                values[node] = fakes.get(node, node.meta["example_value"])
            elif node.op == "output":
                break
            else:
                try:
                    values[node] = run_node(node, values.__getitem__)
                except Exception as error:
                    raise Inseparable(
                        f"{name_of(node)} cannot be run once more: {type(error).__name__}"
                    ) from error
    return {node: value for node, value in values.items() if "example_value" in node.meta}
