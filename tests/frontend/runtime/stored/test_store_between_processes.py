"""Entries on disk between real processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from framejit.options import inherited_environment

PROGRAM = """
import json, sys
import torch

before = set(sys.modules)
import framejit
from framejit.events import Captured, Stored
from framejit.options import config
from program import Net

events = []
config.sinks = (events.append,)
torch.manual_seed(0)
net = framejit.compile(Net(), backend=sys.argv[1])
x = torch.ones(3, 4)
if sys.argv[2] == "training":
    out = net(x)
    out.sum().backward()
    values = [out.sum().item(), *(p.grad.sum().item() for p in net.parameters())]
else:
    with torch.no_grad():
        values = net(x).flatten().tolist()
print(json.dumps({
    "values": values,
    "captured": sum(isinstance(one, Captured) and not one.from_disk for one in events),
    "taken": sum(isinstance(event, Stored) and event.taken for event in events),
    "told": [event.text for event in events if isinstance(event, Stored)],
    "imported": sorted(set(sys.modules) - before),
}))
"""

NET = """
import torch
from torch import nn

def scale(x, by=2.0):
    return x * by

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU())

    def forward(self, x):
        y = self.layers(x)
        print(end="")
        return scale(y) + len({"a", "b"})
"""
COMPILERS = ("sympy", "torch._inductor", "torch._functorch.aot_autograd", "triton", "networkx")


@pytest.fixture
def run(tmp_path, torch_server):
    """Runs the program in a process of its own, and returns what it tells. With a seed of hashes
    the process is not forked."""
    main = tmp_path / "main.py"
    main.write_text(PROGRAM)
    (tmp_path / "program.py").write_text(NET)

    def run(backend="native", what="inference", seed=None, store="1"):
        asked = {"FRAMEJIT_CACHE_DIR": str(tmp_path / "cache"), "FRAMEJIT_STORE": store}
        if seed is None:
            done = torch_server.run(main, tmp_path, backend, what, **asked)
        else:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", main, backend, what],
                cwd=tmp_path,
                env=inherited_environment(PYTHONHASHSEED=seed, **asked),
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("what", ["inference", "training"])
@pytest.mark.sweep(2)
def test_the_second_process_captures_nothing(run, what):
    first, second = run(what=what, seed="1"), run(what=what, seed="2")
    assert second["values"] == first["values"]
    assert (first["captured"], first["taken"]) == (2, 0), first["told"]
    assert (second["captured"], second["taken"]) == (0, 2), second["told"]
    assert not set(COMPILERS).intersection(second["imported"])


CONTROL_FLOW = """
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import flex_attention

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, x):
        x = torch.cond(x.sum() > 0, self.cell, torch.sin, (x,))
        (last, made) = scan(lambda kept, row: (kept + row, kept * row), torch.zeros(4), x)
        if torch.is_grad_enabled():
            return made + last
        heads = made.view(1, 1, 3, 4)
        return flex_attention(heads, heads, heads, lambda s, b, h, i, j: s + i) + last
"""


@pytest.mark.parametrize("what", ["inference", "training"])
@pytest.mark.sweep(2)
def test_functions_of_higher_order_operators(run, tmp_path, what):
    (tmp_path / "program.py").write_text(CONTROL_FLOW)
    first, second = run(what=what), run(what=what)
    assert first["values"] == second["values"]
    assert (first["captured"], second["captured"]) == (1, 0), first["told"]
    assert second["taken"] == 1


QUANTIZED = """
import dataclasses, enum, functools, logging
import torch
from torch import nn
from torch.nn import functional as F

logger = logging.getLogger(__name__)
aten = torch.ops.aten
clamp = functools.partial(torch.clamp, min=-127, max=127)

class Mapping(enum.Enum):
    SYMMETRIC = enum.auto()

@dataclasses.dataclass(frozen=True)
class Layout:
    tiles: int = 8

class Quantized(torch.Tensor):
    OPS = {}

    @staticmethod
    def __new__(cls, data, scale, layout, mapping):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype)

    def __init__(self, data, scale, layout, mapping):
        self.data_, self.scale, self.layout_, self.mapping = data, scale, layout, mapping

    def __tensor_flatten__(self):
        return ["data_", "scale"], (self.layout_, self.mapping)

    @classmethod
    def __tensor_unflatten__(cls, inner, rest, size, stride):
        return cls(inner["data_"], inner["scale"], *rest)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in cls.OPS:
            return cls.OPS[func](*args, **kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        return cls.OPS[func](*args, **kwargs or {})

def implements(*operators):
    def decorate(function):
        for operator in operators:
            Quantized.OPS[operator] = function
        return function
    return decorate

@implements(F.linear, aten.linear.default)
def linear(x, w, bias=None):
    if w.mapping is not Mapping.SYMMETRIC or isinstance(w.layout_, int):
        logger.warning("slow")
    return F.linear(x, w.data_.to(x.dtype) * w.scale, bias)

@implements(aten.detach.default)
def detach(w):
    return Quantized(w.data_.detach(), w.scale.detach(), w.layout_, w.mapping)

def quantize(w):
    scale = w.detach().abs().max() / 127
    data = clamp(torch.round(w.detach() / scale)).to(torch.int8)
    return nn.Parameter(Quantized(data, scale, Layout(), Mapping.SYMMETRIC), requires_grad=False)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8, bias=False)
        self.layer.weight = quantize(self.layer.weight)

    def forward(self, x):
        return self.layer(x)
