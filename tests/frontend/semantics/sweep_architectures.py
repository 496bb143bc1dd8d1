"""Parts of published architectures, written as their repositories write them. Each is made without
arguments and called with an x of (batch, 4, 6), or of the shape (batch, *`takes`)."""

from __future__ import annotations

import itertools
import math
import typing
from collections import OrderedDict, defaultdict, deque, namedtuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

ARCHITECTURES: dict[str, typing.Callable[[], nn.Module]] = {}


def part(*takes):
    def note(cls):
        cls.takes = takes or (4, 6)
        ARCHITECTURES[cls.__name__] = cls
        return cls

    return note


# images: U-Nets, pyramids, detection


def double_conv(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
    )


@part(3, 12, 12)
class UNet(nn.Module):
    def __init__(self, features=(4, 8)):
        super().__init__()
        self.ups, self.downs, self.pool = nn.ModuleList(), nn.ModuleList(), nn.MaxPool2d(2, 2)
        channels = 3
        for feature in features:
            self.downs.append(double_conv(channels, feature))
            channels = feature
        for feature in reversed(features):
            self.ups.append(nn.ConvTranspose2d(feature * 2, feature, 2, 2))
            self.ups.append(double_conv(feature * 2, feature))
        self.bottleneck, self.final = (
            double_conv(features[-1], features[-1] * 2),
            nn.Conv2d(features[0], 1, 1),
        )

    def forward(self, x):
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottleneck(x)
        skips = skips[::-1]
        for idx in range(0, len(self.ups), 2):
            x = self.ups[idx](x)
            skip = skips[idx // 2]
            if x.shape != skip.shape:
                x = F.interpolate(x, size=skip.shape[2:])
            x = self.ups[idx + 1](torch.cat((skip, x), dim=1))
        return self.final(x)


@part(3, 9, 9)
class UNetOddSizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up, self.out = (
            nn.Conv2d(3, 4, 3, 2, 1),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
            nn.Conv2d(7, 2, 1),
        )

    def forward(self, x):
        y = self.up(self.down(x))
        dy, dx = x.size(2) - y.size(2), x.size(3) - y.size(3)
        y = F.pad(y, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.out(torch.cat([x, y], 1))


@part(4, 8, 8)
class FeaturePyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.ModuleDict(
            OrderedDict(c2=nn.Conv2d(4, 6, 3, 2, 1), c3=nn.Conv2d(6, 8, 3, 2, 1))
        )
        self.inner = nn.ModuleList([nn.Conv2d(6, 4, 1), nn.Conv2d(8, 4, 1)])
        self.layer = nn.ModuleList([nn.Conv2d(4, 4, 3, padding=1) for _ in range(2)])

    def forward(self, x):
        features = OrderedDict()
        for name, stage in self.body.items():
            x = F.relu(stage(x))
            features[name] = x
        names, values = list(features.keys()), list(features.values())
        last = self.inner[-1](values[-1])
        results = [self.layer[-1](last)]
        for idx in range(len(values) - 2, -1, -1):
            lateral = self.inner[idx](values[idx])
            last = lateral + F.interpolate(last, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.layer[idx](last))
        results.append(F.max_pool2d(results[-1], 1, 2, 0))
        return OrderedDict(zip([*names, "pool"], results, strict=True))


@part(4, 4, 4)
class YoloHead(nn.Module):
    """The grid is kept in a plain list and made again when the size of the map changes."""

    def __init__(self):
        super().__init__()
        self.no, self.na = 7, 2
        self.grid = [torch.zeros(1)]
        self.register_buffer("anchors", torch.tensor([[[1.0, 2.0], [3.0, 1.0]]]))
        self.m = nn.ModuleList([nn.Conv2d(4, self.no * self.na, 1)])
        self.stride = [8]

    @staticmethod
    def _make_grid(nx=20, ny=20):
        yv, xv = torch.meshgrid(torch.arange(ny), torch.arange(nx), indexing="ij")
        return torch.stack((xv, yv), 2).view(1, 1, ny, nx, 2).float()

    def forward(self, x):
        x, z = [x], []
        for i in range(len(self.m)):
            x[i] = self.m[i](x[i])
            bs, _, ny, nx = x[i].shape
            x[i] = x[i].view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            if not self.training:
                if self.grid[i].shape[2:4] != x[i].shape[2:4]:
                    self.grid[i] = self._make_grid(nx, ny).to(x[i].device)
                y = x[i].sigmoid()
                y = y.detach().clone()
                y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + self.grid[i]) * self.stride[i]
                y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors[i].view(1, self.na, 1, 1, 2)
                z.append(y.view(bs, -1, self.no))
        return x if self.training else (torch.cat(z, 1), x)


@part(4, 6)
class DetrMatching(nn.Module):
    def __init__(self):
        super().__init__()
        self.class_embed, self.bbox = (
            nn.Linear(6, 3),
            nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4)),
        )
        self.query = nn.Embedding(4, 6)

    @torch.no_grad()
    def match(self, cost):
        n = cost.shape[-1]
        orders = torch.tensor(list(itertools.permutations(range(n))))
        total = cost[:, torch.arange(n), orders].sum(-1)
        return orders[total.argmin(1)]

    def forward(self, x):
        hs = x + self.query.weight.unsqueeze(0)
        out = {"logits": self.class_embed(hs), "boxes": self.bbox(hs).sigmoid()}
        target = torch.linspace(0, 1, 16).view(1, 4, 4).expand(x.shape[0], -1, -1)
        order = self.match(torch.cdist(out["boxes"], target, p=1))
        boxes = torch.gather(target, 1, order[..., None].expand(-1, -1, 4))
        out["loss"] = F.l1_loss(out["boxes"], boxes)
        out["aux"] = [{"boxes": b} for b in out["boxes"].unbind(1)]
        return out


@part(3, 8, 8)
class DenseBlock(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(3):
            self.add_module(
                f"denselayer{i + 1}",
                nn.Sequential(
                    OrderedDict(
                        [
                            ("norm", nn.BatchNorm2d(3 + 2 * i)),
                            ("relu", nn.ReLU()),
                            ("conv", nn.Conv2d(3 + 2 * i, 2, 3, padding=1)),
                        ]
                    )
                ),
            )

    def forward(self, init):
        features = [init]
        for _, layer in self.named_children():
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


@part(4, 8, 8)
class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1, self.b2 = (
            nn.Conv2d(4, 2, 1),
            nn.Sequential(nn.Conv2d(4, 2, 1), nn.Conv2d(2, 2, 3, padding=1)),
        )
        self.b3 = lambda x, conv=nn.Conv2d(4, 2, 1): conv(F.avg_pool2d(x, 3, 1, 1))

    def _forward(self, x):
        return [self.b1(x), self.b2(x), self.b3(x)]

    def forward(self, x):
        return torch.cat(self._forward(x), 1)


@part(4, 6, 6)
class ShuffleUnit(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(2, 2, 1, bias=False),
            nn.BatchNorm2d(2),
            nn.Hardswish(inplace=True),
            nn.Conv2d(2, 2, 3, 1, 1, groups=2),
        )

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        out = torch.cat((x1, self.branch(x2)), dim=1)
        batch, channels, height, width = out.data.size()
        return (
            out.view(batch, 2, channels // 2, height, width)
            .transpose(1, 2)
            .contiguous()
            .view(batch, -1, height, width)
        )


@part(4, 6, 6)
class CBAM(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp, self.conv = (
            nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 4)),
            nn.Conv2d(2, 1, 3, padding=1),
        )

    def forward(self, x):
        b, c, _, _ = x.size()
        y = self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3)))
        x = x * y.view(b, c, 1, 1).sigmoid().expand_as(x)
        return x * torch.sigmoid(
            self.conv(torch.cat([x.max(1)[0].unsqueeze(1), x.mean(1).unsqueeze(1)], 1))
        )


@part(4, 6, 6)
class CoordConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(6, 3, 3)

    def forward(self, x):
        b, _, h, w = x.shape
        ys = torch.linspace(-1, 1, h, device=x.device).view(1, 1, h, 1).expand(b, 1, h, w)
        xs = torch.linspace(-1, 1, w, device=x.device).view(1, 1, 1, w).expand(b, 1, h, w)
        return self.conv(torch.cat([x, ys, xs], 1))


