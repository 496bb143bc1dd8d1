"""Trains a small transformer for a few steps, in eager and compiled through aot_autograd (backend "aot_eager"), side by side.

    python examples/train.py [--steps 5]

Prints both losses of each step and exits with 1 when they differ.
"""
from __future__ import annotations

import argparse
import copy
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so small a model gains nothing from more, and on a busy machine they wait for each other
    eager = Classifier()
    compiled = framejit.compile(copy.deepcopy(eager), backend="aot_eager")
    plain, fast = Training(eager), Training(compiled)

    columns = ("step", "loss, eager", "loss, compiled", "ms, eager", "ms, compiled")
    table = Table(*columns, title="SGD on a small transformer", title_justify="left")
    equal = True
    with console.status("training: the first step captures forward and backward") as status:
        for step in range(steps):
            batch = torch.randint(0, 256, (8, 16)), torch.randint(0, 5, (8,))
            (wanted, slow), (got, quick) = plain.step(*batch), fast.step(*batch)
            table.add_row(str(step), f"{wanted:.7f}", f"{got:.7f}", f"{slow:.1f}", f"{quick:.1f}")
            equal = equal and abs(wanted - got) <= 1e-5 * abs(wanted)
            status.update(f"step {step + 1} of {steps}")
    console.print(table)
    report = compiled.framejit.explain()
    console.print(f"{len(report.graphs)} graph(s), {report.ops} ops, {len(report.breaks)} break(s)")
    console.print("the losses are equal" if equal else "[red]the losses differ")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
