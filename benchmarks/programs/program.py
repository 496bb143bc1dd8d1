"""Program: one program of the benchmark, and what registers it."""
from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Compile = Callable[[Any], Any]  # of a function or a module
Step = Callable[[int], Any]  # what one step returns: tensors and numbers


@dataclass(frozen=True)
class Program:
    """`make(compile)`: builds models and data and returns the step. `needs`: packages beside torch."""

    name: str
    needs: tuple[str, ...]
    make: Callable[[Compile], Step]

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are not installed here."""
        return tuple(package for package in self.needs if importlib.util.find_spec(package) is None)


def on_cpu() -> bool:
    """Whether the benchmark runs on the CPU, by torch's default device."""
    return torch.get_default_device().type == "cpu"


def make_generator(seed: int) -> torch.Generator:
    """A generator of the device that the benchmark runs on, torch's default device."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


PROGRAMS: dict[str, Program] = {}


def program(name: str, *needs: str) -> Callable[[Callable[[Compile], Step]], Callable[[Compile], Step]]:
    """Registers a function that makes a program's step. Raises ValueError for a name that is taken."""

    def register(make: Callable[[Compile], Step]) -> Callable[[Compile], Step]:
        if name in PROGRAMS:
            raise ValueError(f"two programs are called {name!r}")
        PROGRAMS[name] = Program(name, needs, make)
        return make

    return register
