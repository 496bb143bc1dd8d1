"""Instances of wrapper classes that have a `__torch_function__` of their own: a node of the graph
like other wrappers, and the class's `__torch_function__`, interpreted.

While such an instance is captured, torch calls no `__torch_function__` of a class itself. Nor does
it while the graph is compiled and run: what the method would do is in the graph.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ....backends.graph.wrappers import is_distributed
from ....guards.source import Source
from ..base import Value
from ..context import TraceContext
from ..emitter import Emitter
from ..objects.class_value import ClassValue, bind
from ..objects.mro import lookup
from .distributed_tensor import DistributedTensor
from .tensor import TensorValue
from .tensor_subclass import TORCHS, TensorObject
from .wrapper_subclass import WrapperTensor, has_known_torch_function


def family_of(cls: type) -> type[WrapperTensor]:
    """The family of values for instances of a wrapper class."""
    if not has_known_torch_function(cls):
        return OverriddenTensor
    return DistributedTensor if is_distributed(cls) else WrapperTensor


class OverriddenTensor(WrapperTensor):
    """What operators take for an instance where its `__torch_function__` is not called. `instance`:
    what the program sees."""

    __slots__ = ("instance",)

    def __init__(
        self,
        node: torch.fx.Node,
        fake: torch.Tensor,
        source: Source | None,
        cls: type,
        real: torch.Tensor | None = None,
    ) -> None:
        super().__init__(node, fake, source, cls, real)
        self.instance = OverridingWrapper(self)

    def as_seen(self) -> Value:
        return self.instance


class OverridingWrapper(TensorObject):
    """An instance. `plain` is the wrapper without its class's `__torch_function__`."""

    __slots__ = ()

    def __init__(self, plain: OverriddenTensor) -> None:
        super().__init__(plain.cls, plain, plain.real, plain.source)

    def generic_attribute(self, tx: TraceContext, name: str) -> Value:
        owner, raw = lookup(self.cls, name)
        wrapper: Any = self.plain
        if wrapper.has_own(name, raw):
            own = wrapper.own_attribute(tx, name)
            return own.as_seen() if isinstance(own, TensorValue) else own
        if owner in TORCHS and owner is not object:
            return super().generic_attribute(tx, name)
        raw, source = self.raw_attribute(tx, name)
        return bind(tx, raw, self, ClassValue(self.cls, self.class_path), source)

    set_attribute, del_attribute = Value.set_attribute, Value.del_attribute  # which break

    def reconstruct(self, emit: Emitter) -> None:
        self.plain.reconstruct(emit)
