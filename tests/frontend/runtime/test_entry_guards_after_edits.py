"""Edits made after compile, wherever Python lets one make them: the very next call runs what eager
would run now.

Each edit is made on a fresh program, with changes noticed in the best way there is, and with every
container looked at again at each call; compiled and plain code are compared before the edit, after
it, and after a second one.
"""

from __future__ import annotations

import builtins
import sys
import types

import framejit
import pytest
import torch
from framejit.guards.native import watching
from torch import nn
from torch.nn.modules import module as torch_module

PROGRAM = """
import torch
from torch import nn
import helper

scale = 3
shift = torch.ones(2)
table = {"a": 2, "b": {"c": 5}}
items = [1, [2, 3]]

class Base:
    factor = 2
    def step(self, x):
        return x * self.factor

class Derived(Base):
    pass

class Slotted:
    __slots__ = ("n",)

class Computed:
    n = 4
    @property
    def size(self):
        return self.n

thing, slotted, computed = Derived(), Slotted(), Computed()
slotted.n = 6

def added(x, by=1, *, times=2):
    return (x + by) * times

def closing():
    held = 7
    def inner(x):
        return x + held
    return inner

closure = closing()

class Act(nn.Module):
    gain = 1.0
    def forward(self, x):
        return x.tanh() * self.gain

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = nn.Sequential(Act(), nn.Linear(2, 2), Act())
        self.register_buffer("offset", torch.zeros(2))
        self.rate = 0.5
    def forward(self, x):
        y = self.b(self.a(x)) * self.rate + self.offset
        return y * 2 if self.training else y

torch.manual_seed(0)
net = Net()

def f(x):
    y = x * scale + shift + table["a"] + table["b"]["c"] + items[0] + items[1][1]
    y = thing.step(y) + slotted.n + computed.size
    y = added(y) + closure(y) + helper.twice(y) + len(table)
    return y + net(x.to(net.offset.dtype)).float() + abs(-1)
"""
HELPER = """
number = 2
def twice(x, more=2):
    return x * number + more
"""


class World:
    """One copy of the program, a module of its own with a helper module of its own."""

    def __init__(self, name: str) -> None:
        self.helper = types.ModuleType(f"helper_of_{name}")
        exec(HELPER, vars(self.helper))
        self.module = types.ModuleType(name)
        sys.modules[name], sys.modules[self.helper.__name__] = self.module, self.helper
        before = sys.modules.get("helper")
        sys.modules["helper"] = self.helper
        exec(PROGRAM, vars(self.module))
        del sys.modules["helper"]
        if before is not None:
            sys.modules["helper"] = before

    def __getattr__(self, name):
        return getattr(self.module, name)

    def close(self) -> None:
        del sys.modules[self.module.__name__], sys.modules[self.helper.__name__]


def more(x):
    return x * 10


def other_code(x, by=1, *, times=2):
    return x - by - times


def set_cell(function, value):
    function.__closure__[0].cell_contents = value


def replace_dict(thing, **values):
    thing.__dict__ = {**vars(thing), **values}


class Louder(nn.Module):
    def forward(self, x):
        return x * 4


