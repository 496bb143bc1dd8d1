"""Functions compiled by torch.jit.script. Their Python source, which computes the same, is
inlined."""

from __future__ import annotations

import types
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Args, Kwargs, PendingCall, Value, require_path
from ..context import TraceContext
from ..objects.user_object import UserObject
from ..registry import wraps
from ..tensor.tensor import TensorValue


def python_of(obj: Any) -> types.FunctionType | None:
    """The function that was scripted. None for a traced function, which may do less than its
    Python, and for one that tests is_scripting()."""
    inner = getattr(obj, "_torchdynamo_inline", None)  # torch.jit's own mark, for compilers
    if not isinstance(inner, types.FunctionType) or "is_scripting" in inner.__code__.co_names:
        return None
    scripted = torch.jit._state._try_get_jit_cached_function(inner)
    return inner if scripted is not None and scripted.qualified_name == obj.qualified_name else None


class ScriptedFunction(UserObject):
    """A function under torch.jit.script, called by its Python source."""

    __slots__ = ()

    def tail_call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> PendingCall:
        inner = python_of(self.real)
        if inner is None or not self.accepts(args, kwargs):
            raise GraphBreak("unknown-call", f"TorchScript's {self.real.name}")
        return PendingCall(tx.wrap(inner, None), args, kwargs)

    def accepts(self, args: Args, kwargs: Kwargs) -> bool:
        """Whether the arguments for tensors are tensors: TorchScript raises for others, where
        Python might not."""
        declared = {one.name: str(one.type) for one in self.real.schema.arguments}
        given = dict(zip(declared, args, strict=False)) | kwargs
        return all(
            isinstance(value, TensorValue)
            if kind == "Tensor"
            else not isinstance(value, TensorValue) or "Tensor" in kind
            for name, kind in declared.items()
            if (value := given.get(name)) is not None
        )


@wraps(torch.jit.ScriptFunction)
def wrap_scripted(
    tx: TraceContext, obj: torch.jit.ScriptFunction[Any, Any], source: Source | None
) -> Value:
    source = require_path(obj, source, "scripted function")
    tx.guards.add(source, Kind.IS, obj)
    return tx.objects.remember(obj, ScriptedFunction(type(obj), obj, source))
