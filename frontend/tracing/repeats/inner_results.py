"""Inner results: the tensors of a recorded call on memory that the call has made and of which it
returns no part. Nothing after the call can come to them, so their metadata, and which of them share
memory, are all there is to know. Where autograd has recorded nothing of them, their fakes in a
repeated call are made without running operators."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from ....backends.graph.memory import memory_of
from ....backends.graph.mutations import may_write
from ....records import record
from ..fake_tensors.fake_creation import make_fake
from .arguments import Unlike, metadata
from .new_results import NewMemory, is_plain


@record
class SharedMemory:
    """How to make a fake on the memory of another one, that of the node `owner`."""

    owner: torch.fx.Node
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def make(self, mode: FakeTensorMode, base: Any) -> torch.Tensor:
        # a view of `base` would load torch's classes of distributed tensors to compare it with them
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            meta = torch.empty(0, dtype=base.dtype, device="meta")
            meta.set_(base.untyped_storage(), self.offset, self.sizes, self.strides)
            return make_fake(mode, meta, base.fake_device)


@record
class NoTensor:
    """Of a node whose result is no tensor, such as a tuple whose items are nodes of their own."""

    owner = None

    def make(self, mode: FakeTensorMode, base: Any) -> None:
        return None


Recipe = NewMemory | SharedMemory | NoTensor
Recipes = dict[torch.fx.Node, Recipe]
NO_TENSOR = NoTensor()


def inner_recipes(
    nodes: Iterable[torch.fx.Node], returned: Iterable[torch.fx.Node], mode: FakeTensorMode
) -> Recipes:
    """How to make the results of those of a call's nodes that need no run: inner results, and what
    is no tensor. `returned`: the nodes whose tensors the call returns."""
    inside = dict.fromkeys(nodes)
    given = (one for node in inside for one in node.all_input_nodes if one not in inside)
    outer = {memory_at(node) for node in (*given, *returned)}
    groups: dict[int | None, list[torch.fx.Node]] = {}
    for node in inside:
        groups.setdefault(memory_at(node), []).append(node)
    found: Recipes = {}
    for memory, group in groups.items():
        if memory is not None and memory not in outer:
            found |= recipes_of(group, mode)
    for node in reversed(inside):
        if "example_value" not in node.meta and not may_write(node):
            if all(user in found for user in node.users):
                found[node] = NO_TENSOR
    kept: Recipes = {}
    for node in inside:  # an operator that runs makes the parts of its result, too
        if node in found and (not is_part(node) or node.args[0] in kept):
            kept[node] = found[node]
    return kept


def memory_at(node: torch.fx.Node) -> int | None:
    """Equal for nodes that are tensors on one storage; None for other nodes."""
    fake = node.meta.get("example_value")
    return memory_of(fake) if is_plain(fake) else None


def is_part(node: torch.fx.Node) -> bool:
    """Whether a node is a part of the result of another one, which was added with it."""
    return node.target is operator.getitem and "lines" not in node.meta


def recipes_of(group: list[torch.fx.Node], mode: FakeTensorMode) -> Recipes:
    """How to make all tensors on one memory; {} where metadata do not say all of them."""
    owner = group[0]
    first: Any = owner.meta["example_value"]
    if torch.is_inference_mode_enabled() or any(map(may_write, group)):
        return {}
    recipes: Recipes = {
        owner: NewMemory(tuple(first.shape), first.stride(), first.dtype, first.fake_device)
    }
    base = recipes[owner].make(mode, None)
    for node in group:
        fake: Any = node.meta["example_value"]
        if fake.dtype != first.dtype or fake.requires_grad or fake._version:
            return {}
        if node is owner:
            made = base
        else:
            place = tuple(fake.shape), fake.stride(), fake.storage_offset()
            recipes[node] = SharedMemory(owner, *place)
            made = recipes[node].make(mode, base)
        if not is_like(made, fake):
            return {}
    return recipes


def is_like(made: Any, fake: torch.Tensor) -> bool:
    """Whether a tensor has the metadata of another one, but for what autograd considers its
    base."""
    try:
        return metadata(made)[:-1] == metadata(fake)[:-1]
    except Unlike:
        return False
