"""Modules that define their forward, and hold what they know, each in a way of its own, as public
code does it: each class is made without arguments and called with an x of (batch, 4, 6)."""

from __future__ import annotations

import abc
import collections
import contextlib
import copy
import dataclasses
import functools
import inspect
import logging
import math
import random
import types
import typing
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

MODULES: dict[str, typing.Callable[[], nn.Module]] = {}
LOG = logging.getLogger(__name__)
REGISTRY: dict[str, type] = {}


def module(made):
    MODULES[made.__name__] = made
    return made


def registered(name):
    def note(cls):
        REGISTRY[name] = cls
        return cls

    return note


class Named(nn.Module):
    """Layers a and b, for those that are about something else."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)


# how forward comes about


@module
class StaticForward(nn.Module):
    @staticmethod
    def forward(x):
        return x * torch.sigmoid(x)


@module
class ClassForward(nn.Module):
    slope = 0.3

    @classmethod
    def forward(cls, x):
        return F.leaky_relu(x, cls.slope)


@module
class ScriptedMethod(Named):
    @torch.jit.export
    def helper(self, x):
        return self.a(x)

    def forward(self, x):
        return self.helper(x) + 1


@module
class CallsAScript(Named):
    def __init__(self):
        super().__init__()
        self.fused = torch.jit.script(scripted_gelu)

    def forward(self, x):
        return self.fused(self.a(x), 0.5)


def scripted_gelu(x: torch.Tensor, half: float) -> torch.Tensor:
    return x * half * (1.0 + torch.erf(x / 1.41421))


@module
class ChosenInInit(Named):
    def __init__(self, mode="wide"):
        super().__init__()
        self.forward = self.forward_wide if mode == "wide" else self.forward_narrow

    def forward_wide(self, x):
        return torch.cat([self.a(x), self.b(x)], -1)

    def forward_narrow(self, x):
        return self.a(x)


@module
def InjectedFromOutside():  # noqa: N802
    made = Named()

    def forward(self, x, mask=None):
        x = self.a(x)
        return x if mask is None else x * mask

    made.forward = types.MethodType(forward, made)
    return made


@module
def WrappedInstance():  # noqa: N802
    made = nn.Linear(6, 6)
    forward = made.forward

    @functools.wraps(forward)
    def wrapped(*args, **kwargs):
        return forward(*args, **kwargs) * 2

    made.forward = wrapped
    return made


@module
def PartialForward():  # noqa: N802
    made = nn.Module()
    made.scale = nn.Parameter(torch.tensor(2.0))
    made.forward = functools.partial(
        lambda x, module, shift: x * module.scale + shift, module=made, shift=1
    )
    return made


class Callback:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


@module
def CallableObject():  # noqa: N802
    made = nn.Module()
    made.forward = Callback(3)
    return made


class Base(abc.ABC, nn.Module):
    @abc.abstractmethod
    def encode(self, x): ...

    def decode(self, z):
        return z

    def forward(self, x, *args, **kwargs):
        return self.decode(self.encode(x, *args, **kwargs))


@module
class AbstractBase(Base):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 3)

    def encode(self, x, power=2):
        return self.a(x) ** power


class LogMixin:
    def forward(self, x):
        LOG.debug("input %s", tuple(x.shape))
        return super().forward(x) + 1


class ScaleMixin:
    gain = 2.0

    def forward(self, x):
        return super().forward(x * self.gain)


@module
class Mixins(LogMixin, ScaleMixin, nn.Linear):
    def __init__(self):
        super().__init__(6, 5)


@module
class NoGradForward(Named):
    @torch.no_grad()
    def forward(self, x):
        return self.a(x).argmax(-1)


@module
class FrozenPart(Named):
    def forward(self, x):
        with torch.no_grad():
            hidden = self.a(x)
        with torch.set_grad_enabled(self.training):
            return self.b(hidden)


@module
class OwnCall(nn.Linear):
    def __init__(self):
        super().__init__(6, 6)

    def __call__(self, *inputs, **kwargs):
        inputs = [each * 2 for each in inputs]
        return super().__call__(*inputs, **kwargs)


@module
class GeneratorForward(Named):
    def features(self, x):
        for name, layer in self.named_children():
            x = layer(x).relu()
            yield name, x

    def forward(self, x):
        return dict(self.features(x))


@module
class VariadicForward(Named):
    class Sum(nn.Module):
        def forward(self, *terms, weights=None, **rest):
            weights = weights or [1] * len(terms)
            return sum(t * w for t, w in zip(terms, weights, strict=True)) + len(rest)

    def __init__(self):
        super().__init__()
        self.sum = self.Sum()

    def forward(self, x):
        return self.sum(self.a(x), self.b(x), x, weights=(1, 2, 3), flag=True)


@module
class DispatchByName(Named):
    def forward(self, x, mode="features"):
        return getattr(self, f"forward_{mode}")(x)

    def forward_features(self, x):
        for name in ("a", "b"):
            x = getattr(self, name)(x)
        return x


@module
class OverloadedForward(Named):
    @typing.overload
    def forward(self, x: torch.Tensor) -> torch.Tensor: ...

    @typing.overload
    def forward(self, x: torch.Tensor, other: torch.Tensor) -> tuple: ...

    def forward(self, x, other=None):
        return self.a(x) if other is None else (self.a(x), self.b(other))


def checked(**shapes):
    def around(function):
        names = inspect.signature(function).parameters

        @functools.wraps(function)
        def run(self, *args):
            for name, value in zip(list(names)[1:], args, strict=False):
                if value.dim() != shapes[name]:
                    raise ValueError(f"{name} has {value.dim()} dimensions")
            return function(self, *args)

        return run

    return around


@module
class CheckedShapes(Named):
    @checked(x=3)
    def forward(self, x):
        assert x.shape[-1] == self.a.in_features, f"expected {self.a.in_features} features"
        return self.a(x)


@module
class RecursiveForward(Named):
    def forward(self, x, depth=2):
        return x if depth == 0 else self.forward(self.a(x).tanh(), depth - 1) + x


@module
class Unrolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(6, 5)

    def forward(self, x):
        state = x.new_zeros(len(x), 5)
        outs = []
        for t in range(x.size(1)):
            state = self.cell(x[:, t], state)
            outs.append(state)
        return torch.stack(outs, 1), state


@module
class CheckpointedBlocks(Named):
    def forward(self, x):
        for layer in (self.a, self.b):
            x = (
                checkpoint(layer, x, use_reentrant=False)
                if self.training and x.requires_grad
                else layer(x)
            )
        return x


@module
class CheckpointedSequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)))

    def forward(self, x):
        return checkpoint_sequential(self.blocks, 2, x, use_reentrant=False)


# what modules hold


@module
class PlainAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
        self.tables = {"std": torch.full((6,), 2.0), "eye": torch.eye(6)}
        self.anchors = [torch.arange(6.0), (torch.ones(6), torch.zeros(6))]

    def forward(self, x):
        x = (x - self.mean) / self.tables["std"] @ self.tables["eye"]
        return x + self.anchors[0] * self.anchors[1][0]


@module
class UnregisteredLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(6, 6), nn.Tanh()]
        self.named = {"head": nn.Linear(6, 2)}

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.named["head"](x)


@module
class NumberedAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(3):
            setattr(self, f"layer{i}", nn.Linear(6, 6))
            self.add_module(f"norm_{i}", nn.LayerNorm(6))

    def forward(self, x):
        for i in range(3):
            x = getattr(self, f"norm_{i}")(getattr(self, f"layer{i}")(x))
        return x


@module
class DictionaryOfModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"box": nn.Linear(6, 4), "class": nn.Linear(6, 3)})

    def forward(self, x):
        out = collections.OrderedDict(
            (name, head(x)) for name, head in self.heads.items() if name in self.heads
        )
        out["count"] = len(self.heads)
        return out


@module
class SlicedSequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Linear(6, 6), nn.Sequential(nn.ReLU(), nn.Linear(6, 6)), nn.Tanh()
        )

    def forward(self, x):
        low = self.features[:2](x)
        return low + self.features[-1](low) + self.features[1][1](low)


@module
class WalkedBackwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(6 - i, 5 - i) for i in range(3))
        self.up = nn.ModuleList(nn.Linear(5 - i, 6 - i) for i in range(3))

    def forward(self, x):
        skips = []
        for layer in self.down:
            skips.append(x)
            x = layer(x).relu()
        for layer, skip in zip(reversed(self.up), reversed(skips), strict=True):
            x = layer(x) + skip
        return x


@module
class OwnContainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        return self.blocks[index]

    def __iter__(self):
        return iter(self.blocks)

    def forward(self, x):
        for block in self:
            x = block(x)
        return x * len(self) + self[-1](x)


@module
class Delegating(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Named()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x):
        return self.b(self.a(x))


@module
class GuardedStores(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.last = None

    def __setattr__(self, name, value):
        if name == "last" and value is not None:
            value = value.detach()
        super().__setattr__(name, value)

    def forward(self, x):
        self.last = self.layer(x)
        return self.last.sum() + self.layer(x)


@module
class PropertyWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.v, self.g = nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.ones(6, 1))

    @property
    def weight(self):
        return self.v * (self.g / self.v.norm(dim=1, keepdim=True))

    def forward(self, x):
        return F.linear(x, self.weight)


@module
class EqualisedRate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        parametrize.register_parametrization(self.layer, "weight", Symmetric())
        self.other = parametrizations.orthogonal(nn.Linear(6, 6, bias=False))

    def forward(self, x):
        with parametrize.cached():
            return self.layer(x) + self.layer(self.other(x))


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


@module
class OptionalParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("bias", None)
        self.register_buffer("mask", None)
        self.drop, self.norm = None, nn.Identity()

    def forward(self, x):
        x = x if self.bias is None else x + self.bias
        x = x if self.mask is None else x * self.mask
        return self.norm(self.drop(x) if self.drop else x)


@module
class RewrittenBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(6))
        self.register_buffer("steps", torch.tensor(0), persistent=False)

    def forward(self, x):
        if self.training:
            self.steps += 1
            self.running = 0.9 * self.running + 0.1 * x.detach().mean((0, 1))
        return x - self.running


@module
class MovingAverageOfWeights(Named):
    def __init__(self):
        super().__init__()
        self.teacher = copy.deepcopy(self.a)
        for p in self.teacher.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self):
        for old, new in zip(self.teacher.parameters(), self.a.parameters(), strict=True):
            old.mul_(0.9).add_(new, alpha=0.1)

    def forward(self, x):
        if self.training:
            self.update()
        return self.a(x), self.teacher(x)


@module
class Queue(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.linspace(-1, 1, 36).view(6, 6))
        self.pointer = 0

    def forward(self, x):
        keys = x.mean(1).detach()
        scores = x[:, 0] @ self.queue.clone().t()
        self.queue[:, self.pointer] = keys.mean(0)
        self.pointer = (self.pointer + 1) % 6
        return scores


@module
class StateBetweenCalls(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.hidden = nn.RNNCell(6, 6), None

    def forward(self, x):
        if self.hidden is None or len(self.hidden) != len(x):
            self.hidden = x.new_zeros(len(x), 6)
        self.hidden = self.cell(x[:, 0], self.hidden.detach())
        return self.hidden * 1


@module
class GrowingCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys: list[torch.Tensor] = []

    def forward(self, x):
        self.keys.append(x.detach().mean(0, keepdim=True))
        self.keys = self.keys[-2:]
        return x @ torch.cat(self.keys).mean(0).t()


@module
class ClassLevelCache(nn.Module):
    tables: typing.ClassVar[dict[int, torch.Tensor]] = {}

    @classmethod
    def table(cls, length):
        if length not in cls.tables:
            cls.tables[length] = torch.arange(length).float()[:, None]
        return cls.tables[length]

    def forward(self, x):
        return x + self.table(x.size(1))


@module
@dataclasses.dataclass(eq=False)
class DataclassModule(nn.Module):
    width: int = 6
    scale: float = 0.5
    layers: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        super().__init__()
        self.layer = nn.Linear(self.width, self.width)
        self.layers.append(self.layer)

    def forward(self, x):
        return self.layers[0](x) * self.scale


@module
class CountsItsCalls(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.history = 0, collections.deque(maxlen=2)
        self.sizes = collections.Counter()

    def forward(self, x):
        self.calls += 1
        self.history.append(x.shape[0])
        self.sizes[x.shape[0]] += 1
        return x * (1 if self.calls % 2 else 2) + len(self.history)


@module
class WeakParent(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.child = nn.Identity()
        self.child.parent = weakref.ref(self)

    def forward(self, x):
        return self.child(x) * self.child.parent().scale


class Typed(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types_, args=(), kwargs=None):
        return super().__torch_function__(func, types_, args, kwargs or {})


@module
class TensorSubclass(nn.Module):
    def forward(self, x):
        y = x.as_subclass(Typed)
        return (y * 2 + y.sin()).as_subclass(torch.Tensor)


class Quantity:
    def __init__(self, value, unit):
        self.value, self.unit = value, unit

    @classmethod
    def __torch_function__(cls, func, types_, args=(), kwargs=None):
        values = [arg.value if isinstance(arg, Quantity) else arg for arg in args]
        return Quantity(func(*values, **(kwargs or {})), "m")


@module
class TorchFunctionObject(nn.Module):
    def forward(self, x):
        made = torch.add(Quantity(x, "cm"), 1)
        return torch.mul(made, made).value


@module
class SharedModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 6)
        self.blocks = nn.ModuleList([self.encoder] * 3)
        self.decoder = nn.Linear(6, 6, bias=False)
        self.decoder.weight = self.encoder.weight

    def forward(self, x):
        for block in self.blocks:
            x = block(x).tanh()
        return self.decoder(x)


@module
class HooksThatKeep(Named):
    def __init__(self):
        super().__init__()
        self.activations = {}
        for name, layer in self.named_children():
            layer.register_forward_hook(functools.partial(self.keep, name))

    def keep(self, name, layer, inputs, output):
        self.activations[name] = output.detach().mean()

    def forward(self, x):
        return self.b(self.a(x)) + sum(self.activations.values())


@module
class FromARegistry(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(REGISTRY[name](6) for name in sorted(REGISTRY))

    def forward(self, x):
        return functools.reduce(lambda value, layer: layer(value), self.layers, x)


@registered("gate")
class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, 2 * width)

    def forward(self, x):
        value, gate = self.proj(x).chunk(2, dim=-1)
        return value * F.gelu(gate)


@registered("scale")
class LayerScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(1e-1 * torch.ones(width))

    def forward(self, x):
        return x.mul_(self.gamma) if not x.requires_grad else x * self.gamma


# what they compute


@module
class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer(
            "inverse", 1.0 / 100 ** (torch.arange(0, 6, 2).float() / 6), persistent=False
        )
        self.cached_length, self.cos, self.sin = 0, None, None

    def forward(self, x):
        if x.shape[1] > self.cached_length:
            angles = torch.outer(torch.arange(x.shape[1]), self.inverse)
            self.cached_length, self.cos, self.sin = x.shape[1], angles.cos(), angles.sin()
        first, second = x[..., ::2], x[..., 1::2]
        return torch.stack(
            [first * self.cos - second * self.sin, first * self.sin + second * self.cos], -1
        ).flatten(-2)


@module
class RelativeBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.linspace(0, 1, 7))
        places = torch.arange(4)
        self.register_buffer("index", places[:, None] - places[None] + 3)

    def forward(self, x):
        scores = x @ x.transpose(-2, -1) / math.sqrt(x.size(-1)) + self.table[
            self.index.view(-1)
        ].view(4, 4)
        causal = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
        return scores.masked_fill(causal, float("-inf")).softmax(-1) @ x


@module
class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(5, 6)

    def forward(self, x):
        flat = x.reshape(-1, 6)
        nearest = torch.cdist(flat, self.codes.weight).argmin(1)
        codes = self.codes(nearest).view_as(x)
        loss = F.mse_loss(codes.detach(), x) + 0.25 * F.mse_loss(codes, x.detach())
        return x + (codes - x).detach(), loss, nearest


@module
class StochasticDepth(Named):
    def forward(self, x):
        keep = 0.8
        if self.training:
            mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep).div_(keep)
            return x + self.a(x) * mask
        return x + self.a(x)


@module
class LayerDrop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.random = random.Random(3)

    def forward(self, x):
        for layer in self.layers:
            if not self.training or self.random.random() > 0.5:
                x = layer(x)
        return x


@module
class AxesByName(nn.Module):
    def forward(self, x):
        sizes = dict(zip("b t c".split(), x.shape, strict=True))
        order = ["b t c".split().index(name) for name in "c b t".split()]
        return x.permute(order).reshape(sizes["c"], -1).sum(0)


@module
class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3, padding=1, groups=2)
        self.norm = nn.BatchNorm1d(4)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool1d(1),
            nn.Conv1d(4, 2, 1),
            nn.ReLU(inplace=True),
            nn.Conv1d(2, 4, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        x = self.norm(self.conv(x))
        return x * self.gate(x)


@module
class FixedPoint(Named):
    def forward(self, x):
        z, steps = torch.zeros_like(x), 0
        while steps < 4:
            new = torch.tanh(self.a(z) * 0.1 + x)
            if (new - z).abs().max() < 1e-3:
                break
            z, steps = new, steps + 1
        return z, steps


@module
class Suppressing(Named):
    def forward(self, x):
        with contextlib.suppress(KeyError):
            x = self.a(x)
            x = {}["missing"] + x
        try:
            return x.view(-1, 7)
        except RuntimeError:
            return x.flatten(1)
        finally:
            self.done = True


@module
class RegularisedByName(Named):
    def forward(self, x):
        penalty = sum(
            p.pow(2).sum() for name, p in self.named_parameters() if name.endswith("weight")
        )
        return self.b(self.a(x)), penalty


@module
class FunctionalCall(Named):
    def forward(self, x):
        shifted = {name: p + 0.1 for name, p in self.a.named_parameters()}
        return torch.func.functional_call(self.a, shifted, (x,))


@module
class MappedOver(Named):
    def forward(self, x):
        return torch.vmap(lambda row: self.a(row).softmax(-1))(x)


@module
class StoredLambdas(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = {"swish": lambda x: x * x.sigmoid(), "relu": F.relu}
        self.chosen = "swish"
        self.pooling = functools.partial(torch.mean, dim=1)

    def forward(self, x):
        return self.pooling(self.activation[self.chosen](x))


@module
class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 2))

    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=-1, norm="ortho")
        return torch.fft.irfft(
            spectrum * torch.view_as_complex(self.weight), n=6, dim=-1, norm="ortho"
        )


@module
class LoadsItself(Named):
    def forward(self, x):
        self.b.load_state_dict(self.a.state_dict())
        return self.b(x)
