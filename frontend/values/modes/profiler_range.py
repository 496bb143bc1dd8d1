"""The ranges of torch.profiler.record_function, which only a profiler sees."""

from __future__ import annotations

import types
from typing import Any

import torch

from ..base import Value
from ..emitter import Emitter


class Annotation(Value):
    """An open range. A break inside it really opens it there."""

    __slots__ = ("name", "arguments")

    def __init__(self, name: Value, arguments: Value) -> None:
        super().__init__()
        self.name, self.arguments = name, arguments

    def python_type(self) -> type:
        return torch.ScriptObject

    def truth(self, tx: Any) -> bool:
        return True

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(torch.ops.profiler._record_function_enter_new, [self.name, self.arguments])


class DispatchWithoutSubclasses(Value):
    """torch._C.DisableTorchFunctionSubclass(): tensor subclasses are plain tensors inside. It does
    not survive a break, which is made before it instead."""

    __slots__ = ("created_at",)

    def __init__(self, created_at: int) -> None:
        super().__init__()
        self.created_at = created_at

    def python_type(self) -> type:
        cls: Any = torch._C.DisableTorchFunctionSubclass
        return cls

    def attribute(self, tx: Any, name: str) -> Value:
        if name in ("__enter__", "__exit__"):
            return Switch(self, 1 if name == "__enter__" else -1)
        raise self.unsupported_use(f"attribute {name}")


class Switch(Value):
    """Its __enter__ or __exit__."""

    __slots__ = ("of", "created_at", "more")

    def __init__(self, of: DispatchWithoutSubclasses, more: int) -> None:
        super().__init__()
        self.of, self.created_at, self.more = of, of.created_at, more

    def python_type(self) -> type:
        return types.MethodType

    def call(self, tx: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        tx.modes.subclasses_off += self.more
        return tx.wrap(None, None)