# name: edits made one after the other
EDITS = {
    "global rebound": (
        lambda w: setattr(w.module, "scale", 4),
        lambda w: setattr(w.module, "scale", 3),
    ),
    "global of another type": (
        lambda w: setattr(w.module, "scale", 3.5),
        lambda w: setattr(w.module, "scale", True),
    ),
    "global tensor": (
        lambda w: setattr(w.module, "shift", torch.zeros(2)),
        lambda w: setattr(w.module, "shift", torch.ones(2)),
    ),
    "global tensor in place": (lambda w: w.shift.mul_(3), lambda w: w.shift.mul_(2)),
    "global function": (
        lambda w: setattr(w.module, "added", more),
        lambda w: setattr(w.module, "added", lambda x: x),
    ),
    "global hides a builtin": (
        lambda w: setattr(w.module, "len", lambda x: 50),
        lambda w: delattr(w.module, "len"),
    ),
    "builtin": (
        lambda w: setattr(builtins, "abs", lambda x: 9),
        lambda w: setattr(builtins, "abs", ABS),
    ),
    "attribute of another module": (
        lambda w: setattr(w.helper, "number", 5),
        lambda w: setattr(w.helper, "number", 2),
    ),
    "function of another module": (
        lambda w: setattr(w.helper, "twice", more),
        lambda w: setattr(w.helper, "twice", lambda x: x),
    ),
    "item of a dictionary": (lambda w: w.table.update(a=9), lambda w: w.table.update(a=2)),
    "item of an inner dictionary": (
        lambda w: w.table["b"].update(c=9),
        lambda w: w.table.update(b={"c": 1}),
    ),
    "size of a dictionary": (lambda w: w.table.update(z=1), lambda w: w.table.pop("z")),
    "item of a list": (lambda w: w.items.__setitem__(0, 8), lambda w: w.items.__setitem__(0, 1)),
    "item of an inner list": (
        lambda w: w.items[1].__setitem__(1, 8),
        lambda w: w.items.__setitem__(1, [5, 6]),
    ),
    "attribute": (lambda w: setattr(w.thing, "factor", 6), lambda w: delattr(w.thing, "factor")),
    "method on the instance": (
        lambda w: setattr(w.thing, "step", more),
        lambda w: delattr(w.thing, "step"),
    ),
    "attribute of a base class": (
        lambda w: setattr(w.Base, "factor", 6),
        lambda w: setattr(w.Base, "factor", 2),
    ),
    "attribute of the class hides its base's": (
        lambda w: setattr(w.Derived, "factor", 6),
        lambda w: delattr(w.Derived, "factor"),
    ),
    "method of a base class": (
        lambda w: setattr(w.Base, "step", lambda self, x: x),
        lambda w: setattr(w.Base, "step", lambda self, x: x + 1),
    ),
    "method of the class hides its base's": (
        lambda w: setattr(w.Derived, "step", lambda self, x: x),
        lambda w: delattr(w.Derived, "step"),
    ),
    "bases": (
        lambda w: setattr(w.Derived, "__bases__", (new_base(w),)),
        lambda w: setattr(w.Derived, "__bases__", (w.Base,)),
    ),
    "class of the instance": (
        lambda w: setattr(w.thing, "__class__", type("Third", (w.Base,), {"factor": 9})),
        lambda w: setattr(w.thing, "__class__", w.Derived),
    ),
    "dictionary of the instance": (
        lambda w: replace_dict(w.thing, factor=8),
        lambda w: replace_dict(w.thing, factor=1),
    ),
    "instance replaced": (
        lambda w: setattr(w.module, "thing", new_base(w)()),
        lambda w: setattr(w.module, "thing", w.Derived()),
    ),
    "slot": (lambda w: setattr(w.slotted, "n", 1), lambda w: setattr(w.slotted, "n", 6)),
    "property": (
        lambda w: setattr(w.Computed, "size", property(lambda self: 11)),
        lambda w: setattr(w.Computed, "size", property(lambda self: self.n)),
    ),
    "property made over": (
        lambda w: vars(w.Computed)["size"].__init__(lambda self: 12),
        lambda w: vars(w.Computed)["size"].__init__(lambda self: self.n),
    ),
    "what a property reads": (
        lambda w: setattr(w.computed, "n", 8),
        lambda w: delattr(w.computed, "n"),
    ),
    "code of a function": (
        lambda w: setattr(w.added, "__code__", other_code.__code__),
        lambda w: setattr(w.added, "__code__", (lambda x, by=1, *, times=2: x).__code__),
    ),
    "defaults": (
        lambda w: setattr(w.added, "__defaults__", (5,)),
        lambda w: setattr(w.added, "__defaults__", (1,)),
    ),
    "keyword defaults": (
        lambda w: setattr(w.added, "__kwdefaults__", {"times": 5}),
        lambda w: w.added.__kwdefaults__.update(times=2),
    ),
    "cell": (lambda w: set_cell(w.closure, 70), lambda w: set_cell(w.closure, 7)),
    "train and eval": (lambda w: w.net.eval(), lambda w: w.net.train()),
    "attribute of a module": (
        lambda w: setattr(w.net, "rate", 0.25),
        lambda w: setattr(w.net, "rate", 0.5),
    ),
    "buffer": (
        lambda w: setattr(w.net, "offset", torch.ones(2)),
        lambda w: setattr(w.net, "offset", torch.zeros(2)),
    ),
    "parameter": (
        lambda w: setattr(w.net.a, "weight", nn.Parameter(torch.ones(2, 2))),
        lambda w: setattr(w.net.a, "bias", None),
    ),
    "data of a parameter": (
        lambda w: setattr(w.net.a.weight, "data", torch.full((2, 2), 3.0)),
        lambda w: setattr(w.net.a.weight, "data", torch.ones(2, 2)),
    ),
    "parameter transposed in place": (
        lambda w: setattr(w.net.a.weight, "data", w.net.a.weight.data.t()),
        lambda w: setattr(w.net.a.weight, "data", w.net.a.weight.data.t()),
    ),
    "submodule": (
        lambda w: setattr(w.net, "a", nn.Identity()),
        lambda w: w.net.b.__setitem__(0, Louder()),
    ),
    "submodules": (lambda w: w.net.b.append(Louder()), lambda w: w.net.b.pop(0)),
    "dtype": (lambda w: w.net.double(), lambda w: w.net.float()),
    "frozen": (lambda w: w.net.requires_grad_(False), lambda w: w.net.requires_grad_(True)),
    "forward on the instance": (
        lambda w: setattr(w.net.b[0], "forward", more),
        lambda w: delattr(w.net.b[0], "forward"),
    ),
    "forward of a class": (
        lambda w: setattr(w.Act, "forward", Louder.forward),
        lambda w: setattr(w.Act, "forward", lambda self, x: x),
    ),
    "attribute of a module's class": (
        lambda w: setattr(w.Act, "gain", 2.0),
        lambda w: setattr(w.Act, "gain", 1.0),
    ),
    "class of a module": (
        lambda w: setattr(w.net.b[0], "__class__", Louder),
        lambda w: setattr(w.net.b[0], "__class__", w.Act),
    ),
    "dictionary of a module": (
        lambda w: replace_dict(w.net, rate=2.0),
        lambda w: replace_dict(w.net, rate=0.5),
    ),
    "class of a submodule": (
        lambda w: object.__setattr__(w.net.b[2], "__class__", Louder),
        lambda w: setattr(w.net.b[2], "__class__", w.Act),
    ),
    "dictionary of a submodule": (
        lambda w: replace_dict(w.net.b[1], _parameters={"weight": torch.ones(2, 2), "bias": None}),
        lambda w: object.__setattr__(w.net.b[1], "__dict__", vars(nn.Linear(2, 2))),
    ),
    "state of a submodule": (
        lambda w: w.net.b[0].__setstate__({"gain": 5.0}),
        lambda w: w.net.b[0].__setstate__({"gain": 0.5}),
    ),
    "code of a method": (
        lambda w: setattr(w.Base.step, "__code__", (lambda self, x: x - 1).__code__),
        lambda w: setattr(w.Base.step, "__code__", (lambda self, x: x - 3).__code__),
    ),
    "code of a forward": (
        lambda w: setattr(w.Act.forward, "__code__", Louder.forward.__code__),
        lambda w: setattr(w.Act.forward, "__code__", (lambda self, x: x - 3).__code__),
    ),
    "defaults of a function of another module": (
        lambda w: setattr(w.helper.twice, "__defaults__", (7,)),
        lambda w: setattr(w.helper.twice, "__defaults__", (2,)),
    ),
    "forward hook": (
        lambda w: hook(w, w.net.a.register_forward_hook(lambda m, a, out: out + 1)),
        lambda w: w.hooks.pop().remove(),
    ),
    "forward pre hook": (
        lambda w: hook(w, w.net.b[1].register_forward_pre_hook(lambda m, a: (a[0] + 1,))),
        lambda w: w.hooks.pop().remove(),
    ),
    "hook of all modules": (
        lambda w: hook(w, torch_module.register_module_forward_hook(lambda m, a, out: out * 2)),
        lambda w: w.hooks.pop().remove(),
    ),
    "pre hook of all modules": (
        lambda w: hook(w, torch_module.register_module_forward_pre_hook(lambda m, a: (a[0] + 1,))),
        lambda w: w.hooks.pop().remove(),
    ),
}
ABS = abs
SILENT = ("frozen", "dtype")  # edits that leave the numbers about as they are