@part(2, 6, 6)
class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc = nn.Linear(72, 6)
        self.loc.weight.data.zero_()
        self.loc.bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def forward(self, x):
        theta = self.loc(x.flatten(1)).view(-1, 2, 3)
        return F.grid_sample(
            x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False
        )


@part(4, 6, 6)
class NonLocal(nn.Module):
    def __init__(self):
        super().__init__()
        self.theta, self.phi, self.g = (nn.Conv2d(4, 2, 1) for _ in range(3))
        self.out = nn.Conv2d(2, 4, 1)
        self.gamma = nn.Parameter(torch.ones(1) * 0.5)

    def forward(self, x):
        b, _, h, w = x.shape
        q = self.theta(x).view(b, 2, -1).permute(0, 2, 1)
        attention = torch.softmax(torch.bmm(q, self.phi(x).view(b, 2, -1)), dim=-1)
        y = (
            torch.bmm(attention, self.g(x).view(b, 2, -1).permute(0, 2, 1))
            .permute(0, 2, 1)
            .contiguous()
            .view(b, 2, h, w)
        )
        return x + self.gamma * self.out(y)


@part(3, 8, 8)
class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj, self.cls, self.pos = (
            nn.Conv2d(3, 6, 4, 4),
            nn.Parameter(torch.zeros(1, 1, 6)),
            nn.Parameter(torch.randn(1, 5, 6)),
        )

    def forward(self, x):
        B, C, H, W = x.shape  # noqa: N806
        assert H % 4 == 0 and W % 4 == 0, f"Input size ({H}*{W}) does not fit"
        x = self.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(B, -1, -1), x), dim=1)
        return x + self.pos[:, : x.size(1)]


