"""Facts about a graph's tensors that recording needs: their device, and whether their sizes
vary."""

from __future__ import annotations

import torch
import torch.fx

from .recordable import fake_result


def device_of(gm: torch.fx.GraphModule) -> int:
    """The number of the CUDA device that a graph's tensors are on."""
    fakes = [
        fake
        for node in gm.graph.nodes
        if isinstance(fake := fake_result(node), torch.Tensor) and fake.device.type == "cuda"
    ]
    return next((fake.device.index or 0 for fake in fakes), 0)


def varying_inputs(gm: torch.fx.GraphModule) -> tuple[int, ...]:
    """Positions of the inputs that are numbers, or have symbols among their sizes and strides."""
    fakes = [fake_result(node) for node in gm.graph.nodes if node.op == "placeholder"]
    return tuple(
        index
        for index, fake in enumerate(fakes)
        if not isinstance(fake, torch.Tensor)
        or not all(isinstance(number, int) for number in (*fake.shape, *fake.stride()))
    )