"""


def test_quantized_weights_with_a_registry(run, tmp_path):
    (tmp_path / "program.py").write_text(QUANTIZED)
    first, second = run(seed="1"), run(seed="2")
    assert second["values"] == first["values"]
    assert first["captured"] > 0 and second["captured"] == 0, (first["told"], second["told"])
    (tmp_path / "program.py").write_text(QUANTIZED.replace("* w.scale", "* w.scale * 2"))
    assert run()["values"] == pytest.approx([2 * value for value in first["values"]])


TRAINING = """
import json, sys
import framejit, torch
from framejit.events import Captured, CompileStarted, Stored
from framejit.options import config
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.feed = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(x)

def train(model, optimizer, schedule, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x.flip(0))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    return loss.detach()

events = []
config.sinks = (events.append,)
backend, whole, name, settings = json.loads(sys.argv[1])
torch.manual_seed(0)
model = nn.Sequential(*(Block() for _ in range(whole)), nn.Linear(8, 8))
optimizer = getattr(torch.optim, name)(model.parameters(), 0.01, **settings)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
how = {"backend": backend}
if backend == "autotune":
    how["options"] = {"patience": 1000.0}  # on a slow machine a graph is soon worth tuning
if whole:
    train = framejit.compile(train, **how)
else:
    optimizer.step = framejit.compile(optimizer.step, **how)
losses = [train(model, optimizer, schedule, torch.randn(2, 3, 8)).item() for _ in range(5)]
print(json.dumps({
    "values": [*losses, *(one.double().sum().item() for one in model.parameters())],
    "captured": sum(isinstance(one, Captured) and not one.from_disk for one in events),
    "started": sum(isinstance(one, CompileStarted) for one in events),
    "taken": sum(isinstance(event, Stored) and event.taken for event in events),
    "told": [event.text for event in events if isinstance(event, Stored)],
}))
"""


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "backend, blocks, optimizer, settings",
    [
        ("native", 2, "AdamW", {"foreach": True}),
        ("autotune", 1, "AdamW", {}),
        ("autotune", 1, "SGD", {"momentum": 0.9, "foreach": False}),
        ("native", 1, "SGD", {}),
        ("autotune", 0, "Adam", {}),  # its step alone
        ("autotune", 0, "SGD", {"momentum": 0.9, "foreach": True}),
    ],
)
def test_training_steps(run, tmp_path, backend, blocks, optimizer, settings):
    (tmp_path / "main.py").write_text(TRAINING)
    given = json.dumps([backend, blocks, optimizer, settings])
    first, second = run(given, seed="1"), run(given, seed="2")
    assert second["values"] == pytest.approx(first["values"], rel=1e-4, abs=1e-5)
    assert first["captured"] > 0 and second["taken"] > 0
    assert (second["captured"], second["started"]) == (0, 0), second["told"]


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "old, new",
    [
        ("by=2.0", "by=3.0"),
        ("x * by", "x + by"),
        ('{"a", "b"}', '{"a"}'),
        ("nn.GELU()", "nn.ReLU()"),
        ("return scale(y)", "return -scale(y)"),
    ],
)
def test_an_edit_is_seen(run, tmp_path, old, new):
    run(backend="eager")
    (tmp_path / "program.py").write_text(NET.replace(old, new))
    edited = run(backend="eager")
    fresh = run(backend="eager", store="0")
    assert edited["values"] == fresh["values"]
    assert fresh["taken"] == 0


def test_a_damaged_kernel_is_compiled_again(run, tmp_path):
    first = run()
    for path in (tmp_path / "cache" / "c").glob("??/*"):
        if path.suffix == "":
            path.write_bytes(b"nothing")
    second = run()
    assert second["values"] == first["values"]
    assert second["captured"] == 2 and any("not used" in text for text in second["told"])


# a program without a module of its own: its class is in __main__
ALONE = """
import sys
import framejit, torch
from framejit.events import Captured, Stored
from framejit.options import config
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
    def forward(self, x):
        print(end="")
        return Part(self.linear(x)).double() + len({"a", "b"})

class Part:
    def __init__(self, x):
        self.x = x
    def double(self):
        return self.x * 2

events = []
config.sinks = (events.append,)
torch.manual_seed(0)
net = framejit.compile(Net(), backend="eager")
x = torch.ones(2, 4)
with torch.no_grad():
    equal = torch.equal(net(x), Net.forward(net, x))
    scale = framejit.compile(lambda x, by=2: x * by, backend="eager")
    equal = equal and torch.equal(scale(x), x * 2)
captured = sum(isinstance(one, Captured) and not one.from_disk for one in events)
print(equal, captured, sum(isinstance(one, Stored) and one.taken for one in events))
"""
CELL = """
import os, tempfile
name = f"{tempfile.gettempdir()}/ipykernel_{os.getpid()}/123.py"
exec(compile(SOURCE, name, "exec"), globals())
"""


@pytest.mark.parametrize(
    "how, second",
    [
        pytest.param(["-c", ALONE], "True 0 3", id="-c"),
        pytest.param(["-"], "True 0 3", id="standard input"),
        # the name of a cell's file contains the number of the process
        pytest.param(["-c", f"SOURCE = {ALONE!r}\n{CELL}"], "True 0 3", id="a cell of a notebook"),
    ],
)
@pytest.mark.sweep(3)
def test_programs_without_a_file(how, second, tmp_path):
    environment = inherited_environment(FRAMEJIT_CACHE_DIR=str(tmp_path / "cache"))
    del environment["FRAMEJIT_STORE"]  # entries are stored by default

    def run():
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *how],
            cwd=tmp_path,
            env=environment,
            input=ALONE,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert [run(), run()] == ["True 3 0", second]


def test_it_can_be_switched_off(run, tmp_path):
    run(store="0")
    assert not (tmp_path / "cache" / "entries").exists()