def window_partition(x, size):
    B, H, W, C = x.shape  # noqa: N806
    return (
        x.view(B, H // size, size, W // size, size, C)
        .permute(0, 1, 3, 2, 4, 5)
        .contiguous()
        .view(-1, size, size, C)
    )


def window_reverse(windows, size, H, W):  # noqa: N803
    B = int(windows.shape[0] / (H * W / size / size))  # noqa: N806
    return (
        windows.view(B, H // size, W // size, size, size, -1)
        .permute(0, 1, 3, 2, 4, 5)
        .contiguous()
        .view(B, H, W, -1)
    )


@part(16, 4)
class ShiftedWindows(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.size, self.shift, self.norm = nn.Linear(4, 12), 2, 1, nn.LayerNorm(4)
        mask, count = torch.zeros(1, 4, 4, 1), 0
        for h in (slice(0, -2), slice(-2, -1), slice(-1, None)):
            for w in (slice(0, -2), slice(-2, -1), slice(-1, None)):
                mask[:, h, w, :] = count
                count += 1
        windows = window_partition(mask, 2).view(-1, 4)
        diff = windows.unsqueeze(1) - windows.unsqueeze(2)
        self.register_buffer(
            "attn_mask", diff.masked_fill(diff != 0, -100.0).masked_fill(diff == 0, 0.0)
        )

    def forward(self, x):
        B, L, C = x.shape  # noqa: N806
        H = W = int(L**0.5)  # noqa: N806
        shortcut = x
        x = torch.roll(
            self.norm(x).view(B, H, W, C), shifts=(-self.shift, -self.shift), dims=(1, 2)
        )
        q, k, v = (
            self.qkv(window_partition(x, self.size).view(-1, 4, C))
            .reshape(-1, 4, 3, 2, 2)
            .permute(2, 0, 3, 1, 4)
        )
        attn = q * 0.7 @ k.transpose(-2, -1)
        attn = attn.view(-1, 4, 2, 4, 4) + self.attn_mask.unsqueeze(1).unsqueeze(0)
        attn = attn.view(-1, 2, 4, 4).softmax(-1)
        x = (attn @ v).transpose(1, 2).reshape(-1, 2, 2, C)
        x = torch.roll(window_reverse(x, self.size, H, W), shifts=(1, 1), dims=(1, 2))
        return shortcut + x.view(B, H * W, C)


@part(4, 8, 8)
class DeformableOffsets(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x):
        b, _, h, w = x.shape
        ref = torch.stack(
            torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij"), -1
        )[None].repeat(b, 1, 1, 1)
        pos = (self.offset(x).permute(0, 2, 3, 1).tanh() * 0.1 + ref).clamp(-1, 1)
        return F.grid_sample(x, pos[..., (1, 0)], mode="bilinear", align_corners=True)


@part(6, 4, 4)
class CapsuleRouting(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, 32, 3, 4, 3) * 0.2)

    @staticmethod
    def squash(s, dim=-1):
        norm = torch.sum(s**2, dim=dim, keepdim=True)
        return norm / (1 + norm) * s / (torch.sqrt(norm) + 1e-8)

    def forward(self, x):
        x = self.squash(x.reshape(x.size(0), -1, 3))
        u_hat = torch.matmul(self.weight, x[:, :, None, :, None]).squeeze(-1)
        b, detached = torch.zeros(*u_hat.shape[:3], 1), u_hat.detach()
        for it in range(3):
            c = F.softmax(b, dim=2)
            if it == 2:
                v = self.squash((c * u_hat).sum(1))
            else:
                b = b + (detached * self.squash((c * detached).sum(1)).unsqueeze(1)).sum(
                    -1, keepdim=True
                )
        return v.norm(dim=-1), v


@part(4, 6, 6)
class PixelNormUpsample(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.noise = (
            nn.Parameter(torch.randn(4, 4, 3, 3)),
            nn.Parameter(torch.zeros(1)),
        )
        self.register_buffer(
            "kernel", torch.outer(torch.tensor([1.0, 3, 3, 1]), torch.tensor([1.0, 3, 3, 1])) / 64
        )

    def forward(self, x):
        b, c, h, w = x.shape
        style = x.mean((2, 3))
        weight = self.weight[None] * style[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8)[:, :, None, None, None]
        x = F.conv2d(
            x.reshape(1, b * c, h, w), weight.view(b * 4, c, 3, 3), padding=1, groups=b
        ).view(b, 4, h, w)
        x = x.view(b, 4, h, 1, w, 1)
        x = F.pad(x, [0, 1, 0, 0, 0, 1]).reshape(b, 4, h * 2, w * 2)
        x = F.conv2d(F.pad(x, [2, 1, 2, 1]), self.kernel[None, None].repeat(4, 1, 1, 1), groups=4)
        return F.leaky_relu(
            x * x.square().mean(1, keepdim=True).add(1e-8).rsqrt(), 0.2
        ) + self.noise * torch.randn(b, 1, h * 2, w * 2)


@part(4, 6, 6)
class GhostModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.primary, self.cheap = nn.Conv2d(4, 3, 1), nn.Conv2d(3, 3, 3, 1, 1, groups=3)

    def forward(self, x):
        x1 = self.primary(x)
        return torch.cat([x1, self.cheap(x1)], dim=1)[:, :5, :, :]


@part(4, 6, 6)
class RepVGG(nn.Module):
    """Merges its branches when it is switched to evaluation."""

    def __init__(self):
        super().__init__()
        self.dense, self.point, self.norm = (
            nn.Conv2d(4, 4, 3, padding=1),
            nn.Conv2d(4, 4, 1),
            nn.BatchNorm2d(4),
        )
        self.merged = None

    def merge(self):
        with torch.no_grad():
            return self.dense.weight + F.pad(
                self.point.weight, [1, 1, 1, 1]
            ), self.dense.bias + self.point.bias

    def forward(self, x):
        if self.training:
            self.merged = None
            return F.relu(self.dense(x) + self.point(x) + self.norm(x))
        if self.merged is None:
            self.merged = self.merge()
        return F.relu(F.conv2d(x, *self.merged, padding=1))


# sequences


@part(6, 4)
class SinusoidalPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = self.get(3, 4)
        self.register_buffer("_float_tensor", torch.zeros(1), persistent=False)

    @staticmethod
    def get(count, dim):
        emb = torch.exp(
            torch.arange(dim // 2, dtype=torch.float) * -(math.log(10000) / (dim // 2 - 1))
        )
        emb = torch.arange(count, dtype=torch.float).unsqueeze(1) * emb.unsqueeze(0)
        return torch.cat([torch.sin(emb), torch.cos(emb)], dim=1).view(count, -1)

    def forward(self, x):
        bsz, length, _ = x.shape
        if self.weights is None or length > self.weights.size(0):
            self.weights = self.get(length, 4)
        self.weights = self.weights.to(self._float_tensor)
        positions = torch.arange(length).expand(bsz, -1)
        return (
            x + self.weights.index_select(0, positions.reshape(-1)).view(bsz, length, -1).detach()
        )


@part(5, 4)
class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj, self.drop = (
            nn.Linear(4, 12, bias=False),
            nn.Linear(4, 4),
            nn.Dropout(0.1),
        )
        self.register_buffer("bias", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))
        self.n_head = 2

    def forward(self, x):
        B, T, C = x.size()  # noqa: N806
        q, k, v = self.c_attn(x).split(C, dim=2)
        k, q, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (k, q, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = self.drop(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


@part(5, 4)
class AlibiAttention(nn.Module):
    masks: typing.ClassVar[dict] = {}

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        self.slopes = [2 ** (-8 * (i + 1) / 2) for i in range(2)]

    def mask(self, length):
        if length not in self.masks:
            distance = torch.arange(length)[None] - torch.arange(length)[:, None]
            bias = torch.stack([distance * slope for slope in self.slopes])
            self.masks[length] = bias.masked_fill(distance > 0, -torch.inf)
        return self.masks[length]

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 2)).permute(2, 0, 3, 1, 4)
        return (
            F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(x.shape[1]))
            .transpose(1, 2)
            .flatten(2)
        )


@part(6, 4)
class PerformerAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("projection", torch.linalg.qr(torch.randn(4, 4))[0])

    def features(self, data, query):
        ratio = self.projection.shape[0] ** -0.5
        dash = torch.einsum("...id,jd->...ij", data, self.projection)
        diag = (data**2).sum(-1, keepdim=True) / 2.0
        top = (
            torch.amax(dash, dim=-1, keepdim=True).detach()
            if query
            else torch.amax(dash, dim=(-1, -2), keepdim=True).detach()
        )
        return ratio * (torch.exp(dash - diag - top) + 1e-4)

    def forward(self, x):
        q, k = self.features(x, True), self.features(x, False)
        context = torch.einsum("...nd,...ne->...de", k, x)
        return torch.einsum(
            "...de,...nd,...n->...ne",
            context,
            q,
            1.0 / torch.einsum("...nd,...d->...n", q, k.sum(dim=-2)),
        )


@part(6, 4)
class LinearAttentionRecurrent(nn.Module):
    def forward(self, x):
        state, outputs = torch.zeros(x.shape[0], 4, 4), []
        for t in range(x.size(1)):
            k = F.elu(x[:, t]) + 1
            state = state + k.unsqueeze(-1) * x[:, t].unsqueeze(1)
            outputs.append(torch.einsum("bd,bde->be", k, state))
        return torch.stack(outputs, dim=1)


@part(5, 4)
class GroupedQueryWithCache(nn.Module):
    """Keeps keys and values between calls of one batch size."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(4, 8), nn.Linear(4, 4)
        self.past = None

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, 4, 2).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, 2).transpose(1, 2).chunk(2, dim=1)
        if self.past is not None and self.past[0].shape[0] == b:
            k, v = torch.cat([self.past[0], k], 2), torch.cat([self.past[1], v], 2)
        self.past = (k.detach(), v.detach())
        k, v = k.repeat_interleave(4, dim=1), v.repeat_interleave(4, dim=1)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, -1)


@part(6, 4)
class LocalAttention(nn.Module):
    def forward(self, x):
        b, n, d = x.shape
        pad = (-n) % 4
        x = F.pad(x, (0, 0, 0, pad), value=0.0)
        blocks = x.reshape(b, -1, 4, d)
        around = F.pad(blocks, (0, 0, 0, 0, 1, 0)).unfold(1, 2, 1).movedim(-1, 2).flatten(2, 3)
        sim = torch.einsum("bwie,bwje->bwij", blocks, around) * d**-0.5
        return torch.einsum("bwij,bwje->bwie", sim.softmax(-1), around).reshape(b, -1, d)[:, :n]


@part(5, 4)
class LstmCellLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.W, self.U, self.bias = (
            nn.Parameter(torch.randn(4, 16) * 0.3),
            nn.Parameter(torch.randn(4, 16) * 0.3),
            nn.Parameter(torch.zeros(16)),
        )

    def forward(self, x, init_states=None):
        bs, seq_sz, _ = x.size()
        hidden_seq, HS = [], 4  # noqa: N806
        h_t, c_t = (
            (torch.zeros(bs, 4).to(x.device), torch.zeros(bs, 4).to(x.device))
            if init_states is None
            else init_states
        )
        for t in range(seq_sz):
            gates = x[:, t, :] @ self.W + h_t @ self.U + self.bias
            i_t, f_t, g_t, o_t = (
                torch.sigmoid(gates[:, :HS]),
                torch.sigmoid(gates[:, HS : HS * 2]),
                torch.tanh(gates[:, HS * 2 : HS * 3]),
                torch.sigmoid(gates[:, HS * 3 :]),
            )
            c_t = f_t * c_t + i_t * g_t
            h_t = o_t * torch.tanh(c_t)
            hidden_seq.append(h_t.unsqueeze(0))
        return torch.cat(hidden_seq, dim=0).transpose(0, 1).contiguous(), (h_t, c_t)


@part(3, 2, 5, 5)
class ConvLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(5, 12, 3, padding=1)

    def forward(self, x):
        h = c = x.new_zeros(x.size(0), 3, *x.shape[-2:])
        for frame in x.unbind(1):
            i, f, o, g = torch.split(self.conv(torch.cat([frame, h], 1)), 3, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


@part(5, 4)
class BidirectionalPacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 3, batch_first=True, bidirectional=True)

    def forward(self, x):
        lengths = torch.tensor([x.size(1) - i % 2 for i in range(x.size(0))])
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        out, hidden = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return out, torch.cat([hidden[-2], hidden[-1]], 1)


@part(5, 4)
class SruCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 12)

    def forward(self, x):
        u, f, r = self.linear(x).chunk(3, -1)
        f, r, c, out = f.sigmoid(), r.sigmoid(), torch.zeros_like(x[:, 0]), []
        for step in range(x.shape[1]):
            c = f[:, step] * c + (1 - f[:, step]) * u[:, step]
            out += [r[:, step] * c.tanh() + (1 - r[:, step]) * x[:, step]]
        return torch.stack(out, 1)


@part(6, 4)
class SelectiveScan(nn.Module):
    def __init__(self):
        super().__init__()
        self.x_proj, self.dt = nn.Linear(4, 5, bias=False), nn.Linear(1, 4)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, 3).float().repeat(4, 1)))
        self.D = nn.Parameter(torch.ones(4))
        self.conv = nn.Conv1d(4, 4, 3, groups=4, padding=2)

    def forward(self, x):
        b, l, d = x.shape  # noqa: E741
        x = F.silu(self.conv(x.transpose(1, 2))[..., :l]).transpose(1, 2)
        delta, B, C = self.x_proj(x).split([1, 2, 2], dim=-1)  # noqa: N806
        delta = F.softplus(self.dt(delta))
        dA = torch.exp(torch.einsum("bld,dn->bldn", delta, -torch.exp(self.A_log)))  # noqa: N806
        dBu = torch.einsum("bld,bln,bld->bldn", delta, B, x)  # noqa: N806
        h, ys = torch.zeros(b, d, 2), []
        for i in range(l):
            h = dA[:, i] * h + dBu[:, i]
            ys.append(torch.einsum("bdn,bn->bd", h, C[:, i, :]))
        return torch.stack(ys, dim=1) + x * self.D


@part(8, 4)
class S4Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_dt, self.C = nn.Parameter(torch.rand(4)), nn.Parameter(torch.randn(4, 3, 2))
        self.register_buffer("imag", math.pi * torch.arange(3).float()[None].repeat(4, 1))

    def forward(self, u):
        u, L = u.transpose(1, 2), u.size(1)  # noqa: N806
        A = -0.5 + 1j * self.imag  # noqa: N806
        dtA = A * torch.exp(self.log_dt).unsqueeze(-1)  # noqa: N806
        C = torch.view_as_complex(self.C) * (torch.exp(dtA) - 1.0) / A  # noqa: N806
        K = 2 * torch.einsum("hn,hnl->hl", C, torch.exp(dtA.unsqueeze(-1) * torch.arange(L))).real  # noqa: N806
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * L) * torch.fft.rfft(K, n=2 * L), n=2 * L)[
            ..., :L
        ]
        return y.transpose(-1, -2)


@part(6, 4)
class RwkvTimeMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.mix, self.decay, self.first = (
            nn.Parameter(torch.rand(1, 1, 4)),
            nn.Parameter(torch.rand(4)),
            nn.Parameter(torch.rand(4)),
        )
        self.key, self.value, self.receptance = (nn.Linear(4, 4, bias=False) for _ in range(3))

    def forward(self, x):
        xx = self.time_shift(x)
        mixed = x * self.mix + xx * (1 - self.mix)
        k, v, r = self.key(mixed), self.value(mixed), torch.sigmoid(self.receptance(mixed))
        aa = bb = torch.zeros(x.shape[0], 4)
        pp, out, w = torch.full((x.shape[0], 4), -1e38), torch.empty_like(x), -torch.exp(self.decay)
        rows = []
        for t in range(x.shape[1]):
            ww = self.first + k[:, t]
            p = torch.maximum(pp, ww)
            e1, e2 = torch.exp(pp - p), torch.exp(ww - p)
            rows.append((e1 * aa + e2 * v[:, t]) / (e1 * bb + e2))
            ww = pp + w
            p = torch.maximum(ww, k[:, t])
            e1, e2 = torch.exp(ww - p), torch.exp(k[:, t] - p)
            aa, bb, pp = e1 * aa + e2 * v[:, t], e1 * bb + e2, p
        with torch.no_grad():
            out[:] = torch.stack(rows, 1)
        return r * torch.stack(rows, 1), out


@part(5, 4)
class HighwayCnnText(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(4, 3, k) for k in (2, 3)])
        self.gates = nn.ModuleList(nn.Linear(6, 12) for _ in range(2))

    def forward(self, x):
        x = torch.cat(
            [F.relu(conv(x.transpose(1, 2))).max(dim=2)[0] for conv in self.convs], dim=-1
        )
        for gate in self.gates:
            nonlinear, g = gate(x).chunk(2, dim=-1)
            g = torch.sigmoid(g)
            x = g * x + (1 - g) * F.relu(nonlinear)
        return x


@part(6, 4)
class TemporalBlock(nn.Module):
    class Chomp1d(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def forward(self, x):
            return x[:, :, : -self.size].contiguous()

    def __init__(self):
        super().__init__()
        layers = []
        for i in range(2):
            layers += [
                parametrizations.weight_norm(nn.Conv1d(6, 6, 2, padding=2**i, dilation=2**i)),
                self.Chomp1d(2**i),
                nn.ReLU(),
                nn.Dropout(0.2),
            ]
        self.network = nn.Sequential(*layers)

    def forward(self, x):
        return F.relu(self.network(x) + x)


@part(6, 4)
class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.dilations = [1, 2]
        self.filters = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=d) for d in self.dilations)
        self.skips = nn.ModuleList(nn.Conv1d(4, 3, 1) for _ in self.dilations)
        self.input = nn.Linear(4, 4)

    def forward(self, x):
        x, skip = self.input(x).mT, 0
        for dilation, conv, out in zip(self.dilations, self.filters, self.skips, strict=False):
            a, b = conv(F.pad(x, (dilation, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            s = out(y)
            try:
                skip = skip[:, :, -s.size(2) :]
            except TypeError:
                skip = 0
            skip, x = s + skip, y + x
        return skip


@part(5, 4)
class BeamStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.cell, self.out = nn.Embedding(7, 4), nn.GRUCell(4, 4), nn.Linear(4, 7)

    def forward(self, x):
        h, score = x.mean(1), torch.zeros(x.shape[0], 1)
        tokens = torch.zeros(x.shape[0], 1, dtype=torch.long)
        for _ in range(3):
            h = self.cell(self.emb(tokens[:, -1]), h)
            best, chosen = F.log_softmax(self.out(h), -1).topk(1)
            score, tokens = score + best, torch.cat([tokens, chosen], 1)
        return tokens, score


@part(5, 4)
class PointerDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.v, self.cell = (
            nn.Linear(4, 4, bias=False),
            nn.Linear(4, 4, bias=False),
            nn.Linear(4, 1),
            nn.LSTMCell(4, 4),
        )

    def forward(self, x):
        hx = cx = x.new_zeros(x.size(0), 4)
        mask, probs, chosen, inp = torch.zeros(x.shape[:2], dtype=torch.bool), [], [], x[:, 0]
        for _ in range(3):
            hx, cx = self.cell(inp, (hx, cx))
            u = self.v(torch.tanh(self.w1(x) + self.w2(hx).unsqueeze(1))).squeeze(-1)
            p = u.masked_fill(mask, -1e9).softmax(-1)
            index = p.argmax(-1)
            mask = mask.clone().scatter_(1, index[:, None], True)
            inp = x[torch.arange(x.size(0)), index]
            probs.append(p)
            chosen.append(index)
        return torch.stack(probs, 1), torch.stack(chosen, 1)


# graphs and points


@part(6, 4)
class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4, bias=False)
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]]))

    def forward(self, x):
        row, col = self.edges
        deg = torch.zeros(x.size(1)).scatter_add_(0, row, torch.ones(row.size(0)))
        norm = deg.pow(-0.5)
        norm[norm == float("inf")] = 0
        norm = norm[row] * norm[col]
        messages = norm.view(1, -1, 1) * self.lin(x)[:, row]
        return torch.zeros_like(x).index_add_(1, col, messages)


@part(6, 4)
class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.att = nn.Linear(4, 8), nn.Parameter(torch.randn(1, 1, 2, 8))
        self.edges = ((0, 1, 2, 3, 4, 5, 0), (1, 2, 3, 4, 5, 0, 3))

    def softmax(self, src, index, n):
        top = torch.full((src.shape[0], n, 2), -torch.inf).scatter_reduce(1, index, src, "amax")
        out = (src - top.gather(1, index)).exp()
        return out / (
            torch.zeros(src.shape[0], n, 2).scatter_add(1, index, out).gather(1, index) + 1e-16
        )

    def forward(self, x):
        b, n, _ = x.shape
        h, (src, dst) = self.lin(x).view(b, n, 2, 4), torch.tensor(self.edges)
        e = F.leaky_relu((torch.cat([h[:, src], h[:, dst]], -1) * self.att).sum(-1), 0.2)
        index = dst.view(1, -1, 1).expand(b, -1, 2)
        alpha = F.dropout(self.softmax(e, index, n), 0.1, self.training)
        return torch.zeros(b, n, 2, 4).index_add(1, dst, alpha.unsqueeze(-1) * h[:, src]).flatten(2)


class MessagePassing(nn.Module):
    """Collects arguments by the names in message()'s signature."""

    def propagate(self, edge_index, **kwargs):
        names = self.message.__code__.co_varnames[1 : self.message.__code__.co_argcount]
        data = {}
        for name in names:
            if name.endswith("_i") or name.endswith("_j"):
                data[name] = kwargs[name[:-2]].index_select(1, edge_index[int(name[-1] == "i")])
            else:
                data[name] = kwargs.get(name)
        return self.update(
            self.aggregate(self.message(**data), edge_index[1], kwargs["x"].size(1)), **kwargs
        )

    def aggregate(self, inputs, index, size):
        return inputs.new_zeros(inputs.size(0), size, inputs.size(2)).scatter_reduce_(
            1, index.view(1, -1, 1).expand_as(inputs), inputs, reduce="mean", include_self=False
        )

    def update(self, out, **kwargs):
        return out


@part(6, 4)
class EdgeConv(MessagePassing):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x):
        edges = torch.stack([torch.arange(6), torch.arange(6).roll(1)])
        return self.propagate(edges, x=x, scale=2.0)

    def message(self, x_i, x_j, scale):
        return self.mlp(torch.cat([x_i, x_j - x_i], dim=-1)) * scale


@part(8, 3)
class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp1, self.bn, self.fc = nn.Conv1d(3, 6, 1), nn.BatchNorm1d(6), nn.Linear(6, 9)

    def forward(self, x):
        x = x.transpose(2, 1)
        t = torch.max(F.relu(self.bn(self.mlp1(x))), 2, keepdim=True)[0].view(-1, 6)
        iden = torch.eye(3).flatten().view(1, 9).repeat(x.size(0), 1)
        trans = (self.fc(t) + iden).view(-1, 3, 3)
        return torch.bmm(x.transpose(2, 1), trans), trans


@part(8, 3)
class FarthestPoints(nn.Module):
    @torch.no_grad()
    def sample(self, xyz, count):
        B, N, _ = xyz.shape  # noqa: N806
        centroids = torch.zeros(B, count, dtype=torch.long)
        distance, farthest = torch.ones(B, N) * 1e10, torch.zeros(B, dtype=torch.long)
        rows = torch.arange(B, dtype=torch.long)
        for i in range(count):
            centroids[:, i] = farthest
            dist = torch.sum((xyz - xyz[rows, farthest, :].view(B, 1, 3)) ** 2, -1)
            mask = dist < distance
            distance[mask] = dist[mask]
            farthest = torch.max(distance, -1)[1]
        return centroids

    def forward(self, x):
        index = self.sample(x, 3)
        chosen = x[torch.arange(x.size(0)).view(-1, 1), index]
        _, near = torch.cdist(chosen, x).topk(2, largest=False)
        return x.unsqueeze(1).expand(-1, 3, -1, -1).gather(
            2, near[..., None].expand(-1, -1, -1, 3)
        ) - chosen.unsqueeze(2)


@part(4, 3)
class NerfEncoding(nn.Module):
    def __init__(self):
        super().__init__()
        self.funcs = [lambda x: x] + [
            lambda x, f=f, p=p: p(x * f) for f in (1.0, 2.0, 4.0) for p in (torch.sin, torch.cos)
        ]
        self.layers = nn.ModuleList(
            [nn.Linear(21, 8)] + [nn.Linear(8, 8) if i != 1 else nn.Linear(29, 8) for i in range(3)]
        )

    def forward(self, x):
        embedded = torch.cat([fn(x) for fn in self.funcs], -1)
        h = embedded
        for i, layer in enumerate(self.layers):
            h = F.relu(layer(h))
            if i == 1:
                h = torch.cat([embedded, h], -1)
        alpha = 1.0 - torch.exp(-F.relu(h[..., 0]))
        return (
            alpha
            * torch.cumprod(
                torch.cat([torch.ones(alpha.shape[0], 1), 1.0 - alpha + 1e-10], -1), -1
            )[:, :-1]
        )


# generative models


@part(6)
class Vae(nn.Module):
    Output = namedtuple("Output", "recon mean logvar")

    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 4), nn.Linear(2, 6)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return eps.mul(std).add_(mu)

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        return Vae.Output(torch.sigmoid(self.dec(self.reparameterize(mu, logvar))), mu, logvar)


