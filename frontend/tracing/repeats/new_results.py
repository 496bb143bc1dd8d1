"""New results: the nodes of a recorded call that give a tensor with memory of its own, which to
autograd is no view. The fake result of such a node in a repeated call is made from metadata,
without running the operator."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ....backends.graph.memory import memory_of
from ....backends.graph.mutations import may_write
from ....records import record
from ..fake_tensors.fake_creation import make_fake
from .arguments import Unlike, metadata


@record
class NewMemory:
    """How to make a fake on memory of its own."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    owner = None  # the node on whose memory it is

    def make(self, mode: FakeTensorMode, base: Any) -> torch.Tensor:
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            meta = torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device="meta")
            return make_fake(mode, meta, self.device)


def new_recipe(node: torch.fx.Node, mode: FakeTensorMode) -> NewMemory | None:
    """How to make a result like that of a node; None where the operator has to run, as autograd
    has a history of the result, or its memory is another tensor's."""
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
    recipe = NewMemory(tuple(result.shape), result.stride(), result.dtype, result.fake_device)
    try:
        return recipe if metadata(recipe.make(mode, None)) == metadata(result) else None
    except Unlike:
        return None


def is_plain(fake: object) -> TypeGuard[FakeTensor]:
    return isinstance(fake, FakeTensor) and fake.layout is torch.strided
