"""A decode loop over CUDA graphs: one token a step through a small transformer with a fixed key-value cache.

    python examples/decode_loop.py [--tokens 32]

On a CUDA device each step is recorded once and replayed; without one the same code runs plainly, and says so. Exits with 1 when
the tokens differ from eager's.
"""
from __future__ import annotations

import argparse
import copy
import sys
import time

import framejit
import torch
from rich.console import Console
from torch.nn import functional as F

console = Console()
VOCABULARY, WIDTH, HEADS, LAYERS = 512, 64, 4, 2


class Layer(torch.nn.Module):
    """Attention over the tokens so far, and a small MLP. The cache has room for `most` tokens."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, HEADS, most, WIDTH // HEADS))

    def forward(self, x: torch.Tensor, position: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        attended = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(attended.transpose(1, 2).reshape(1, 1, WIDTH))
        return x + self.mlp(x)


class Decoder(torch.nn.Module):
    """(token, position) -> the next token; all sizes are the same at each step, so one recording serves all."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layers = torch.nn.ModuleList(Layer(most) for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("places", torch.arange(most))

    def forward(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        x = self.embedding(token).view(1, 1, WIDTH)
        seen = (self.places <= position).view(1, 1, 1, -1)
        for layer in self.layers:
            x = layer(x, position, seen)
        return self.head(x).argmax(-1).view(1)


@torch.no_grad()
def decode(model: torch.nn.Module, count: int, device: str) -> tuple[list[int], float]:
    """Tokens, and milliseconds of a step once it is compiled."""
    token, tokens, started = torch.zeros(1, dtype=torch.long, device=device), [], 0.0
    for step in range(count):
        if step == count // 2:
            started = time.perf_counter()
        token = model(token, torch.tensor([step], device=device))
        tokens.append(token)
    told = torch.cat(tokens).tolist()  # waits for the device, once
    return told, (time.perf_counter() - started) / (count - count // 2) * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=32)
    count = max(4, parser.parse_args().tokens)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        console.print("no CUDA device is usable here: the steps run plainly, without CUDA graphs")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    eager = Decoder(count).eval().to(device)
    compiled = framejit.compile(copy.deepcopy(eager), mode="reduce-overhead")
    wanted, slow = decode(eager, count, device)
    got, fast = decode(compiled, count, device)
    report = compiled.framejit.explain()
    console.print(f"{count} tokens: eager {slow:.3f} ms a step, compiled {fast:.3f} ms; {compiled.framejit.compiles} compile(s)")
    for choice in report.choices:
        console.print(f"runs on {choice.backend}")
    console.print("the tokens are equal" if got == wanted else "[red]the tokens differ")
    return 0 if got == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
