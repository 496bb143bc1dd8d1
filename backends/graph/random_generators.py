"""Operators that draw from a torch.Generator of the program's, which is an input of the graph."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count()


class NoGenerator:
    """Stands for a generator where operators run on fake tensors, and draw nothing."""


NO_GENERATOR = NoGenerator()


class DrawFrom:
    """The target of a node that calls an operator, or a method, with a generator."""

    def __init__(self, kind: str, target: Any) -> None:
        name = target if isinstance(target, str) else getattr(target, "__name__", "draw")
        self.__name__ = f"{name.rstrip('_')}_from_generator_{next(_numbers)}"
        self.kind, self.target = kind, target

    def __call__(self, *args: Any, generator: Any, **kwargs: Any) -> Any:
        named = kwargs if generator is NO_GENERATOR else {"generator": generator, **kwargs}
        if self.kind == "call_method":
            return getattr(args[0], self.target)(*args[1:], **named)
        return self.target(*args, **named)
