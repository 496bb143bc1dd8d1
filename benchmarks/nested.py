"""Batches of sequences of different lengths as one tensor, forward and backward: torch's nested tensor written in C++, its jagged one in
Python, and the one of examples/nested_tensor.py. The program and the sizes are those of the notes by which nested tensors in Python
were proposed."""
from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import framejit
import torch

CASES = {f"{units} x 2^{log2}": (units, log2) for units in (2, 10) for log2 in (14, 16, 18, 20)}
EXAMPLE = Path(__file__).parents[1] / "examples" / "nested_tensor.py"  # in a checkout
FEATURES = 64
SETTLING = 4.0  # seconds of calls before those that count, in which compiling is earned back
LENGTHS = 20, 30, 40  # of the sequences, as parts of 2^n / FEATURES rows
SYSTEMS: dict[str, tuple[str, Callable[..., Any] | None]] = {
    "C++": ("strided", None),
    "jagged": ("jagged", None),
    "jagged, torch.compile": ("jagged", torch.compile),
    "jagged, framejit": ("jagged", framejit.compile),
    "the example": ("example", None),
    "the example, torch.compile": ("example", torch.compile),
    "the example, framejit": ("example", framejit.compile),
}


def program(units: int, weight: torch.Tensor, bias: torch.Tensor) -> Callable[[Any], Any]:
    """Units of sin, cos, mul, linear and add."""

    def forward(x: Any) -> Any:
        for _ in range(units):
            x = torch.nn.functional.linear(x.sin() * x.cos(), weight, bias) + x
        return x

    return forward


def example() -> Any:
    """The module of the example. Raises FileNotFoundError where there is no checkout."""
    spec = importlib.util.spec_from_file_location("nested_tensor", EXAMPLE)
    assert spec is not None and spec.loader is not None, EXAMPLE
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure_case(name: str, device: str, seconds: float = 1.0) -> dict[str, tuple[float, float] | str]:
    """By system: milliseconds of a step (forward and backward, median), and the error of the input's gradient relative to that of
    the rows as a matrix; or what the system raised."""
    units, log2 = CASES[name]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    run = program(units, torch.randn(FEATURES, FEATURES, device=device) / 8, torch.randn(FEATURES, device=device))
    parts = [torch.randn(max(1, length * 2**log2 // FEATURES), FEATURES, device=device) for length in LENGTHS]
    rows = torch.cat(parts).requires_grad_()
    (wanted,) = torch.autograd.grad(run(rows).sum(), rows)
    found: dict[str, tuple[float, float] | str] = {}
    for system, (layout, compile_it) in SYSTEMS.items():
        torch.compiler.reset()
        try:
            x = nested_tensor(parts, layout)
            milliseconds = median_step(compile_it(run) if compile_it else run, x, device, seconds)
            error = (rows_of(x.grad) - wanted).norm() / wanted.norm()
            found[system] = milliseconds, float(error)
        except Exception as problem:
            found[system] = f"{type(problem).__name__}: {str(problem)[:80]}"
    return found


def nested_tensor(parts: list[torch.Tensor], layout: str) -> Any:
    """The sequences as one tensor that takes a gradient."""
    if layout == "example":
        return example().NestedTensor.of(parts).requires_grad_()
    return torch.nested.nested_tensor(parts, layout=getattr(torch, layout), requires_grad=True)


def rows_of(x: Any) -> torch.Tensor:
    """The rows of all sequences, one behind the other."""
    if hasattr(x, "rows"):
        return x.rows()
    if x.layout == torch.jagged:
        return x.values()
    return torch.cat([part.reshape(-1, FEATURES) for part in x.unbind()])


def median_step(run: Callable[[Any], Any], x: Any, device: str, seconds: float) -> float:
    """Milliseconds."""

    def step() -> float:
        start = time.perf_counter()
        x.grad = None
        result = run(x)
        total = result.to_padded_tensor(0.0) if result.layout == torch.strided and result.is_nested else rows_of(result)
        total.sum().backward()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    def steps(budget: float) -> list[float]:
        times: list[float] = []
        end = time.perf_counter() + budget
        while time.perf_counter() < end or len(times) < 5:
            times.append(step())
        return times

    steps(SETTLING)
    return statistics.median(steps(seconds)) * 1e3