@part(6)
class RealNvp(nn.Module):
    def __init__(self):
        super().__init__()
        self.masks = [torch.arange(6) % 2 == i % 2 for i in range(3)]
        self.s = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in self.masks)
        self.t = nn.ModuleList(nn.Linear(6, 6) for _ in self.masks)

    def forward(self, x):
        log_det, z = x.new_zeros(x.shape[0]), x
        for mask, s, t in zip(self.masks, self.s, self.t, strict=True):
            mask = mask.float()
            held = mask * z
            scale = s(held) * (1 - mask)
            z = (1 - mask) * (z - t(held)) * torch.exp(-scale) + held
            log_det -= scale.sum(dim=1)
        return z, log_det, torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1) + log_det


@part(4, 6, 6)
class Glow(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc, self.scale = (
            nn.Parameter(torch.zeros(1, 4, 1, 1)),
            nn.Parameter(torch.ones(1, 4, 1, 1)),
        )
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(4, 4))[0])
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def initialize(self, x):
        with torch.no_grad():
            flatten = x.permute(1, 0, 2, 3).contiguous().view(x.shape[1], -1)
            mean, std = flatten.mean(1).view(1, -1, 1, 1), flatten.std(1).view(1, -1, 1, 1)
            self.loc.data.copy_(-mean)
            self.scale.data.copy_(1 / (std + 1e-6))

    def forward(self, x):
        if self.initialized.item() == 0:
            self.initialize(x)
            self.initialized.fill_(1)
        x = F.conv2d(self.scale * (x + self.loc), self.weight[..., None, None])
        log_det = (
            x.shape[2]
            * x.shape[3]
            * (torch.log(torch.abs(self.scale)).sum() + torch.slogdet(self.weight)[1])
        )
        b, c, h, w = x.shape
        return x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).contiguous().view(
            b, c * 4, h // 2, w // 2
        ), log_det


