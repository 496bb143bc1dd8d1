"""GPT-2 and Llama as training code writes them, with one Linear for each projection, so that tensor parallel can shard them."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Size:
    """Of a model, and of the batches that it is given."""

    layers: int
    heads: int
    width: int
    hidden: int  # of the feed-forward layers
    vocabulary: int
    length: int
    batch: int


class Attention(nn.Module):
    """Causal self-attention. rotary: queries and keys are rotated by their position (rotary embedding)."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, size: Size, *, bias: bool, rotary: bool) -> None:
        super().__init__()
        self.head = size.width // size.heads
        self.query, self.key, self.value, self.out = (nn.Linear(size.width, size.width, bias=bias) for _ in range(4))
        self.rotary = rotary
        if rotary:
            frequencies = 10000.0 ** -(torch.arange(0, self.head, 2).float() / self.head)
            angles = torch.outer(torch.arange(size.length).float(), frequencies).repeat(1, 2)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        length = x.shape[-2]
        return x * self.cos[:length] + torch.cat((-second, first), -1) * self.sin[:length]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length = x.shape[:2]
        # -1: the heads that this process has
        query, key, value = (
            layer(x).view(batch, length, -1, self.head).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        if self.rotary:
            query, key = self.rotate(query), self.rotate(key)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Gelu(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(size.width, size.hidden), nn.Linear(size.hidden, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class SwiGlu(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(size.width, size.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, size: Size, *, llama: bool) -> None:
        super().__init__()
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.before_attention, self.before_feed_forward = norm(size.width, eps=1e-5), norm(size.width, eps=1e-5)
        self.attention = Attention(size, bias=not llama, rotary=llama)
        self.feed_forward: nn.Module = SwiGlu(size) if llama else Gelu(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.feed_forward(self.before_feed_forward(x))


class LanguageModel(nn.Module):
    """Returns the loss of batches of tokens (batch, length), int64. llama: RMSNorm, rotary positions, SwiGLU and no biases; without
    it, GPT-2."""

    def __init__(self, size: Size, *, llama: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = None if llama else nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(Block(size, llama=llama) for _ in range(size.layers))
        self.norm = (nn.RMSNorm if llama else nn.LayerNorm)(size.width, eps=1e-5)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())
