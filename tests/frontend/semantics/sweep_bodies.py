"""What modules compute, as people write it: each class has `compute(self, x)` for x of (batch, 4,
6), and any state it likes."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import typing

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, rnn

BODIES: dict[str, type] = {}


def body(cls):
    BODIES[cls.__name__] = cls
    return cls


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.build()

    def build(self):
        pass


@dataclasses.dataclass
class Config:
    width: int = 6
    heads: int = 2
    scale: float = 0.5
    activation: str = "gelu"
    norm: typing.Optional[str] = None  # noqa: UP045


class Kind(enum.Enum):
    MEAN = "mean"
    MAX = "amax"


@dataclasses.dataclass
class Output:
    hidden: torch.Tensor
    loss: typing.Optional[torch.Tensor] = None  # noqa: UP045
    extra: tuple = ()


Pair = collections.namedtuple("Pair", "values weights")


class SegmentMarks(torch.Tensor):
    pass


@body
class Linear(Body):
    def build(self):
        self.layer = nn.Linear(6, 6)

    def compute(self, x):
        return F.relu(self.layer(x)) + x


@body
class PlainTensors(Body):
    def build(self):
        self.table = [torch.linspace(0, 1, 6), torch.ones(6)]
        self.__dict__["offset"] = torch.full((6,), 0.5)

    def compute(self, x):
        return sum(x * t for t in self.table) + self.offset


@body
class PlainListOfModules(Body):
    def build(self):
        self.layers = [nn.Linear(6, 6), nn.Tanh()]

    def compute(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@body
class WeightNorm(Body):
    def build(self):
        self.layer = parametrizations.weight_norm(nn.Linear(6, 6))

    def compute(self, x):
        return self.layer(x)


@body
class Symmetric(Body):
    class Half(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).transpose(-1, -2)

    def build(self):
        self.layer = nn.Linear(6, 6)
        parametrize.register_parametrization(self.layer, "weight", self.Half())

    def compute(self, x):
        return self.layer(x) @ self.layer.weight


@body
class SpectralNorm(Body):
    def build(self):
        self.layer = parametrizations.spectral_norm(nn.Linear(6, 6))

    def compute(self, x):
        return self.layer(x)


@body
class RunningBuffers(Body):
    def build(self):
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def compute(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean((0, 1))
            self.steps += 1
        return x - self.mean


@body
class BufferInPlace(Body):
    def build(self):
        self.register_buffer("memory", torch.zeros(3, 6), persistent=False)
        self.position = 0

    def compute(self, x):
        self.memory[self.position % 3].copy_(x.detach()[0, 0])
        self.position += 1
        return x + self.memory.sum(0)


@body
class ConvNorm(Body):
    def build(self):
        self.net = nn.Sequential(
            collections.OrderedDict(
                conv=nn.Conv1d(4, 4, 3, padding=1),
                norm=nn.BatchNorm1d(4),
                act=nn.ReLU(inplace=True),
            )
        )

    def compute(self, x):
        return self.net(x) + self.net.conv(x)


@body
class Dropouts(Body):
    def build(self):
        self.drop = nn.Dropout(0.3)

    def compute(self, x):
        return self.drop(x) * F.dropout(x, 0.5, self.training)


@body
class PartialActivation(Body):
    def build(self):
        self.act = functools.partial(F.leaky_relu, negative_slope=0.3)
        self.acts = {"a": torch.sigmoid, "b": functools.partial(torch.clamp, min=0.0)}

    def compute(self, x):
        return self.act(x) + sum(act(x) for act in self.acts.values())


@body
class Dispatch(Body):
    def build(self):
        self.ways = nn.ModuleDict({"up": nn.Linear(6, 8), "down": nn.Linear(8, 6)})
        self.order = ("up", "down")

    def compute(self, x):
        for name in self.order:
            x = self.ways[name](x)
        return x


@body
class ByName(Body):
    def build(self):
        self.config = Config()
        self.layer = nn.Linear(self.config.width, self.config.width)

    def compute(self, x):
        x = getattr(F, self.config.activation)(self.layer(x))
        return x * self.config.scale if self.config.norm is None else x


@body
class ByMethodName(Body):
    def compute(self, x):
        return getattr(self, f"on_{'train' if self.training else 'eval'}")(x)

    def on_train(self, x):
        return x * 2

    def on_eval(self, x):
        return x * 3


@body
class ParameterContainers(Body):
    def build(self):
        self.scales = nn.ParameterList([nn.Parameter(torch.full((6,), float(n))) for n in range(3)])
        self.named = nn.ParameterDict({"bias": nn.Parameter(torch.ones(6))})

    def compute(self, x):
        for scale in self.scales:
            x = x + scale
        return x * self.named["bias"]


@body
class Heads(Body):
    def build(self):
        self.config = Config()
        self.qkv = nn.Linear(6, 18)

    def compute(self, x):
        b, n, c = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(b, n, 3, self.config.heads, c // self.config.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(b, n, c)


@body
class Einsum(Body):
    def build(self):
        self.weight = nn.Parameter(torch.ones(4, 6, 3))

    def compute(self, x):
        return torch.einsum("bnc,nck->bk", x, self.weight)


def rearrange(x, pattern, **sizes):
    left, right = (side.split() for side in pattern.split("->"))
    known = dict(zip(left, x.shape, strict=True)) | sizes
    order = [
        left.index(name)
        for name in "".join(" " + r for r in right).replace("(", "").replace(")", "").split()
    ]
    x = x.permute(order)
    shape, inside = [], None
    for token in "".join(f" {r} " for r in right).replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            inside = 1
        elif token == ")":
            shape.append(inside)
            inside = None
        elif inside is not None:
            inside *= known[token]
        else:
            shape.append(known[token])
    return x.reshape(shape)


@body
class Rearrange(Body):
    def compute(self, x):
        return rearrange(x, "b n c -> b (c n)") + rearrange(x, "b n c -> b (n c)")


@body
class Packed(Body):
    def build(self):
        self.rnn = nn.GRU(6, 5, batch_first=True)

    def compute(self, x):
        lengths = torch.arange(x.shape[0], 0, -1).clamp(max=4)
        packed, state = self.rnn(rnn.pack_padded_sequence(x, lengths, batch_first=True))
        return rnn.pad_packed_sequence(packed, batch_first=True)[0], state


@body
class Masks(Body):
    def compute(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (x @ x.transpose(1, 2)).masked_fill(mask, float("-inf"))
        return torch.where(x > 0, x, torch.zeros_like(x)) + scores.softmax(-1) @ x


@body
class CachedTable(Body):
    def build(self):
        self.cache = {}

    def table(self, length, dtype):
        key = (length, dtype)
        if key not in self.cache:
            self.cache[key] = torch.arange(length, dtype=dtype)[:, None]
        return self.cache[key]

    def compute(self, x):
        return x + self.table(x.shape[1], x.dtype)


@body
class CachedProperty(Body):
    @functools.cached_property
    def frequencies(self):
        return 1.0 / 10 ** torch.arange(6)

    @property
    def width(self):
        return len(self.frequencies)

    def compute(self, x):
        return x * self.frequencies / self.width


@body
class NamedTupleOut(Body):
    def compute(self, x):
        return Pair(x * 2, weights=x.softmax(-1))


@body
class DataclassOut(Body):
    def compute(self, x):
        out = Output(x + 1, x.mean() if self.training else None, (x, x * 2))
        return {field.name: getattr(out, field.name) for field in dataclasses.fields(out)}


@body
class DictOut(Body):
    def compute(self, x):
        out = {"hidden": x + 1, "skipped": None}
        out.update(last=out["hidden"][:, -1])
        return {name: value for name, value in out.items() if value is not None}


@body
class Hooked(Body):
    def build(self):
        self.layer = nn.Linear(6, 6)
        self.seen = {}
        self.layer.register_forward_hook(self.note)
        self.layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))

    def note(self, module, args, result):
        self.seen["last"] = result

    def compute(self, x):
        y = self.layer(x)
        return y + self.seen["last"]


@body
class NextParameter(Body):
    def build(self):
        self.layer = nn.Linear(6, 6)

    def compute(self, x):
        weight = next(self.parameters())
        return x.to(weight.dtype).to(weight.device) * weight.sum()


@body
class Children(Body):
    def build(self):
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def compute(self, x):
        outs = [child(x) for name, child in self.named_children() if name != "none"]
        return torch.stack(outs).mean(0) * sum(p.numel() for p in self.parameters())


@body
class Tied(Body):
    def build(self):
        self.embed = nn.Embedding(7, 6)
        self.out = nn.Linear(6, 7, bias=False)
        self.out.weight = self.embed.weight

    def compute(self, x):
        return self.out(x + self.embed(torch.arange(x.shape[1]) % 7))


@body
class Experts(Body):
    def build(self):
        self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def compute(self, x):
        gates = x.mean((0, 1))[:3].softmax(0)
        return sum(gate * expert(x) for gate, expert in zip(gates, self.experts, strict=True))


@body
class Branch(Body):
    def compute(self, x):
        return x + 1 if float(x.sum()) > 0 else x - 1


@body
class TryExcept(Body):
    def compute(self, x):
        try:
            return self.missing(x)
        except AttributeError as error:
            return x * len(str(error))


@body
class Matched(Body):
    def compute(self, x):
        match x.shape:
            case (b, 4, c) if c > 2:
                return x.reshape(b, -1)[:, : 2 * c]
            case _:
                return x


@body
class Itertools(Body):
    def compute(self, x):
        parts = x.chunk(2, -1)
        sums = list(itertools.accumulate(parts, operator.add))
        return torch.cat([a * b for a, b in itertools.product(sums, parts)], -1)


@body
class SortedKeys(Body):
    def build(self):
        self.gains = {"b": 2.0, "a": 1.0, "c": 3.0}

    def compute(self, x):
        for name, gain in sorted(self.gains.items(), key=lambda item: -item[1]):
            x = x * gain + len(name)
        return x


@body
class Enums(Body):
    def build(self):
        self.kind = Kind.MAX

    def compute(self, x):
        return getattr(x, self.kind.value)(1) if self.kind is Kind.MAX else x.mean(1)


@body
class Subclassed(Body):
    def compute(self, x):
        return (x.as_subclass(SegmentMarks) * 2).as_subclass(torch.Tensor)


@body
class InPlace(Body):
    def compute(self, x):
        y = x.clone()
        y[:, 0] = 1
        y[..., 1:3].mul_(2).add_(x[..., 3:5])
        y += 1
        return y, y[:, 1]


@body
class Generators(Body):
    def steps(self, x):
        for n in range(3):
            x = yield_value = x * 2 + n
            yield yield_value

    def compute(self, x):
        *_, last = self.steps(x)
        return last + sum(t.mean() for t in self.steps(x))


@body
class Recursive(Body):
    def tree(self, x, depth):
        return x if depth == 0 else self.tree(x * 2, depth - 1) + self.tree(x + 1, depth - 1)

    def compute(self, x):
        return self.tree(x, 3)


@body
class LazyLayers(Body):
    def build(self):
        self.layer = nn.LazyLinear(5)

    def compute(self, x):
        return self.layer(x)


@body
class BuiltOnUse(Body):
    def build(self):
        self.layer = None

    def compute(self, x):
        if self.layer is None:
            self.layer = nn.Linear(x.shape[-1], 3)
            nn.init.ones_(self.layer.weight)
        return self.layer(x)


@body
class Counters(Body):
    calls = 0

    def compute(self, x):
        type(self).calls = self.calls + 0
        self.own = getattr(self, "own", 0) + 1
        self.log = [*getattr(self, "log", []), self.own][-2:]
        return x + len(self.log)


@body
class MultiHead(Body):
    def build(self):
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

    def compute(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


@body
class Encoder(Body):
    def build(self):
        self.layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)

    def compute(self, x):
        return self.layer(x)


@body
class Sizes(Body):
    def compute(self, x):
        *lead, last = x.shape
        flat = x.view(math.prod(lead), last)
        return (
            F.pad(flat, (0, -last % 4)).unflatten(0, lead).mean(-1, keepdim=True).expand(*lead, 2)
        )


@body
class CopiedLayers(Body):
    def build(self):
        base = nn.Linear(6, 6)
        self.layers = nn.ModuleList([copy.deepcopy(base) for _ in range(2)])

    def compute(self, x):
        return functools.reduce(lambda value, layer: layer(value), self.layers, x)


@body
class WithAutocast(Body):
    def build(self):
        self.layer = nn.Linear(6, 6)

    def compute(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
        with torch.no_grad():
            scale = y.float().abs().max()
        return y.float() / scale
