"""Trains a small transformer for a few steps, in eager and compiled, side by side.

    python examples/train.py [--steps 5] [--backend autotune]

Prints both losses of each step, then what runs and how long a step takes once that is decided. Exits with 1 when the losses differ.
"""
from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time

import framejit
import torch
from rich.console import Console
from rich.table import Table

console = Console()


class Classifier(torch.nn.Module):
    """Token ids (batch, length) -> logits (batch, classes), by one attention block and a mean over the length."""

    def __init__(self, vocabulary: int = 256, width: int = 32, heads: int = 4, classes: int = 5) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.mixed = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))
        self.head = torch.nn.Linear(width, classes)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.mixed(out.transpose(1, 2).reshape(batch, length, width))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        x = x + self.attention(self.norms[0](x))
        x = x + self.mlp(self.norms[1](x))
        return self.head(x.mean(1))


class Training:
    """A model and its optimizer, one step of SGD at a time."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(self, ids: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
        """Returns the loss, and how many milliseconds the step took."""
        start = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(self.model(ids), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), (time.perf_counter() - start) * 1e3


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, 256, (8, 16)), torch.randint(0, 5, (8,))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--backend", default="autotune")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so small a model gains nothing from more, and on a busy machine they wait for each other
    eager = Classifier()
    compiled = framejit.compile(copy.deepcopy(eager), backend=asked.backend)
    plain, fast = Training(eager), Training(compiled)

    table = Table("step", "loss, eager", "loss, compiled", title="SGD on a small transformer", title_justify="left")
    equal = True
    with console.status("training: the first step captures forward and backward") as status:
        for step in range(asked.steps):
            data = batch()
            (wanted, _), (got, _) = plain.step(*data), fast.step(*data)
            table.add_row(str(step), f"{wanted:.7f}", f"{got:.7f}")
            equal = equal and abs(wanted - got) <= 1e-4 * abs(wanted)
            status.update(f"step {step + 1} of {asked.steps}")
        status.update("waiting for what compiles in the background")
        compiled.framejit.wait()
        times = [(plain.step(*data)[1], fast.step(*data)[1]) for data in (batch() for _ in range(50))]
    console.print(table)
    report = compiled.framejit.explain()
    console.print(f"{len(report.graphs)} graph(s), {report.ops} ops, {len(report.breaks)} break(s)")
    for choice in report.choices:
        console.print(f"it {choice.sentence}")
    slow, quick = (statistics.median(column) for column in zip(*times, strict=True))
    console.print(f"a step takes {quick:.2f} ms, in eager {slow:.2f} ms")
    console.print("the losses are equal" if equal else "[red]the losses differ")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
