"""Compiles BERT (random weights, nothing is downloaded), checks it against eager, and shows what was captured and how fast it is.

    python examples/quickstart.py [--seconds 2]

Then explains a function with two deliberate graph breaks. Exits with 1 when a result differs from eager's by more than the
rounding of float32: fused kernels add up in another order.
"""
from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import framejit
import torch
from rich.console import Console
from rich.table import Table
from transformers import BertConfig, BertForMaskedLM

console = Console()
ROUNDING = dict(rtol=1e-5, atol=1e-6)


def bert() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A small BERT, and the keyword arguments of a call: 2 sequences of 32 tokens."""
    torch.manual_seed(0)
    config = BertConfig(vocab_size=4096, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256)
    return BertForMaskedLM(config).eval(), {"input_ids": torch.randint(0, 4096, (2, 32))}


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def time_in_turn(calls: dict[str, Callable[[], Any]], budget: float) -> dict[str, float]:
    """Median milliseconds of each call; taken in turns, so that a drift of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(times[next(iter(times))]) < 5:
        for name, call in calls.items():
            times[name].append(seconds(call))
    return {name: statistics.median(taken) * 1e3 for name, taken in times.items()}


@torch.no_grad()
def show_model(budget: float) -> bool:
    """Compiles the model and prints a table. Returns whether its output equals eager's."""
    with console.status("building BERT"):
        eager, inputs = bert()
        model = framejit.compile(copy.deepcopy(eager))
        wanted = eager(**inputs).logits
    with console.status("compiling: the first call captures the model"):
        start = time.perf_counter()
        got = model(**inputs).logits
        first = time.perf_counter() - start
    with console.status(f"measuring for {budget:g} s"):
        steady = time_in_turn({"eager": lambda: eager(**inputs), "framejit": lambda: model(**inputs)}, budget)
    report = model.framejit.explain()
    again = model(**inputs).logits
    equal = torch.allclose(got, wanted, **ROUNDING) and torch.allclose(again, wanted, **ROUNDING)
    largest = (again - wanted).abs().max().item()

    table = Table("", "BERT, 2 layers, 2 x 32 tokens", title="framejit on a transformer", title_justify="left")
    table.add_row("graphs", str(len(report.graphs)))
    table.add_row("ops captured", str(report.ops))
    table.add_row("graph breaks", str(len(report.breaks)))
    table.add_row("first call", f"{first:.2f} s")
    table.add_row("a call, eager", f"{steady['eager']:.2f} ms")
    table.add_row("a call, compiled", f"{steady['framejit']:.2f} ms (x{steady['eager'] / steady['framejit']:.2f})")
    table.add_row("equal to eager", ("[green]yes[/]" if equal else "[red]NO[/]") + f", to within {largest:.0e}")
    for choice in report.choices:
        table.add_row("runs on", choice.backend)
    console.print(table)
    return equal


def normalise(x: torch.Tensor) -> torch.Tensor:
    """Two breaks on purpose: each costs its statement, what stands before and after is captured."""
    x = x - x.mean()
    print(f"normalising {len(x)} numbers")
    largest = x.abs().max()
    if largest > 1:
        x = x / largest
    return x.tanh() * 2


def show_breaks() -> bool:
    """Explains a function that cannot be one graph. Returns whether its result equals eager's."""
    x = torch.linspace(-3, 5, 9)
    report = framejit.explain(normalise)(x)
    console.print(report)
    return torch.equal(report.result, normalise(x))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2, help="how long to measure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # so small a model gains nothing from more, and on a busy machine they wait for each other
    right = [show_model(arguments.seconds), show_breaks()]
    if not all(right):
        console.print("[red]a result differs from eager's")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