@part(4, 6, 6)
class DiffusionStep(nn.Module):
    def __init__(self):
        super().__init__()
        betas = torch.linspace(1e-3, 0.2, 10)
        for name, value in {"alphas": (1 - betas).cumprod(0), "betas": betas}.items():
            self.register_buffer(name, value)
        self.time, self.net, self.norm = (
            nn.Sequential(nn.Linear(8, 8), nn.SiLU()),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.GroupNorm(2, 4),
        )
        self.film = nn.Linear(8, 8)

    @staticmethod
    def extract(a, t, shape):
        return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))

    def embedding(self, t):
        half = 4
        freqs = torch.exp(-math.log(10000) * torch.arange(half) / half)
        args = t[:, None].float() * freqs[None]
        return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)

    def forward(self, x):
        t = torch.randint(0, 10, (x.shape[0],)).long()
        noise = torch.randn_like(x)
        noisy = (
            self.extract(self.alphas, t, x.shape).sqrt() * x
            + (1 - self.extract(self.alphas, t, x.shape)).sqrt() * noise
        )
        scale, shift = self.film(self.time(self.embedding(t)))[..., None, None].chunk(2, dim=1)
        return F.mse_loss(
            self.net(self.norm(noisy) * (scale + 1) + shift), noise, reduction="none"
        ).mean((1, 2, 3))


@part(6)
class GumbelBottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.logits, self.values, self.tau = nn.Linear(6, 5), nn.Linear(5, 6, bias=False), 1.0

    def forward(self, x):
        if self.training:
            y = F.gumbel_softmax(self.logits(x), tau=self.tau, hard=True)
            self.tau = max(0.5, self.tau * 0.9)
        else:
            y = F.one_hot(self.logits(x).argmax(-1), 5).type_as(x)
        return self.values(y)


@part(6)
class MaskedAutoregressive(nn.Module):
    class MaskedLinear(nn.Linear):
        def __init__(self, mask):
            super().__init__(mask.size(1), mask.size(0))
            self.register_buffer("mask", mask)

        def forward(self, x):
            return F.linear(x, self.mask * self.weight, self.bias)

    def __init__(self):
        super().__init__()
        degrees = [torch.arange(6), torch.arange(8) % 5, torch.arange(6) % 6 - 1]
        masks = [
            (b.unsqueeze(-1) >= a.unsqueeze(0)).float() for a, b in itertools.pairwise(degrees)
        ]
        self.net = nn.Sequential(
            self.MaskedLinear(masks[0]), nn.ReLU(), self.MaskedLinear(masks[1])
        )

    def forward(self, x):
        return self.net(x)