def new_base(world):
    return type("NewBase", (), {"factor": 12, "step": lambda self, x: x - self.factor})


def hook(world, handle):
    world.module.hooks = [handle]


@pytest.fixture(
    params=[(None, None), ("versions", None), ("values", True)],
    ids=["best", "versions", "by value"],
)
def way(request):
    watching.force(*request.param)
    yield
    watching.force(None)


@pytest.fixture
def worlds():
    made = [World(f"edited_world_{number}") for number in range(2)]
    yield made
    builtins.abs = ABS
    for world in made:
        if "hooks" in vars(world.module):
            for handle in world.module.hooks:
                handle.remove()
        world.close()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", EDITS)
def test_edit_is_seen_by_the_next_call(name, worlds):
    mine, reference = worlds
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(mine.f)
    x = torch.tensor([[1.0, -2.0]])

    def compare():
        expected = reference.f(x)
        for _ in range(2):  # the second call finds the program armed
            found = compiled(x)
            assert found.dtype == expected.dtype and found.requires_grad == expected.requires_grad
            assert torch.equal(found, expected), f"{found} is not eager's {expected}"
        return expected.detach().clone()

    results = [compare()]
    for number, edit in enumerate(EDITS[name]):
        for world in worlds:
            torch.manual_seed(number)
            if world is mine or name not in (
                "builtin",
                "hook of all modules",
                "pre hook of all modules",
            ):
                edit(world)
        results.append(compare())
    if name not in SILENT:
        assert not torch.equal(results[0], results[1]) and not torch.equal(
            results[1], results[2]
        ), "an edit that changes nothing"


@pytest.mark.usefixtures("way")
def test_hits_between_edits_look_at_nothing_again(worlds):
    """While nothing changes the stable steps are skipped, also when other names in watched places
    change."""
    world = worlds[0]
    compiled = framejit.compile(world.f)
    x = torch.ones(1, 2)
    compiled(x)
    entry = compiled.framejit.cache.root.entries[0]
    before = entry.program.reuses
    for number in range(10):
        world.module.unrelated = number
        world.net.unrelated = number
        world.thing.unrelated = number
        compiled(x)
    assert entry.program.reuses - before == 10 and entry.program.snapshots_taken == 1
    assert compiled.framejit.compiles == 1
