"""Random worlds, random guards that hold in them, random mutations: C and the reference must say
the same.

FRAMEJIT_ORACLE_MUTATIONS says how many (12,500; the long run takes 100,000), FRAMEJIT_ORACLE_SEED
from where.
"""

from __future__ import annotations

import os
import random
import sys
from collections import OrderedDict, deque
from types import FunctionType

import pytest
import torch
from framejit.guards import source as s
from framejit.guards.failure import Failure
from framejit.guards.guard import Guard, Kind, ShapeExpr, TensorSpec, TorchState
from framejit.guards.native import UNBOUND, watching
from framejit.guards.program import GuardProgram
from framejit.guards.reference import check, explain
from framejit.guards.section import Sections
from framejit.guards.source import FrameView, PathEnds

MUTATIONS = int(os.environ.get("FRAMEJIT_ORACLE_MUTATIONS", 12_500))
SEED = int(os.environ.get("FRAMEJIT_ORACLE_SEED", 0))
WORLDS = 10
WAYS = ((None, None), ("versions", None), ("events", True), ("values", True))
if sys.version_info < (3, 12):
    WAYS = tuple(pair for pair in WAYS if pair[0] != "events")
NAMES = ("a", "b", "c", "weight", "bias", "training")


class Thing:
    klass = 1

    @property
    def first(self):
        return next(iter(vars(self).values()))


class Wide(Thing):
    """Its property of another value; instances may change class to and fro."""

    klass = 2


class Slotted:
    __slots__ = ("a", "b")


CONSTANTS = (
    0,
    1,
    -1,
    2,
    10**25,
    True,
    False,
    None,
    0.0,
    -0.0,
    float("nan"),
    1.5,
    "a",
    "bb",
    "é",
    b"x",
    (),
    (1, "a"),
    (1.0, (2,)),
    1j,
    ...,
    torch.float32,
    torch.float64,
    torch.device("cpu"),
    frozenset({1}),
    slice(1, 2),
)


def linear():
    return torch.nn.Linear(2, 2)


def sequential():
    return torch.nn.Sequential(torch.nn.ReLU())


