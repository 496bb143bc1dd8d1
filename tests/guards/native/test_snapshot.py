"""A snapshot of stable state is invalid once an object has another dictionary or class, or a
function other code or defaults."""

from __future__ import annotations

import copy
import pickle
import types

import pytest
import torch
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind
from framejit.guards.native import watching
from framejit.guards.program import GuardProgram
from framejit.guards.reference import check
from framejit.guards.source import FrameView
from torch import nn

X = s.SlotSource(0, "x")


def own(of, name):
    return s.DictItem(s.InstanceDict(of), name)


def function():
    pass


class Holder(nn.Module):
    """What hangs on a module is watched."""

    def __init__(self, thing=None):
        super().__init__()
        self.__dict__["thing"] = thing


class Guarded:
    """Guards on a holder's thing; native code and reference have to agree on them."""

    def __init__(self, thing, *guards):
        self.holder = Holder(thing)
        self.guards = [Guard(X, Kind.TYPE, Holder), *guards]
        self.native = GuardProgram.build(self.guards).native()
        assert self.hold() and self.hold() and self.native.reuses >= 1

    @property
    def slots(self):
        return (self.holder,)

    def hold(self):
        found = self.native.check(self.slots, function)
        frame = FrameView(self.slots, function)
        assert found == all(check(guard, frame) for guard in self.guards)
        return found


THING = own(X, "thing")


class Plain:
    pass


class Slotted:
    __slots__ = ("__weakref__",)


class DictOnly(Slotted):
    """CPython has another setter for its dictionary than for Plain's."""


class DictInSlots:
    __slots__ = ("__dict__",)


class Mixed(DictOnly, Plain):
    """Two descriptors, either of which sets the one dictionary."""


class Meta(type):
    """Its classes can lose their descriptor of `__dict__`."""

    __dict__ = None  # type: ignore[assignment]


class Own(metaclass=Meta):
    pass


class Table(dict):
    pass


class Failure(Exception):
    """Its dictionary is C code's, with a setter of its own."""


class Restored:
    def __setstate__(self, state):
        self.__dict__ = dict(state)


class Stubborn:
    def __setattr__(self, name, value):
        raise AttributeError(name)


KINDS = (
    Plain,
    DictOnly,
    DictInSlots,
    Mixed,
    Own,
    Table,
    Failure,
    Restored,
    Stubborn,
    nn.Module,
    torch.nn.Identity,
)
SAME_LAYOUT = {DictInSlots: {"__slots__": ()}}


def names_of(cls):
    return type.__dict__["__dict__"].__get__(cls)


def descriptor_of(cls, name):
    return next(
        names_of(base)[name]
        for base in type.__dict__["__mro__"].__get__(cls)
        if name in names_of(base)
    )


WAYS_TO_SET = {
    "attribute": lambda thing, name, value: setattr(thing, name, value),
    "object's method": lambda thing, name, value: object.__setattr__(thing, name, value),
    "descriptor": lambda thing, name, value: descriptor_of(type(thing), name).__set__(thing, value),
    "twice": lambda thing, name, value: [
        object.__setattr__(thing, name, one) for one in (value, getattr(thing, name), value)
    ],
}


@pytest.fixture(
    params=[(None, None), ("versions", None), ("values", None)], ids=["best", "versions", "values"]
)
def way(request):
    watching.force(*request.param)
    yield
    watching.force(None)


def plain_setattr(thing, how):
    return how != "attribute" or type(thing) is not Stubborn


