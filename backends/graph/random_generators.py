"""Operators that draw from a torch.Generator of the program's, which is an input of the graph, and
that seed it, keep its state or restore one."""

from __future__ import annotations

import itertools
from typing import Any

import torch

_numbers = itertools.count()


class NoGenerator:
    """Stands for a generator where operators run on fake tensors, and draw nothing."""


NO_GENERATOR = NoGenerator()


# What the program does to a generator, beside drawing from it. Without one they run on fakes, and
# do nothing. (By their names, random_draws.py takes them for draws, whose order counts.)


def random_state(size: int, *, generator: Any = None) -> torch.Tensor:
    """The generator's state: a tensor of `size` bytes."""
    if generator is None:
        return torch.empty(size, dtype=torch.uint8, device="cpu")
    found: torch.Tensor = generator.get_state()
    return found


def restore_random_state(state: torch.Tensor, *, generator: Any = None) -> None:
    if generator is not None:
        generator.set_state(state)


def seed_random_generator(seed: int, *, generator: Any = None) -> None:
    if generator is not None:
        generator.manual_seed(seed)


def seed_random_generators(seed: int, *, generator: Any = None) -> None:
    """Seeds torch's default generators, of which `generator` is the CPU's."""
    if generator is not None:
        torch.manual_seed(seed)


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