class World:
    """Makes and mutates objects."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.globals = {name: self.make(3) for name in NAMES}
        self.function = self.make_function()
        self.slots = [self.make(4) for _ in range(self.random.randint(1, 4))]

    def make_function(self):
        held, other = self.make(3), self.make(2)

        def inner():
            return held, other

        return FunctionType(inner.__code__, self.globals, closure=inner.__closure__)

    def frame(self):
        return FrameView(tuple(self.slots), self.function)

    def make(self, depth):
        makers = (
            (self.constant, self.tensor)
            if depth <= 0
            else (
                self.constant,
                self.tensor,
                self.list,
                self.tuple,
                self.dict,
                self.ordered,
                self.thing,
                self.thing,
                self.module,
                self.slotted,
                self.other,
            )
        )
        return self.random.choice(makers)(depth - 1)

    def constant(self, depth):
        return self.random.choice(CONSTANTS)

    def tensor(self, depth):
        shape = [self.random.randint(0, 3) for _ in range(self.random.choice((0, 1, 2, 3, 6)))]
        dtype = self.random.choice((torch.float32, torch.float64, torch.int64, torch.complex64))
        made = torch.zeros(shape, dtype=dtype)
        if dtype.is_floating_point and self.random.random() < 0.3:
            made.requires_grad_()
        forms = (
            lambda: made,
            lambda: made.detach(),
            lambda: made[None][0],
            lambda: made.transpose(0, -1) if shape else made,
            lambda: torch.nn.Parameter(made.detach(), requires_grad=False),
            lambda: made.conj(),
            lambda: made.to("meta"),
            lambda: made.to_sparse(),
        )
        return self.random.choice(forms)()

    def items(self, depth):
        return [self.make(depth) for _ in range(self.random.randint(0, 4))]

    def named(self, depth):
        names = self.random.sample(NAMES, self.random.randint(0, 4))
        return {name: self.make(depth) for name in names}

    def list(self, depth):
        return self.items(depth)

    def tuple(self, depth):
        return tuple(self.items(depth))

    def dict(self, depth):
        made = self.named(depth)
        if self.random.random() < 0.4:
            made |= {
                key: self.make(depth)
                for key in self.random.sample((1, 2.5, None, (1, "a"), int), 2)
            }
        return made

    def ordered(self, depth):
        return OrderedDict(self.named(depth))

    def thing(self, depth):
        made = self.random.choice((Thing, Wide))()
        for name, value in self.named(depth).items():
            setattr(made, name, value)
        return made

    def slotted(self, depth):
        made = Slotted()
        made.a = self.make(depth)
        return made

    def module(self, depth):
        made = self.random.choice((linear, sequential, torch.nn.Identity))()
        for name, value in self.named(depth).items():
            if not isinstance(value, torch.nn.Parameter | torch.nn.Module) and name not in (
                "weight",
                "bias",
            ):
                setattr(made, name, value)
        return made

    def other(self, depth):
        return self.random.choice(
            (Thing, Wide, deque(self.items(depth)), {1, 2}, len, torch, range(3), "text")
        )

    # ---- sources, with what they lead to

    def roots(self):
        yield from (s.SlotSource(i, f"x{i}") for i in range(len(self.slots)))
        yield from (s.CellContents(s.ClosureSource(i, f"c{i}")) for i in range(2))
        yield s.GlobalsSource()
        yield s.ModuleSource("torch.nn")

    def source(self):
        """A random walk."""
        frame, source = self.frame(), self.random.choice(list(self.roots()))
        for _ in range(self.random.randint(0, 5)):
            try:
                steps = list(self.steps(source, source.load(frame)))
            except PathEnds:
                break
            if not steps:
                break
            source = self.random.choice(steps)
        return source

    def steps(self, source, found):
        if isinstance(found, torch.Tensor):
            yield from (
                s.TensorProperty(source, what, dim)
                for what in ("size", "stride")
                for dim in range(found.dim())
                if found.layout is torch.strided
            )
            return
        if isinstance(found, list | tuple):
            yield from (s.SequenceItem(source, at) for at in range(-len(found), len(found)))
        if isinstance(found, dict):
            keys = [
                key for key in dict.keys(found) if isinstance(key, str | int | float | tuple | None)
            ]
            yield from (s.DictItem(source, key) for key in keys[:20])
            yield from (s.DictKey(source, at) for at in range(min(len(found), 20)))
        if isinstance(found, type):
            yield s.ClassDict(source)
            yield from (s.MroItem(source, at) for at in range(len(found.__mro__)))
        elif isinstance(found, Thing | torch.nn.Module | Slotted):
            yield s.InstanceDict(source)
            yield s.TypeOf(source)
            yield from (
                s.DictItem(s.InstanceDict(source), name) for name in getattr(found, "__dict__", ())
            )
            names = ("a", "b", "klass", "first", "training")
            yield from (s.AttrSource(source, name) for name in names if has(found, name))

    # ---- guards that hold

    def guards(self):
        frame = self.frame()
        drawn = [self.guard(frame) for _ in range(self.random.randint(1, 12))]
        return [guard for guard in drawn if guard is not None and check(guard, frame)]

    def guard(self, frame):
        if self.random.random() < 0.05:
            return Guard(s.TorchStateSource(), Kind.TORCH_STATE, TorchState.now())
        source = self.source()
        try:
            found = source.load(frame)
        except PathEnds:
            return None
        kinds = {
            Kind.TYPE: type(found),
            Kind.IS: found,
            Kind.PYTHON: ("of this type", lambda x: type(x) is type(found)),
            Kind.SAME: source,
        }
        if isinstance(found, torch.Tensor):
            kinds = {Kind.TENSOR: TensorSpec.of(found), Kind.TYPE: type(found)}
        if any(found is constant for constant in CONSTANTS) or type(found) in (
            int,
            str,
            float,
            bool,
        ):
            kinds[Kind.EQUALS] = found
        if isinstance(found, dict):
            kinds |= {Kind.LENGTH: len(found), Kind.KEYS: tuple(found), Kind.ABSENT: "absent"}
            kinds[Kind.ALL_ABSENT] = self.random.choice([("absent", "b"), ("absent", 7), ("x",)])
            plain = [key for key in found if isinstance(key, str | int | float)]
            kinds |= {Kind.PRESENT: plain[0]} if plain else {}
            empty = [
                key
                for key, item in dict.items(found)
                if type(key) is str and type(item) in (dict, list, OrderedDict) and not item
            ]
            kinds |= {Kind.EMPTY_ITEMS: tuple(empty)} if empty else {}
        if isinstance(found, list | tuple | str | bytes | deque | set):
            kinds[Kind.LENGTH] = len(found)
        if type(found) is int:
            kinds[Kind.SHAPE] = self.relation(found, source)
        others = tuple(self.source() for _ in range(self.random.randint(1, 10)))
        kinds[Kind.DISTINCT] = others
        kind = self.random.choice(list(kinds))
        return Guard(source, kind, kinds[kind])

    def relation(self, found, source):
        """Of one number, or of two; in C, or (a true division) in Python."""
        two = (("s0", source), ("s1", self.source()))
        return self.random.choice(
            (
                ShapeExpr(f"s0 <= {found}", two[:1]),
                ShapeExpr(f"s0 % 3 == {found % 3} and s0 // 2 == {found // 2}", two[:1]),
                ShapeExpr(f"IntTrueDiv(s0, 4) == {found / 4}", two[:1]),
                ShapeExpr("Min(s0, s1) * 2 <= s0 + s1", two),
                ShapeExpr("s1 == 0 or s0 % s1 == 0 or not -s1 > Abs(s0)", two),
            )
        )

    # ---- mutations

    def mutate(self):
        """One change somewhere; where that is impossible, a slot."""
        source = self.source()
        while source.base is not None and self.random.random() < 0.5:
            source = source.base
        try:  # a class's dictionary must only be changed through the class
            if not isinstance(source, s.ClassDict) and self.change(source.load(self.frame())):
                return
        except (PathEnds, TypeError, AttributeError, RuntimeError, KeyError):
            pass
        self.slots[self.random.randrange(len(self.slots))] = (
            UNBOUND if self.random.random() < 0.1 else self.make(3)
        )

    def change(self, found):
        new = self.make(1)
        if isinstance(found, torch.Tensor):
            found.requires_grad_(
                not found.requires_grad
            ) if self.random.random() < 0.6 else found.resize_(2, 1)
        elif isinstance(found, list):
            self.random.choice(
                (
                    lambda: found.append(new),
                    found.pop if found else found.clear,
                    found.reverse,
                    lambda: found.__setitem__(0, new) if found else None,
                )
            )()
        elif isinstance(found, OrderedDict) and found:
            found.move_to_end(self.random.choice(list(found)), last=self.random.random() < 0.5)
        elif found is self.globals or type(found) is dict and not set(NAMES).isdisjoint(found):
            self.change_names(found, found.__setitem__, found.__delitem__, new)
        elif isinstance(found, Thing):
            if self.random.random() < 0.1:
                found.__class__ = Wide if type(found) is Thing else Thing
            elif self.random.random() < 0.1:
                found.__dict__ = self.random.choice(
                    (dict(reversed(found.__dict__.items())), self.named(1))
                )
            else:
                names = (
                    self.random.random() < 0.5
                    and vars(found)
                    or dict.fromkeys(n for n in NAMES if has(found, n))
                )
                self.change_names(
                    names, lambda n, v: setattr(found, n, v), lambda n: delattr(found, n), new
                )
        elif isinstance(found, torch.nn.Module):
            self.change_module(found, new)
        elif found is self.function:
            other = self.make_function()  # it has as many cells
            self.function = FunctionType(other.__code__, self.globals, closure=other.__closure__)
        else:
            return False
        return True

    def change_module(self, module, new):
        """Around its __setattr__: what it takes for a parameter, a hook, its forward."""
        kind = self.random.randrange(4)
        if kind == 0:
            object.__setattr__(module, "__dict__", dict(vars(module), a=new))
        elif kind == 1:
            object.__setattr__(
                module,
                "__class__",
                torch.nn.Identity if type(module) is torch.nn.ReLU else torch.nn.ReLU,
            )
        elif kind == 2:
            vars(module)[self.random.choice(("a", "b", "training"))] = new
        else:
            vars(module).pop(self.random.choice(("a", "b", "training")), None)

    def change_names(self, names, set_, delete, new):
        ours = [name for name in names if name in NAMES]
        if ours and self.random.random() < 0.4:
            delete(self.random.choice(ours))
        else:
            set_(self.random.choice(NAMES), new)


def has(thing, name):
    try:
        return hasattr(thing, name)
    except Exception:
        return False


@pytest.fixture(params=WAYS)
def way(request):
    """Each way to detect changes; the last one runs all steps at every call."""
    watching.force(*request.param)
    yield
    watching.force(None)


@pytest.fixture(params=[False, True], ids=["anchors as they are", "all stay"])
def anchors(request, monkeypatch):
    """Whether every object that an argument brings is taken for one that stays, which makes far
    more paths stable."""
    if request.param:
        monkeypatch.setattr(Sections, "_stays", lambda self, source: True)


@pytest.mark.usefixtures("way", "anchors")
@pytest.mark.parametrize("number", range(WORLDS))
def test_native_agrees_with_reference(number):
    done = reuses = 0
    seed = SEED + number * 1_000_003
    while done < MUTATIONS // WORLDS // len(WAYS) // 2:
        seed += 1
        world = World(seed)
        guards = world.guards()
        lifted = [guard.source for guard in guards if guard.kind is not Kind.TORCH_STATE][:3]
        program = GuardProgram.build(guards, lifted)
        native = program.native()
        frame = world.frame()
        assert native.check(frame.slots, frame.function), f"seed {seed}\n{program}"
        for _ in range(20):
            world.mutate()
            done += 1
            for _ in range(world.random.choice((1, 1, 2))):
                compare(world, seed, program, native, guards, lifted)
        reuses += native.reuses
    assert reuses > 0


def first_failure(program, frame):
    """By the reference: the first guard of the program, in its order, that does not hold."""
    for guard in program.guards:
        if not check(guard, frame):
            return explain(guard, frame)
    for source in program.lifted:
        try:
            source.load(frame)
        except PathEnds:
            return Failure(None, source.name, "found", "gone")
    return None


def compare(world, seed, program, native, guards, lifted):
    frame = world.frame()
    all_hold = all(check(guard, frame) for guard in guards)
    failure = first_failure(program, frame)
    found = native.first_failure(frame.slots, frame.function)
    assert (found == -1) is (failure is None), (
        f"seed {seed}: native {found}, reference {failure}\n{program}"
    )
    assert all_hold or failure is not None, (
        f"seed {seed}: a guard that nothing implies was dropped\n{program}"
    )
    if found >= 0:
        assert str(program.failure(found, frame))
    else:
        objects = native.lifted(frame.slots, frame.function)
        assert all(
            one is other or one == other
            for one, other in zip(objects, (source.load(frame) for source in lifted), strict=True)
        )
