"""Tensors that cannot be graph inputs. They may be passed on; operations on them break."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Args, Kwargs, Value
from ..context import TraceContext

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


def why_opaque(real: torch.Tensor) -> str | None:
    """Why a tensor cannot be a graph input; None if it can."""
    if type(real) not in PLAIN_TENSORS:
        return type(real).__name__  # asking it anything may run its own code
    if (storage := opaque_storage(real)) is not None:
        return f"{type(real).__name__}, {storage}"
    if real._is_view() and (base := real._base) is not None:
        if (storage := opaque_storage(base)) is not None:
            return f"{type(real).__name__}, part of a {storage} tensor"
    return None


def opaque_storage(tensor: torch.Tensor) -> str | None:
    """What makes a tensor other than strided numbers in one storage; None if it is that."""
    if tensor.layout is not torch.strided:
        return str(tensor.layout)
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_nested:
        return "nested"
    return "functional" if torch._is_functional_tensor(tensor) else None


class OpaqueTensor(Value):
    """A tensor that existed before the frame: a subclass, sparse, quantized, nested."""

    __slots__ = ("real", "why")

    def __init__(self, real: torch.Tensor, source: Source, why: str) -> None:
        super().__init__(source)
        self.real, self.why = real, why

    def python_type(self) -> type:
        return type(self.real)

    def key(self, tx: TraceContext) -> Any:
        return tx.objects.identity_key(self, self.real)

    def unsupported_use(self, what: str) -> GraphBreak:
        return GraphBreak("subclass", f"{self.why} ({what})")

    def constant(self) -> Any:
        raise self.unsupported_use("its contents")

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        raise self.unsupported_use("as an argument")

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        raise self.unsupported_use("a call of it")


def is_opaque(real: Any) -> bool:
    return type(real) not in PLAIN_TENSORS or why_opaque(real) is not None


def wrap_opaque(tx: TraceContext, real: torch.Tensor, source: Source, why: str) -> Value:
    tx.guards.add(source, Kind.TYPE, type(real))
    if type(real) in PLAIN_TENSORS:  # one that graphs take deserves an entry of its own
        tx.guards.add(source, Kind.PYTHON, ("no graph takes it", is_opaque))
    return tx.objects.remember(real, OpaqueTensor(real, source, why))