@part(6)
class VectorQuantiserEma(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("embed", torch.randn(6, 5))
        self.register_buffer("cluster_size", torch.zeros(5))
        self.register_buffer("embed_avg", self.embed.clone())

    def forward(self, x):
        dist = (
            x.pow(2).sum(1, keepdim=True)
            - 2 * x @ self.embed
            + self.embed.pow(2).sum(0, keepdim=True)
        )
        index = (-dist).max(1)[1]
        onehot = F.one_hot(index, 5).type(x.dtype)
        quantize = F.embedding(index, self.embed.transpose(0, 1))
        if self.training:
            self.cluster_size.data.mul_(0.9).add_(onehot.sum(0), alpha=0.1)
            self.embed_avg.data.mul_(0.9).add_(x.detach().transpose(0, 1) @ onehot, alpha=0.1)
            n = self.cluster_size.sum()
            size = (self.cluster_size + 1e-5) / (n + 5e-5) * n
            self.embed.data.copy_(self.embed_avg / size.unsqueeze(0))
        return x + (quantize - x).detach(), (quantize.detach() - x).pow(2).mean(), index


@part(4, 6)
class ResidualQuantiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.books = nn.ParameterList([nn.Parameter(torch.randn(4, 6)) for _ in range(2)])

    def forward(self, x):
        residual, total, codes = x, 0.0, []
        for book in self.books:
            index = torch.cdist(residual.reshape(-1, 6), book).argmin(-1).view(x.shape[:2])
            quantised = book[index]
            residual, total = residual - quantised.detach(), total + quantised
            codes.append(index)
        return x + (total - x).detach(), torch.stack(codes, -1)


# training tricks and state


class RoundSte(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, low, high):
        ctx.save_for_backward((x / scale >= low) & (x / scale <= high))
        return torch.clamp(torch.round(x / scale), low, high) * scale

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None, None, None


@part(6)
class QuantisedLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("running_max", torch.zeros(()))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.running_max.copy_(torch.maximum(self.running_max * 0.99, x.abs().max()))
        weight = RoundSte.apply(self.weight, self.weight.detach().abs().max() / 7, -8, 7)
        return F.linear(RoundSte.apply(x, self.running_max / 127 + 1e-6, -128, 127), weight)


@part(6)
class BinaryWeights(nn.Linear):
    def __init__(self):
        super().__init__(6, 4)

    def forward(self, x):
        real = self.weight - self.weight.mean(1, keepdim=True)
        binary = real.mean(1, keepdim=True).abs() * torch.sign(real)
        clipped = torch.clamp(real, -1.0, 1.0)
        return F.linear(x, binary.detach() - clipped.detach() + clipped, self.bias)


@part(6)
class LearnedStepSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.alpha = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.tensor(0.1))
        self.register_buffer("init_state", torch.zeros(1))

    @staticmethod
    def grad_scale(x, scale):
        return (x - x * scale).detach() + x * scale

    @staticmethod
    def round_pass(x):
        return (x.round() - x).detach() + x

    def forward(self, x):
        if self.training and self.init_state == 0:
            self.alpha.data.copy_(2 * self.weight.abs().mean() / math.sqrt(7))
            self.init_state.fill_(1)
        alpha = self.grad_scale(self.alpha, 1.0 / math.sqrt(self.weight.numel() * 7))
        return F.linear(x, self.round_pass((self.weight / alpha).clamp(-8, 7)) * alpha)


class ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.neg() * ctx.lambd, None


@part(6)
class DomainAdversarial(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.label, self.domain, self.p = (
            nn.Linear(6, 4),
            nn.Linear(4, 3),
            nn.Linear(4, 2),
            0.0,
        )

    def forward(self, x):
        self.p += 0.1
        h = F.relu(self.features(x))
        return self.label(h), self.domain(
            ReverseGradient.apply(h, 2.0 / (1.0 + math.exp(-10 * self.p)) - 1)
        )


@part(6)
class MomentumEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.K, self.m = nn.Linear(6, 4), nn.Linear(6, 4), 8, 0.9
        for param_q, param_k in zip(self.q.parameters(), self.k.parameters(), strict=True):
            param_k.data.copy_(param_q.data)
            param_k.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(4, self.K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update(self):
        for param_q, param_k in zip(self.q.parameters(), self.k.parameters(), strict=True):
            param_k.data = param_k.data * self.m + param_q.data * (1.0 - self.m)

    @torch.no_grad()
    def _enqueue(self, keys):
        ptr = int(self.queue_ptr)
        count = min(keys.shape[0], self.K - ptr)
        self.queue[:, ptr : ptr + count] = keys.T[:, :count]
        self.queue_ptr[0] = (ptr + count) % self.K

    def forward(self, x):
        q = F.normalize(self.q(x), dim=1)
        with torch.no_grad():
            self._momentum_update()
            k = F.normalize(self.k(x.flip(0)), dim=1)
        pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([pos, neg], dim=1) / 0.07
        self._enqueue(k)
        return F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long)), logits


@part(6)
class CenterLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(3, 6))

    def forward(self, x):
        labels = torch.arange(x.size(0)) % 3
        distmat = (
            torch.pow(x, 2).sum(dim=1, keepdim=True).expand(x.size(0), 3)
            + torch.pow(self.centers, 2).sum(dim=1, keepdim=True).expand(3, x.size(0)).t()
        )
        distmat = torch.addmm(distmat, x, self.centers.t(), beta=1, alpha=-2)
        mask = (
            labels.unsqueeze(1).expand(x.size(0), 3).eq(torch.arange(3).long().expand(x.size(0), 3))
        )
        return (distmat * mask.float()).clamp(min=1e-12, max=1e12).sum() / x.size(0)


@part(6)
class ArcMargin(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.s, self.m = nn.Parameter(torch.randn(3, 6)), 8.0, 0.5
        self.th, self.mm = math.cos(math.pi - self.m), math.sin(math.pi - self.m) * self.m

    def forward(self, x):
        label = torch.arange(x.size(0)) % 3
        cosine = F.linear(F.normalize(x), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0, 1))
        phi = cosine * math.cos(self.m) - sine * math.sin(self.m)
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = torch.zeros(cosine.size(), device=x.device)
        one_hot.scatter_(1, label.view(-1, 1).long(), 1)
        return ((one_hot * phi) + ((1.0 - one_hot) * cosine)) * self.s


@part(6)
class SupervisedContrast(nn.Module):
    def forward(self, x):
        features = F.normalize(torch.stack([x, x.roll(1, -1)], 1), dim=-1)
        labels = (torch.arange(x.shape[0]) % 2).contiguous().view(-1, 1)
        mask = torch.eq(labels, labels.T).float()
        contrast = torch.cat(torch.unbind(features, dim=1), dim=0)
        logits = contrast @ contrast.T / 0.1
        logits = logits - logits.max(dim=1, keepdim=True)[0].detach()
        mask = mask.repeat(2, 2)
        others = torch.scatter(torch.ones_like(mask), 1, torch.arange(mask.shape[0]).view(-1, 1), 0)
        mask = mask * others
        log_prob = logits - torch.log((torch.exp(logits) * others).sum(1, keepdim=True))
        return -((mask * log_prob).sum(1) / mask.sum(1)).view(2, -1).mean()


