"""Arguments: in what the arguments of two calls have to be alike, so that a call of the second
module repeats that of the first."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ....backends.graph.memory import memory_of
from ....guards.kinds.equality import constant_key
from ...values.base import LazyValue, Value
from ...values.constant import Constant
from ...values.containers.sequence import TupleValue
from ...values.tensor.tensor import TensorValue


class Unlike(Exception):  # noqa: N818 - it steers: the call is interpreted
    """An argument of which it is not known what a call does with it."""


class Arguments:
    """`key`: equal for arguments that are alike. `made`: the tensors among them that the frame has
    made, one for each object. Everything else among them is the same for equal keys, and `kept`
    keeps it alive."""

    def __init__(self, args: list[Value], kwargs: dict[str, Value]) -> None:
        """Raises Unlike."""
        self.made: dict[torch.fx.Node, TensorValue] = {}
        self.kept: list[Value] = []
        self._memories: dict[int, int] = {}
        self.key: Hashable = (
            tuple(map(self._describe, args)),
            tuple((name, self._describe(value)) for name, value in kwargs.items()),
        )

    def _describe(self, value: Value) -> Hashable:
        describe = FAMILIES.get(type(value))
        if describe is None:
            raise Unlike
        return describe(self, value)

    def _same(self, value: Value) -> Hashable:
        self.kept.append(value)
        return "same", id(value)

    def _constant(self, value: Any) -> Hashable:
        return "constant", constant_key(value.object), value.source

    def _lazy(self, value: Any) -> Hashable:
        if value.source is None:
            raise Unlike
        return "lazy", value.source

    def _tuple(self, value: Any) -> Hashable:
        if value.source is not None or value.real is not None:
            return self._same(value)
        return "tuple", value.cls, tuple(map(self._describe, value.items))

    def _tensor(self, value: Any) -> Hashable:
        """A tensor's key: an existing one is the same or different, one made in the capture is
        known by the order of such tensors, its memory and its metadata."""
        if value.source is not None:
            return self._same(value)
        if value.real is not None or value.gradient is not None:
            raise Unlike
        position = list(self.made).index(value.node) if value.node in self.made else len(self.made)
        self.made.setdefault(value.node, value)
        memory = memory_of(value.fake) if value.fake.layout is torch.strided else -1
        return (
            "tensor",
            position,
            self._memories.setdefault(memory, len(self._memories)),
            value.cls,
            metadata(value.fake),
        )


FAMILIES = {
    Constant: Arguments._constant,
    LazyValue: Arguments._lazy,
    TupleValue: Arguments._tuple,
    TensorValue: Arguments._tensor,
}


def metadata(fake: torch.Tensor) -> tuple[Hashable, ...]:
    """All that code can ask of a plain fake tensor of static sizes; of its base at the end. Raises
    Unlike for others."""
    if (
        type(fake) is not FakeTensor
        or fake.constant is not None
        or fake.layout is not torch.strided
        or fake._has_symbolic_sizes_strides
    ):
        raise Unlike
    base = fake._base
    return (
        tuple(fake.shape),
        fake.stride(),
        fake.storage_offset(),
        fake.untyped_storage().nbytes(),
        fake.dtype,
        fake.fake_device,
        fake.requires_grad,
        fake.is_leaf,
        fake.is_inference(),
        torch._C._dispatch_keys(fake).raw_repr(),
        None if base is None else (tuple(base.shape), base.stride(), base.requires_grad),
    )
