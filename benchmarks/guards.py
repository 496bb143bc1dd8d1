"""What guards cost: a run of so many of them, with paths shared and not, and a hit of a compiled model by what it looks at."""
from __future__ import annotations

import inspect
import time
import types
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import framejit
import torch
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind
from framejit.guards.native import watching
from framejit.guards.program import GuardProgram
from torch import nn

from . import dispatch, zoo

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
COUNTS = (10, 100, 1000)
WAYS = {"watched": None, "looked at again": "values"}  # see guards/native/watching.py
SECONDS = 0.2  # of rounds, for each figure
DEPTH = 3  # attributes on the way to each thing that is guarded


def best(call: Callable[[], Any]) -> float:
    """Nanoseconds of a call: the best of many rounds."""
    found, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        for _ in range(20):
            call()
        found = min(found, (time.perf_counter_ns() - start) / 20)
    return found


def holder_of(count: int) -> types.SimpleNamespace:
    """Numbers that lie DEPTH attributes deep."""
    holder = types.SimpleNamespace(**{f"n{number}": number for number in range(count)})
    for _ in range(DEPTH - 1):
        holder = types.SimpleNamespace(inner=holder)
    return holder


def path_to(name: str) -> s.Source:
    path: s.Source = s.SlotSource(0, "x")
    for step in (*["inner"] * (DEPTH - 1), name):
        path = s.DictItem(s.InstanceDict(path), step)
    return path


def measure_counts() -> dict[int, dict[str, float]]:
    """By number of guards: nanoseconds of a run with common paths walked once, and with each walked from its root."""
    rows = {}
    for count in COUNTS:
        guards = [Guard(path_to(f"n{number}"), Kind.EQUALS, number) for number in range(count)]
        slots = (holder_of(count),)
        programs = {name: GuardProgram.build(guards, share=share).native() for name, share in (("shared", True), ("not shared", False))}
        function = cast(types.FunctionType, holder_of)
        assert all(program.check(slots, function) for program in programs.values())
        rows[count] = {name: best(partial(program.check, slots, function)) for name, program in programs.items()}
    return rows


def modules_200() -> Case:
    model, inputs = dispatch.modules_200()
    assert isinstance(model, nn.Module)
    return model, inputs, {}


def bert() -> Case:
    model, (args, kwargs) = zoo.build("hf:bert", zoo.Scale.of_size("small", "cpu", torch.float32))
    return model, args, kwargs


MODELS: dict[str, Callable[[], Case]] = {"200 modules": modules_200, "hf:bert": bert}


class Sum(nn.Module):
    """As many parameters, all of this one module."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.terms = nn.ParameterList([nn.Parameter(torch.ones(2)) for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for term in self.terms:
            x = x + term
        return x


class Stack(nn.Module):
    """As many modules of one class."""

    def __init__(self, count: int, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([make() for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


SIZES = (10, 110, 210)
GROWING: dict[str, Callable[[int], nn.Module]] = {
    "a parameter": Sum,
    "a module": lambda count: Stack(count, nn.Tanh),
    "a module with two parameters": lambda count: Stack(count, partial(nn.Linear, 2, 2)),
}


@torch.no_grad()
def check_of(case: Case, forced: str | None) -> tuple[int, float]:
    """Of a compiled model: how many guards it has, and nanoseconds of the check of a call that hits."""
    watching.force(forced)
    model, args, kwargs = case
    framejit.compile(model)
    model(*args, **kwargs)
    model(*args, **kwargs)
    (control,) = cast(Any, model).framejit._controls
    function = control.cache.handle.function
    slots = slots_of(function, (model, *args), kwargs)
    entry = control.cache.root.entries[0]
    assert entry.program.check(slots, function)
    watching.force(None)
    return len(entry.data.guards), best(partial(entry.program.check, slots, function))


def measure_hit(name: str) -> dict[str, float]:
    """Of a compiled model: its modules and parameters, and nanoseconds of the check of a call that hits, by way of watching."""
    row: dict[str, float] = {}
    torch.set_num_threads(1)
    for way, forced in WAYS.items():
        case = MODELS[name]()
        row["guards"], row[way] = check_of(case, forced)
        row |= {"modules": len(list(case[0].modules())), "parameters": len(list(case[0].parameters()))}
    return row


def measure_growth(name: str) -> dict[int, float]:
    """Nanoseconds of the check of a call that hits, by how many there are of what the name says."""
    torch.set_num_threads(1)
    return {count: check_of((GROWING[name](count), (torch.ones(2),), {}), None)[1] for count in SIZES}


def slots_of(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments as the function's frame would hold them."""
    bound = inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)
    bound.apply_defaults()
    code = function.__code__
    variadic = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + variadic
    return tuple(bound.arguments[name] for name in code.co_varnames[:count])