@part(4, 6)
class TopKExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = (
            nn.Linear(6, 3, bias=False),
            nn.ModuleList(nn.Linear(6, 6) for _ in range(3)),
        )

    def forward(self, x):
        flat = x.view(-1, 6)
        weights, chosen = F.softmax(self.gate(flat), dim=1, dtype=torch.float).topk(2, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        final = torch.zeros_like(flat)
        mask = F.one_hot(chosen, num_classes=3).permute(2, 1, 0)
        for idx in range(3):
            position, top_x = torch.where(mask[idx])
            if top_x.shape[0] == 0:
                continue
            final.index_add_(
                0,
                top_x,
                self.experts[idx](flat[None, top_x].reshape(-1, 6))
                * weights[top_x, position, None],
            )
        return final.view_as(x), chosen


@part(4, 6)
class SoftExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.gate = nn.Parameter(torch.randn(3, 6, 6)), nn.Linear(6, 3)
        self.noise = nn.Linear(6, 3)

    def forward(self, x):
        logits = self.gate(x)
        if self.training:
            logits = logits + torch.randn_like(logits) * F.softplus(self.noise(x))
        top, index = logits.topk(2, -1)
        gates = torch.full_like(logits, float("-inf")).scatter(-1, index, top).softmax(-1)
        load = (gates > 0).sum((0, 1))
        return torch.einsum("bse,eio,bsi->bso", gates, self.w, x), load.float().var() / (
            load.float().mean() ** 2 + 1e-10
        )


@part(4, 6)
class CapacityRouting(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 2)

    def forward(self, x):
        tokens, capacity = x.reshape(-1, 6), 3
        gates = self.gate(tokens).softmax(-1)
        mask = F.one_hot(gates.argmax(-1), 2)
        place = torch.cumsum(mask, dim=0) * mask
        mask = mask * torch.lt(place, capacity + 1)
        place = ((place - 1) * mask).sum(1)
        combine = (gates * mask).unsqueeze(-1) * F.one_hot(place, capacity).unsqueeze(1).float()
        dispatched = torch.einsum("sec,sm->ecm", combine.bool().float(), tokens)
        return torch.einsum("sec,ecm->sm", combine, dispatched * 2).view_as(x)


class LoraLayer:
    """A mixin that is no module."""

    def __init__(self, r, alpha):
        self.r, self.scaling, self.merged = r, alpha / r, False


@part(6)
class LoraLinear(nn.Linear, LoraLayer):
    def __init__(self):
        nn.Linear.__init__(self, 6, 6)
        LoraLayer.__init__(self, r=2, alpha=4)
        self.lora_A, self.lora_B = (
            nn.Parameter(self.weight.new_zeros((2, 6)).normal_()),
            nn.Parameter(torch.randn(6, 2)),
        )
        self.weight.requires_grad = False

    def train(self, mode: bool = True):
        nn.Linear.train(self, mode)
        if mode == self.merged:
            self.weight.data += (self.lora_B @ self.lora_A) * self.scaling * (-1 if mode else 1)
            self.merged = not mode
        return self

    def forward(self, x: torch.Tensor):
        def T(w):  # noqa: N802
            return w.transpose(0, 1) if False else w

        if self.r > 0 and not self.merged:
            result = F.linear(x, T(self.weight), bias=self.bias)
            result += (x @ self.lora_A.transpose(0, 1) @ self.lora_B.transpose(0, 1)) * self.scaling
            return result
        return F.linear(x, T(self.weight), bias=self.bias)


@part(4, 6)
class AdapterByWrapping(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Linear(6, 6), nn.ReLU())
        self.adapters = nn.ModuleDict({"a": nn.Linear(6, 6), "b": nn.Linear(6, 6)})
        self.active = "a"
        layer = self.base[0]
        original = layer.forward

        def forward(x):
            return original(x) + self.adapters[self.active](x)

        layer.forward = forward

    def forward(self, x):
        first = self.base(x)
        self.active = "b" if self.active == "a" else "a"
        return first, self.base(x)


@part(4, 6)
class PrefixTuning(nn.Module):
    def __init__(self):
        super().__init__()
        self.prefix, self.attention = (
            nn.Parameter(torch.randn(2, 6)),
            nn.MultiheadAttention(6, 2, batch_first=True),
        )

    def forward(self, x):
        extended = torch.cat([self.prefix.unsqueeze(0).expand(x.size(0), -1, -1), x], 1)
        padding = torch.zeros(extended.shape[:2], dtype=torch.bool)
        padding[:, -1] = True
        out, weights = self.attention(x, extended, extended, key_padding_mask=padding)
        return out, weights


@part(6)
class ExponentialAverage(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.shadow, self.decay = nn.Linear(6, 6), {}, 0.9
        self.shadow = {name: p.data.clone() for name, p in self.net.named_parameters()}

    def forward(self, x):
        if self.training:
            for name, p in self.net.named_parameters():
                self.shadow[name] = self.decay * self.shadow[name] + (1.0 - self.decay) * p.data
            return self.net(x)
        return F.linear(x, self.shadow["weight"], self.shadow["bias"])


@part(6)
class GradNormBalancer(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(2))
        self.heads = nn.ModuleDict({"depth": nn.Linear(6, 1), "seg": nn.Linear(6, 3)})
        self.history = defaultdict(lambda: deque(maxlen=2))

    def forward(self, x):
        losses = {name: head(x).pow(2).mean() for name, head in self.heads.items()}
        for name, loss in losses.items():
            self.history[name].append(loss.detach())
        total = sum(
            torch.exp(-v) * loss + v for v, loss in zip(self.log_vars, losses.values(), strict=True)
        )
        return {
            "total": total,
            **losses,
            "mean": {k: torch.stack(list(v)).mean() for k, v in self.history.items()},
        }


@part(4, 6)
class SpectralDiscriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            parametrizations.spectral_norm(nn.Linear(6, 6)),
            nn.LeakyReLU(0.2),
            nn.utils.spectral_norm(nn.Linear(6, 2)),
        )

    def forward(self, x):
        return self.net(x)


@part(6)
class OrthogonalRecurrence(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = parametrizations.orthogonal(
            nn.Linear(6, 6, bias=False), orthogonal_map="householder"
        )

    def forward(self, x):
        with parametrize.cached():
            for _ in range(3):
                x = torch.tanh(self.cell(x))
        return x


@part(6)
class HyperNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.target, self.z = nn.Linear(6, 3), nn.Parameter(torch.randn(4))
        self.generator = nn.Linear(4, sum(p.numel() for p in self.target.parameters()))

    def forward(self, x):
        flat, params, start = self.generator(self.z), {}, 0
        for name, p in self.target.named_parameters():
            params[name] = flat[start : start + p.numel()].view(p.shape)
            start += p.numel()
        return torch.func.functional_call(self.target, params, (x,))


@part(6)
class MamlInnerLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(
            [nn.Parameter(torch.randn(3, 6)), nn.Parameter(torch.zeros(3))]
        )

    def forward(self, x):
        fast = list(self.weights)
        with torch.enable_grad():
            for _ in range(2):
                loss = F.linear(x, *fast).pow(2).mean()
                grads = torch.autograd.grad(loss, fast, create_graph=self.training)
                fast = [w - 0.1 * g for w, g in zip(fast, grads, strict=True)]
        return F.linear(x, *fast)


@part(3)
class EnergyGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))

    def forward(self, x):
        with torch.enable_grad():
            x = x if x.requires_grad else x.requires_grad_()
            energy = self.net(x).sum()
            (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return energy, -force


@part(3)
class NeuralOde(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.nfe = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), 0

    def f(self, t, y):
        self.nfe += 1
        return self.net(torch.cat([y, torch.full_like(y[:, :1], t)], 1))

    def forward(self, y):
        self.nfe, h = 0, 0.25
        for step in range(4):
            t = step * h
            k1 = self.f(t, y)
            k2 = self.f(t + h / 2, y + h / 2 * k1)
            k3 = self.f(t + h / 2, y + h / 2 * k2)
            k4 = self.f(t + h, y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, self.nfe


@part(4)
class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic, self.log_std = (
            nn.Linear(4, 2),
            nn.Linear(4, 1),
            nn.Parameter(torch.zeros(2)),
        )
        self.saved = []

    def forward(self, x):
        mean = self.actor(x)
        distribution = torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean))
        action = distribution.sample()
        self.saved.append(distribution.log_prob(action).sum(-1).detach())
        self.saved = self.saved[-2:]
        return action, distribution.entropy().sum(-1), self.critic(x).squeeze(-1), len(self.saved)


