"""A model of which each layer is a subgraph of its own."""

from __future__ import annotations

import torch
from torch import nn


class ShownLayers(nn.Module):
    """Returns what is between its layers, where graphs are split; not what is `hidden`."""

    def __init__(self, count, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x):
        shown = []
        for layer in self.layers:
            hidden = torch.tanh(layer(x)) * 2
            keys = hidden.sin()
            shown.append(keys)
            x = torch.softmax(keys, -1) * hidden.exp() + hidden
        return x.square().mean(), shown
