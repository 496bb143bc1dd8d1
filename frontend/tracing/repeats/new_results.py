"""NewResults: which nodes of a recorded call give a tensor with memory of its own. The fake result
of such a node in a repeated call is made from metadata, without running the operator."""

from __future__ import annotations

from typing import TypeGuard

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ....backends.graph.memory import memory_of
from ....backends.graph.mutations import may_write
from ..fake_tensors.fake_results import NewTensor
from .arguments import Unlike, metadata


class NewResults:
    """How to make the results of a recorded call's nodes, found out when a node is repeated
    first."""

    def __init__(self) -> None:
        self._recipes: dict[torch.fx.Node, NewTensor | None] = {}

    def of(self, node: torch.fx.Node, mode: FakeTensorMode) -> torch.Tensor | None:
        """A new fake with the metadata of the node's result; None where the operator has to run, as
        autograd has a history of the result, or its memory is another tensor's."""
        if node not in self._recipes:
            self._recipes[node] = recipe_of(node, mode)
        recipe = self._recipes[node]
        return None if recipe is None else make_new(recipe, mode)


def recipe_of(node: torch.fx.Node, mode: FakeTensorMode) -> NewTensor | None:
    """How to make a result like that of a node; None where metadata do not say all of it."""
    result = node.meta.get("example_value")
    given = [one.meta.get("example_value") for one in node.all_input_nodes]
    plain = list(filter(is_plain, given))
    if may_write(node) or not is_plain(result) or len(plain) < len(given):
        return None
    if (
        result.requires_grad
        or not result.is_leaf
        or result.is_inference()
        or torch.is_inference_mode_enabled()
        or result._is_view()
        or result._version
        or memory_of(result) in set(map(memory_of, plain))
    ):
        return None
    recipe = NewTensor(tuple(result.shape), result.stride(), result.dtype, result.fake_device)
    try:
        return recipe if metadata(make_new(recipe, mode)) == metadata(result) else None
    except Unlike:
        return None


def is_plain(fake: object) -> TypeGuard[FakeTensor]:
    """Whether a node's result is one tensor laid out by strides."""
    return isinstance(fake, FakeTensor) and fake.layout is torch.strided


def make_new(recipe: NewTensor, mode: FakeTensorMode) -> torch.Tensor:
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        made: torch.Tensor = recipe.make(mode, ())
    return made