@part(4)
class DuelingNoisy(nn.Module):
    class NoisyLinear(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.mu, self.sigma = (
                nn.Parameter(torch.randn(o, i)),
                nn.Parameter(torch.full((o, i), 0.1)),
            )
            self.register_buffer("eps", torch.empty(o, i))
            self.reset_noise()

        @staticmethod
        def f(x):
            return x.normal_().sign().mul(x.abs().sqrt())

        def reset_noise(self):
            out, inside = self.f(torch.empty(self.mu.size(0))), self.f(torch.empty(self.mu.size(1)))
            self.eps.copy_(torch.outer(out, inside))

        def forward(self, x):
            return F.linear(x, self.mu + self.sigma * self.eps if self.training else self.mu)

    def __init__(self):
        super().__init__()
        self.value, self.advantage = self.NoisyLinear(4, 1), self.NoisyLinear(4, 3)

    def forward(self, x):
        for module in self.modules():
            if hasattr(module, "reset_noise"):
                module.reset_noise()
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(1, keepdim=True)


@part(4)
class RunningNormaliser(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4, dtype=torch.float64))
        self.register_buffer("var", torch.ones(4, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                b_mean, b_var, n = x.double().mean(0), x.double().var(0, unbiased=False), x.shape[0]
                delta, total = b_mean - self.mean, self.count + n
                m2 = self.var * self.count + b_var * n + delta**2 * self.count * n / total
                self.mean += delta * n / total
                self.var, self.count = m2 / total, total
        return ((x - self.mean.float()) / (self.var.float() + 1e-8).sqrt()).clamp(-5, 5)


# tables and sets


@part(4, 6)
class CrossNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernels = nn.ParameterList(
            [nn.Parameter(nn.init.xavier_normal_(torch.empty(6, 1))) for _ in range(2)]
        )

    def forward(self, x):
        x_0 = x[:, 0].unsqueeze(2)
        x_l = x_0
        for kernel in self.kernels:
            x_l = torch.matmul(x_0, torch.tensordot(x_l, kernel, dims=([1], [0]))) + x_l
        return torch.squeeze(x_l, dim=2)


@part(4, 6)
class FactorisationMachine(nn.Module):
    def forward(self, x):
        square_of_sum = torch.pow(torch.sum(x, dim=1, keepdim=True), 2)
        return 0.5 * torch.sum(square_of_sum - torch.sum(x * x, dim=1, keepdim=True), dim=2)


@part(3)
class EmbeddingBags(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(
            [nn.EmbeddingBag(5, 4, mode=mode) for mode in ("sum", "mean", "max")]
        )
        self.hashes = [3, 5, 7]

    def forward(self, x):
        ids = (x.detach() * 100).long().abs()
        out = [table(ids * h % 5, None) for table, h in zip(self.tables, self.hashes, strict=True)]
        t = torch.cat(
            [x.unsqueeze(1).expand(-1, 1, -1).repeat(1, 1, 2)[..., :4], torch.stack(out, 1)], 1
        )
        z = torch.bmm(t, t.transpose(1, 2))
        li, lj = (
            torch.tensor([i for i in range(4) for j in range(i)]),
            torch.tensor([j for i in range(4) for j in range(i)]),
        )
        return z[:, li, lj]


@part(6)
class GhostBatchNormSparsemax(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(6)

    def sparsemax(self, z):
        ordered, _ = torch.sort(z, dim=-1, descending=True)
        k = torch.arange(1, z.size(-1) + 1, dtype=z.dtype)
        cumulated = ordered.cumsum(-1)
        support = (1 + k * ordered > cumulated).sum(-1, keepdim=True)
        tau = (cumulated.gather(-1, support - 1) - 1) / support.to(z.dtype)
        return torch.clamp(z - tau, min=0)

    def forward(self, x):
        chunks = x.chunk(int(math.ceil(x.shape[0] / 2)), 0)
        return torch.cat(
            [self.sparsemax(self.bn(c) if c.shape[0] > 1 else c) for c in chunks], dim=0
        )


@part(4, 6)
class SetPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.seeds, self.mab = (
            nn.Parameter(torch.randn(1, 2, 6)),
            nn.MultiheadAttention(6, 3, batch_first=True),
        )
        self.ln = nn.LayerNorm(6)

    def forward(self, x):
        return self.ln(
            self.seeds.expand(len(x), -1, -1)
            + self.mab(self.seeds.repeat(x.size(0), 1, 1), x, x, need_weights=False)[0]
        )


@part(5, 3)
class CrfDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.transitions, self.start = nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(3))

    def forward(self, emissions):
        score, backs = self.start + emissions[:, 0], []
        alpha = score
        for i in range(1, emissions.size(1)):
            best, back = (score.unsqueeze(2) + self.transitions + emissions[:, i].unsqueeze(1)).max(
                dim=1
            )
            alpha = torch.logsumexp(
                alpha.unsqueeze(2) + self.transitions + emissions[:, i].unsqueeze(1), dim=1
            )
            score = best
            backs.append(back)
        tags = [score.argmax(1)]
        for back in reversed(backs):
            tags.append(back.gather(1, tags[-1].unsqueeze(1)).squeeze(1))
        return torch.stack(tags[::-1], 1), alpha.logsumexp(1)


@part(6, 4)
class CtcHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        log_probs = self.head(x).log_softmax(2).transpose(0, 1)
        targets = torch.ones(x.size(0), 2, dtype=torch.long) + torch.tensor([0, 1])
        size = torch.full((x.size(0),), log_probs.size(0), dtype=torch.long)
        return F.ctc_loss(
            log_probs,
            targets,
            size,
            torch.full((x.size(0),), 2, dtype=torch.long),
            zero_infinity=True,
        )


@part(4, 6)
class SinkhornAttention(nn.Module):
    def forward(self, x):
        r = x @ x.transpose(1, 2) / 0.75
        for _ in range(4):
            r = r - torch.logsumexp(r, dim=2, keepdim=True)
            r = r - torch.logsumexp(r, dim=1, keepdim=True)
        return torch.exp(r) @ x


@part(4, 6)
class DropBlockMixup(nn.Module):
    def forward(self, x):
        if not self.training:
            return x
        lam = torch.distributions.Beta(0.4, 0.4).sample()
        perm = torch.randperm(x.size(0))
        mixed = lam * x + (1 - lam) * x[perm]
        gamma = torch.bernoulli(torch.full((x.shape[0], 1, x.shape[2]), 0.2))
        mask = 1 - F.max_pool1d(gamma, 3, 1, 1)
        return mixed * mask * (mask.numel() / mask.sum().clamp(min=1))


@part(1, 16)
class LogMelFrontend(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(8))
        self.mel = nn.Parameter(torch.rand(5, 3), requires_grad=False)

    def forward(self, x):
        spec = torch.stft(x.squeeze(1), 8, 4, window=self.window, return_complex=True).abs().pow(2)
        mel = torch.matmul(spec.transpose(1, 2), self.mel)
        log = torch.clamp(mel, min=1e-10).log10()
        return (torch.maximum(log, log.max() - 8.0) + 4.0) / 4.0


@part(2, 8)
class LazyHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.LazyConv1d(3, 3), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(2)
        )

    def forward(self, x):
        return self.net(x)


@part(4, 6)
class FeatureHooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
        self.features = {}
        for name, layer in self.body.named_children():
            layer.register_forward_hook(self.save(name))

    def save(self, name):
        def hook(module, inputs, output):
            self.features[name] = output

        return hook

    def forward(self, x):
        out = self.body(x)
        return out, [self.features[k].mean() for k in sorted(self.features)]


@part(4, 6)
class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(6, 2))

    def forward_once(self, x):
        return self.net(x)[:, -1]

    def forward(self, x):
        one, two = map(self.forward_once, (x, x.flip(0)))
        distance = F.pairwise_distance(one, two)
        return torch.mean(
            distance.pow(2) * 0.5 + 0.5 * torch.clamp(1.0 - distance, min=0.0).pow(2)
        ), F.cosine_similarity(one, two)


@part(4, 6)
class ReversibleBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.g = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        x1, x2 = torch.chunk(x, 2, dim=2)
        y1 = x1 + self.f(x2)
        y2 = x2 + self.g(y1)
        with torch.no_grad():
            back = y2 - self.g(y1)
        return torch.cat([y1, y2], dim=2), torch.dist(back, x2)


@part(4, 6)
class MixtureDensity(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi, self.mu, self.sigma = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x):
        mixture = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=self.pi(x)),
            torch.distributions.Normal(self.mu(x), F.softplus(self.sigma(x)) + 1e-3),
        )
        return -mixture.log_prob(x[..., 0]).mean(), mixture.mean
