"""The ranges of torch.profiler.record_function, which only a profiler sees."""

from __future__ import annotations

import torch

from ..base import Value
from ..emitter import Emitter


class Annotation(Value):
    """An open range. A break inside it really opens it there."""

    __slots__ = ("name", "arguments")
    cls = torch.ScriptObject

    def __init__(self, name: Value, arguments: Value) -> None:
        super().__init__()
        self.name, self.arguments = name, arguments

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(torch.ops.profiler._record_function_enter_new, [self.name, self.arguments])