HOOKS = ("_forward_hooks", "_forward_pre_hooks")
CHANGES_OF_HOOKS = {
    "item": lambda module: module.register_forward_pre_hook(print),
    "another table": lambda module: vars(module).update(_forward_hooks={1: print}),
    "no table": lambda module: vars(module).pop("_forward_hooks"),
    "another dictionary": lambda module: setattr(
        module, "__dict__", {**vars(module), "_forward_hooks": {1: print}}
    ),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("change", CHANGES_OF_HOOKS)
def test_empty_items(change):
    guarded = Guarded(nn.Identity(), Guard(s.InstanceDict(THING), Kind.EMPTY_ITEMS, HOOKS))
    before = dict(vars(guarded.holder.thing))
    CHANGES_OF_HOOKS[change](guarded.holder.thing)
    assert not guarded.hold()
    for name in HOOKS:
        before[name].clear()
    guarded.holder.thing.__dict__ = before
    assert guarded.hold()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("how", WAYS_TO_SET)
@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
def test_another_dictionary(cls, how):
    thing = cls()
    vars(thing)["n"] = 1
    guarded = Guarded(thing, Guard(THING, Kind.TYPE, cls), Guard(own(THING, "n"), Kind.EQUALS, 1))
    change = WAYS_TO_SET[how if plain_setattr(thing, how) else "object's method"]
    first, second = vars(thing), dict(vars(thing), n=2)
    for value, expected in ((second, False), (first, True), (second, False), (dict(first), True)):
        change(thing, "__dict__", value)
        assert guarded.hold() is expected
        assert guarded.hold() is expected


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("how", WAYS_TO_SET)
@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.__name__)
def test_another_class(cls, how):
    thing = cls()
    vars(thing)["n"] = 1
    guarded = Guarded(thing, Guard(THING, Kind.TYPE, cls), Guard(own(THING, "n"), Kind.EQUALS, 1))
    change = WAYS_TO_SET[how if plain_setattr(thing, how) else "object's method"]
    for _ in range(2):
        change(thing, "__class__", type(cls)("Other", (cls,), SAME_LAYOUT.get(cls, {})))
        assert not guarded.hold() and not guarded.hold()
        object.__setattr__(thing, "__class__", cls)
        assert guarded.hold() and guarded.hold()


@pytest.mark.usefixtures("way")
def test_ways_around_attributes():
    """State restored into a live object, its dictionary deleted, emptied, copied over."""
    for change in (
        lambda thing: thing.__setstate__({"n": 2}),
        lambda thing: delattr(thing, "__dict__"),
        lambda thing: vars(thing).clear(),
        lambda thing: vars(thing).update(pickle.loads(pickle.dumps({"n": 3}))),
        lambda thing: thing.__init__(4),
        lambda thing: vars(thing).__init__(n=5),
        lambda thing: exec("thing.n = 6", {"thing": thing}),
    ):
        thing = type("Thing", (Restored,), {"__init__": lambda self, n=1: setattr(self, "n", n)})()
        guarded = Guarded(thing, Guard(own(THING, "n"), Kind.EQUALS, 1))
        change(thing)
        assert not guarded.hold() and not guarded.hold()
        thing.n = 1
        assert guarded.hold() and guarded.hold()
        guarded.holder.__dict__["thing"] = copy.copy(thing)
        assert guarded.hold()
        guarded.holder.__dict__["thing"].n = 7
        assert not guarded.hold()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_class_without_its_descriptor(when):
    """It still sets, whoever kept it."""
    cls = Meta("Lost", (), {})
    thing, kept = cls(), descriptor_of(cls, "__dict__")
    thing.n = 1
    if when == "before":
        cls.__dict__ = None
    guarded = Guarded(thing, Guard(THING, Kind.TYPE, cls), Guard(own(THING, "n"), Kind.EQUALS, 1))
    cls.__dict__ = None
    assert guarded.hold()
    kept.__set__(thing, {"n": 2})
    assert not guarded.hold() and not guarded.hold()


# how a thing is held: (what holds it, its path, how another one is put there)
def in_cell(thing):
    def held():
        return thing

    return held


def set_cell(held, value):
    held.__closure__[0].cell_contents = value


