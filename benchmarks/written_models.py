"""Models as people write them by hand: nothing of a library but torch.nn."""
from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F


class GraphConvolutions(nn.Module):
    """Sums over a graph's edges: rows are gathered, weighted and added at their targets."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor, edges: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """x: (nodes, width). edges: (2, edges), sources and targets. weight: (edges,)."""
        for layer in self.layers:
            h = layer(x)
            sums = torch.zeros_like(h).index_add_(0, edges[1], h[edges[0]] * weight[:, None])
            x = F.relu(sums) + x
        return x


class Residual(nn.Module):
    """Group norm, SiLU and a 3x3 convolution, twice, as diffusion models have them."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, channels), nn.GroupNorm(8, out)
        self.conv1, self.conv2 = nn.Conv2d(channels, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()
        self.time = nn.Linear(128, out)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    """Over the pixels of a picture."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.qkv = nn.GroupNorm(8, channels), nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, 3, 4, channels // 4, height * width).transpose(-1, -2).unbind(1)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(x.shape)
        return x + self.out(mixed)


class DiffusionUNet(nn.Module):
    """Predicts the noise of pictures at given times."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down1, self.down2 = Residual(width, width), Residual(width, 2 * width)
        self.middle, self.attention = Residual(2 * width, 2 * width), Attention(2 * width)
        self.up2, self.up1 = Residual(4 * width, width), Residual(2 * width, width)
        self.last = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """x: (batch, 3, height, width). time: (batch,)."""
        waves = time[:, None] * torch.exp(torch.linspace(0, -9, 64, device=time.device, dtype=time.dtype))
        t = torch.cat([waves.sin(), waves.cos()], 1)
        one = self.down1(self.first(x), t)
        two = self.down2(F.avg_pool2d(one, 2), t)
        deep = self.attention(self.middle(F.avg_pool2d(two, 2), t))
        deep = self.up2(torch.cat([F.interpolate(deep, scale_factor=2.0), two], 1), t)
        return self.last(self.up1(torch.cat([F.interpolate(deep, scale_factor=2.0), one], 1), t))


class RadianceField(nn.Module):
    """An MLP asked at samples along rays, whose colours are summed by what reaches the eye (NeRF)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(39, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        )  # fmt: skip
        self.density, self.colour = nn.Linear(width, 1), nn.Linear(width, 3)

    def forward(self, origins: torch.Tensor, directions: torch.Tensor, depths: torch.Tensor) -> torch.Tensor:
        """origins, directions: (rays, 3). depths: (rays, samples). Returns (rays, 3)."""
        points = origins[:, None] + directions[:, None] * depths[..., None]
        scales = 2.0 ** torch.arange(6, device=points.device, dtype=points.dtype)
        angles = (points[..., None] * scales).flatten(-2)
        h = self.trunk(torch.cat([points, angles.sin(), angles.cos()], -1))
        steps = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 1e2)], -1)
        alpha = 1 - torch.exp(-F.softplus(self.density(h)[..., 0]) * steps)
        reaches = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        return ((alpha * reaches)[..., None] * torch.sigmoid(self.colour(h))).sum(1)


class Branch(nn.Module):
    """torch.cond: a shallow or a deep network, as the input decides."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shallow = nn.Linear(width, width)
        self.deep = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.shallow(x).sigmoid(), self.deep, (x,)) + x


class Recurrence(nn.Module):
    """scan: a recurrent cell over the items of a sequence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gates = nn.Linear(2 * width, 2 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (steps, batch, width)."""

        def step(state: torch.Tensor, item: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new, gate = self.gates(torch.cat([state, item], -1)).chunk(2, -1)
            state = torch.lerp(state, new.tanh(), gate.sigmoid())
            return state, state * 2

        return scan(step, torch.zeros_like(x[0]), x)[1]


class Relaxation(nn.Module):
    """while_loop: iterates until the values no longer move, 40 times at most."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def moves(count: torch.Tensor, state: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
            return (count < 40) & (change > 1e-4)

        def step(count: torch.Tensor, state: torch.Tensor, change: torch.Tensor) -> tuple[torch.Tensor, ...]:
            new = (self.mix(state).tanh() + x) / 2
            return count + 1, new, (new - state).abs().max()

        count = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(moves, step, (count, self.mix(x), x.new_ones(())))[1].sin()


class RowWise(nn.Module):
    """map: attention of each row's items to each other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (rows, items, width)."""

        def attend(row: torch.Tensor) -> torch.Tensor:
            return (self.query(row) @ row.T).softmax(-1) @ row

        over_rows: Any = torch_map  # whose annotation wants a second argument
        result: torch.Tensor = over_rows(attend, x)
        return result
