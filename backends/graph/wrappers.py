"""Wrapper subclasses in a captured graph: tensors that consist of inner tensors and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .fake_values import fake_of

# most values, and none of them wrappers
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, FakeTensor, int, type(None)})
PROTOCOL = ("__tensor_flatten__", "__tensor_unflatten__")


class WrapperDescription:
    """Base of what describes a wrapper by its class and `metadata`, what `__tensor_flatten__` gives
    beside the inner tensors."""


def is_wrapper(cls: type) -> bool:
    """Whether a class has torch's protocol of wrapper subclasses: `__tensor_flatten__`,
    `__tensor_unflatten__`, and a `__torch_dispatch__` of its own."""
    if cls in PLAIN:
        return False
    if torch.Tensor not in cls.__mro__ or not all(hasattr(cls, name) for name in PROTOCOL):
        return False
    return vars(torch.Tensor)["__torch_dispatch__"] is not next(
        vars(base)["__torch_dispatch__"]
        for base in cls.__mro__
        if "__torch_dispatch__" in vars(base)
    )


def names_of_tensors(wrapper: Any) -> tuple[str, ...]:
    """The names of a wrapper's inner tensors. (A DTensor also names its mesh, which is none.)"""
    names = wrapper.__tensor_flatten__()[0]
    return tuple(name for name in names if isinstance(getattr(wrapper, name), torch.Tensor))


def is_distributed(cls: type) -> bool:
    """Whether a class is DTensor: on instances, operators may communicate."""
    return cls.__name__ == "DTensor" and cls.__module__.startswith("torch.distributed.tensor")


def inner_tensors(wrapper: Any) -> Iterator[torch.Tensor]:
    """The plain tensors of which a wrapper, or a wrapper of wrappers, consists."""
    for name in names_of_tensors(wrapper):
        inner = getattr(wrapper, name)
        if is_wrapper(type(inner)):
            yield from inner_tensors(inner)
        else:
            yield inner


def fake_mode_of(fake: Any) -> Any:
    """The mode of a fake tensor, or of the fake tensors that a wrapper consists of."""
    tensor: Any = next(inner_tensors(fake)) if is_wrapper(type(fake)) else fake
    return tensor.fake_mode


def has_wrappers(gm: torch.fx.GraphModule) -> bool:
    """Whether a value of a captured graph is a wrapper."""
    return any(is_wrapper(type(fake_of(node))) for node in gm.graph.nodes)