PLACES = {
    "attribute": (
        lambda thing: Holder(thing),
        lambda of: own(of, "thing"),
        lambda held, value: vars(held).update(thing=value),
    ),
    "list": (
        lambda thing: [thing],
        lambda of: s.SequenceItem(of, 0),
        lambda held, value: held.__setitem__(0, value),
    ),
    "dict": (
        lambda thing: {"k": thing},
        lambda of: s.DictItem(of, "k"),
        lambda held, value: held.update(k=value),
    ),
    "tuple": (
        lambda thing: Holder((1, thing)),
        lambda of: s.SequenceItem(own(of, "thing"), 1),
        lambda held, value: vars(held).update(thing=(1, value)),
    ),
    "defaults": (
        lambda thing: types.FunctionType(function.__code__, {}, argdefs=(thing,)),
        lambda of: s.SequenceItem(s.AttrSource(of, "__defaults__"), 0),
        lambda held, value: setattr(held, "__defaults__", (value,)),
    ),
    "cell": (
        in_cell,
        lambda of: s.CellContents(s.SequenceItem(s.AttrSource(of, "__closure__"), 0)),
        set_cell,
    ),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("place", PLACES)
def test_another_object_at_the_same_address(place):
    """Where one object dies and another takes its place in memory, nobody is given anything, and
    yet all is another's."""
    hold, path_to, put = PLACES[place]
    thing, other = Plain(), type("Other", (Plain,), {})
    dicts = [vars(thing)]  # they stay, so that none of them says that it dies
    thing.n = 1
    held, path = hold(thing), path_to(THING)
    more = (
        (Guard(THING, Kind.TYPE, types.FunctionType),)
        if isinstance(held, types.FunctionType)
        else ()
    )
    guarded = Guarded(
        held, *more, Guard(path, Kind.TYPE, Plain), Guard(own(path, "n"), Kind.EQUALS, 1)
    )
    found = set()
    for cls, n in [(Plain, 1), (other, 1), (Plain, 1), (Plain, 2), (other, 2), (Plain, 1)] * 3:
        address = id(thing)
        put(held, None)
        del thing
        thing = made_at(address, cls)
        dicts.append(vars(thing))
        thing.n = n
        found |= {cls} if id(thing) == address else set()
        put(held, thing)
        assert guarded.hold() is (cls is Plain and n == 1)
        assert guarded.hold() is (cls is Plain and n == 1)
    assert found == {Plain, other}, "no object took the place of the one before"


def made_at(address, cls):
    """An instance, if possible there."""
    made = [cls()]
    while id(made[-1]) != address and len(made) < 1000:
        made.append(cls())
    return made.pop()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("part", ["__code__", "__defaults__", "__kwdefaults__"])
@pytest.mark.parametrize(
    "set_",
    [
        setattr,
        object.__setattr__,
        lambda f, name, value: vars(types.FunctionType)[name].__set__(f, value),
    ],
)
def test_parts_of_functions(part, set_):
    def made(a=1, *, b=2):
        return a + b

    path = s.AttrSource(THING, part)
    value = getattr(made, part)
    guards = {
        "__code__": Guard(path, Kind.IS, value),
        "__defaults__": Guard(s.SequenceItem(path, 0), Kind.EQUALS, 1),
        "__kwdefaults__": Guard(s.DictItem(path, "b"), Kind.EQUALS, 2),
    }
    guarded = Guarded(made, Guard(THING, Kind.TYPE, types.FunctionType), guards[part])
    other = {
        "__code__": (lambda a=1, *, b=2: a).__code__,
        "__defaults__": (7,),
        "__kwdefaults__": {"b": 7},
    }[part]
    for one, expected in ((other, False), (value, True), (other, False), (copy.copy(value), True)):
        set_(made, part, one)
        assert guarded.hold() is expected and guarded.hold() is expected


class Watching:
    """Asks while it is being dropped."""

    def __init__(self, guarded):
        self.guarded, self.found = guarded, []

    def __del__(self):
        self.found.append(self.guarded.hold())


@pytest.mark.usefixtures("way")
def test_asked_while_it_happens():
    """A destructor runs after the assignment, but inside of it."""
    thing = Plain()
    thing.n = 1
    guarded = Guarded(thing, Guard(THING, Kind.TYPE, Plain), Guard(own(THING, "n"), Kind.EQUALS, 1))
    for n, before in ((2, True), (3, False), (1, False)):
        last = Watching(guarded)
        found = last.found
        vars(thing)["last"] = last
        del last
        assert guarded.hold() is before and found == []
        thing.__dict__ = {"n": n}
        assert found == [n == 1]
        assert guarded.hold() is (n == 1)
