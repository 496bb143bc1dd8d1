"""Every load, in C and in the reference: what it finds, and where its path ends."""

from __future__ import annotations

import functools
import math
import sys
import types
import weakref
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from types import FunctionType, SimpleNamespace

import pytest
import torch
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind
from framejit.guards.kinds.registry import kind_of
from framejit.guards.native import UNBOUND
from framejit.guards.program import GuardProgram
from framejit.guards.source import FrameView, PathEnds

X = s.SlotSource(0, "x")
GONE = object()


class Plain:
    klass = "of the class"

    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)


class Slotted:
    __slots__ = ("a",)


class Sneaky(Plain):
    """Lies about its attributes and dictionary."""

    @property
    def __dict__(self):
        return {"a": "a lie"}

    def __getattribute__(self, name):
        return "a lie" if name == "a" else object.__getattribute__(self, name)


class Missing(dict):
    def __missing__(self, key):
        return "made up"

    def __getitem__(self, key):
        return "made up"


class Backwards(list):
    def __getitem__(self, index):
        return "made up"


Pair = namedtuple("Pair", "a b")


def with_dictionary(**attributes):
    made = Plain(**attributes)
    vars(made)
    return made


def many(count):
    return Plain(**{f"a{i}": i for i in range(count)})


def emptied():
    made = Plain(a=1, b=2)
    del made.a
    return made


def cells():
    value = "held"

    def inner():
        return value, never

    if False:
        never = None
    return inner


def method(self):
    return __class__  # noqa: F821


def own(attr):
    return s.DictItem(s.InstanceDict(X), attr)


TABLE = {"a": 1}
TENSOR = torch.empty(9, 8)[2:].t()
AT_KEY = s.ItemAtKey(s.SequenceItem(X, 0), s.SequenceItem(X, 1))
HAS_KEY = s.HasKey(s.SequenceItem(X, 0), s.SequenceItem(X, 1))

CASES = {
    "slot": (X, "x", "x"),
    "slot unbound": (X, UNBOUND, GONE),
    "slot outside": (s.SlotSource(7, "y"), "x", GONE),
    "attr": (s.AttrSource(X, "a"), Plain(a=1), 1),
    "attr of class": (s.AttrSource(X, "klass"), Plain(), "of the class"),
    "attr by protocol": (s.AttrSource(X, "a"), Sneaky(a=1), "a lie"),
    "attr missing": (s.AttrSource(X, "a"), Plain(), GONE),
    "own": (own("a"), Plain(a=1), 1),
    "own last": (own("b"), Plain(a=1, b=2), 2),
    "own of sneaky": (own("a"), Sneaky(a=1), 1),
    "own with dictionary": (own("a"), with_dictionary(a=1), 1),
    "own of many": (own("a39"), many(40), 39),
    "own missing": (own("c"), Plain(a=1), GONE),
    "own deleted": (own("a"), emptied(), GONE),
    "own, in the class only": (own("klass"), Plain(), GONE),
    "own of slotted": (own("a"), Slotted(), GONE),
    "own of int": (own("a"), 3, GONE),
    "own of class": (own("klass"), Plain, GONE),
    "own of module": (own("pi"), math, math.pi),
    "own of function": (own("tag"), method, GONE),
    "own of exception": (own("a"), ValueError(), GONE),
    "own of namespace": (own("a"), SimpleNamespace(a=1), 1),
    "own of nn.Module": (
        s.DictItem(own("_parameters"), "bias"),
        torch.nn.Linear(2, 2, bias=False),
        None,
    ),
    "item at key": (AT_KEY, ({"a": 1, 2: 3}, "a"), 1),
    "item at key, an int": (AT_KEY, ({"a": 1, 2: 3}, 2), 3),
    "item at key missing": (AT_KEY, ({"a": 1}, "b"), GONE),
    "item at key, of no type of keys": (AT_KEY, ({None: 1}, None), GONE),
    "item at key, past __missing__": (AT_KEY, (Missing(), "b"), GONE),
    "item at key, past __getitem__": (AT_KEY, (Missing(a=1), "a"), 1),
    "item at key, no dictionary": (AT_KEY, ([1, 2], 0), GONE),
    "item at key, the key is gone": (AT_KEY, ({"a": 1},), GONE),
    "has key": (HAS_KEY, ({"a": 1}, "a"), True),
    "has key missing": (HAS_KEY, (Missing(), "a"), False),
    "has key, no dictionary": (HAS_KEY, ([1, 2], 0), GONE),
    "own, key not str": (s.DictItem(s.InstanceDict(X), 3), Plain(a=1), GONE),
    "dictionary of slotted": (s.InstanceDict(X), Slotted(), None),
    "dictionary of class": (s.InstanceDict(X), Plain, GONE),
    "type": (s.TypeOf(X), True, bool),
    "class dictionary item": (
        s.DictItem(s.ClassDict(s.TypeOf(X)), "klass"),
        Plain(),
        "of the class",
    ),
    "class dictionary of builtin": (s.DictItem(s.ClassDict(X), "bit_count"), int, int.bit_count),
    "class dictionary of no class": (s.ClassDict(X), 3, GONE),
    "class dictionary lacks a base's": (s.DictItem(s.ClassDict(X), "klass"), Sneaky, GONE),
    "mro": (s.MroItem(X, 1), Sneaky, Plain),
    "mro outside": (s.MroItem(X, 3), Sneaky, GONE),
    "mro of no class": (s.MroItem(X, 0), 3, GONE),
    "dict item": (s.DictItem(X, "k"), {"k": 1}, 1),
    "dict item, int key": (s.DictItem(X, 7), {7: "seven"}, "seven"),
    "dict item, tuple key": (s.DictItem(X, ("a", 1)), {("a", 1): 5}, 5),
    "dict item, key of equal value": (s.DictItem(X, 1), {True: "one"}, "one"),
    "dict item missing": (s.DictItem(X, "k"), {}, GONE),
    "dict item of defaultdict": (s.DictItem(X, "k"), defaultdict(list), GONE),
    "dict item of subclass": (s.DictItem(X, "k"), Missing(k=1), 1),
    "dict item, __missing__": (s.DictItem(X, "k"), Missing(), GONE),
    "dict item of no dict": (s.DictItem(X, "k"), UserDict(k=1), GONE),
    "dict key": (s.DictKey(X, 1), {"a": 1, "b": 2}, "b"),
    "dict key, ordered": (s.DictKey(X, 0), OrderedDict(a=1, b=2), "a"),
    "dict key outside": (s.DictKey(X, 2), {"a": 1, "b": 2}, GONE),
    "dict key negative": (s.DictKey(X, -1), {"a": 1}, GONE),
    "dict key of own": (s.DictKey(s.InstanceDict(X), 1), Plain(a=1, b=2), "b"),
    "list item": (s.SequenceItem(X, 1), ["a", "b"], "b"),
    "list item negative": (s.SequenceItem(X, -2), ["a", "b"], "a"),
    "list item outside": (s.SequenceItem(X, 2), ["a", "b"], GONE),
    "list item outside below": (s.SequenceItem(X, -3), ["a", "b"], GONE),
    "list subclass item": (s.SequenceItem(X, 0), Backwards(["a"]), "a"),
    "tuple item": (s.SequenceItem(X, 0), ("a",), "a"),
    "namedtuple item": (s.SequenceItem(X, 1), Pair(1, 2), 2),
    "item of no sequence": (s.SequenceItem(X, 0), "abc", GONE),
    "cell of no cell": (s.CellContents(X), 3, GONE),
    "mapping of a proxy": (s.ProxiedMapping(X), types.MappingProxyType(TABLE), TABLE),
    "mapping of a view": (s.ProxiedMapping(X), TABLE.keys(), TABLE),
    "mapping of no proxy": (s.ProxiedMapping(X), {"a": 1}, GONE),
    "referent": (s.Referent(X), weakref.ref(Plain), Plain),
    "referent that is gone": (s.Referent(X), weakref.ref(Plain()), None),
    "referent of a subclass": (s.Referent(X), weakref.KeyedRef(Plain, None, 1), Plain),
    "referent of no reference": (s.Referent(X), 3, GONE),
    "cached result": (
        s.CachedResult(X, (1,), (("b", 2),), (int, int)),
        functools.lru_cache(lambda a, b: (a, b)),
        (1, 2),
    ),
    "cached result of no cache": (s.CachedResult(X, (1,), (), (int,)), str, GONE),
    "address": (s.AddressOf(X), TENSOR, id(TENSOR)),
    "size": (s.TensorProperty(X, "size", 1), TENSOR, 7),
    "size negative": (s.TensorProperty(X, "size", -1), TENSOR, 7),
    "size outside": (s.TensorProperty(X, "size", 2), TENSOR, GONE),
    "size, 7 dimensions": (s.TensorProperty(X, "size", 6), torch.empty(1, 2, 3, 4, 5, 6, 7), 7),
    "size of Parameter": (s.TensorProperty(X, "size", 0), torch.nn.Parameter(torch.empty(5)), 5),
    "size of sparse": (s.TensorProperty(X, "size", 0), torch.eye(3).to_sparse(), 3),
    "stride of sparse": (s.TensorProperty(X, "stride", 0), torch.eye(3).to_sparse_csr(), GONE),
    "stride": (s.TensorProperty(X, "stride", 0), TENSOR, 1),
    "stride, 7 dimensions": (s.TensorProperty(X, "stride", 5), torch.empty(1, 2, 3, 4, 5, 6, 7), 7),
    "storage offset": (s.TensorProperty(X, "storage_offset", 0), TENSOR, 16),
    "size of no tensor": (s.TensorProperty(X, "size", 0), [1], GONE),
}


def native_load(source, frame):
    program = GuardProgram.build([], [source]).native()
    found = program.lifted(frame.slots, frame.function)
    if found is None:
        raise PathEnds(source.name)
    return found[0]


@pytest.mark.parametrize("walk", [s.Source.load, native_load], ids=["reference", "native"])
@pytest.mark.parametrize("case", CASES)
def test_load(case, walk):
    source, subject, expected = CASES[case]
    frame = FrameView((subject,), plain)
    for _ in range(3):  # the second time native finds attributes by hint
        if expected is GONE:
            with pytest.raises(PathEnds):
                walk(source, frame)
        else:
            found = walk(source, frame)
            assert type(found) is type(expected) and found == expected


def plain(x):
    return x


@pytest.mark.parametrize("walk", [s.Source.load, native_load], ids=["reference", "native"])
def test_roots_of_the_function(walk):
    inner = cells()
    frame = FrameView((), inner)
    by_name = dict(zip(inner.__code__.co_freevars, range(9), strict=False))
    held, never = (s.ClosureSource(by_name[name], name) for name in ("value", "never"))
    assert walk(held, frame) is inner.__closure__[by_name["value"]]
    assert walk(s.CellContents(held), frame) == "held"
    with pytest.raises(PathEnds):
        walk(s.CellContents(never), frame)
    with pytest.raises(PathEnds):
        walk(s.ClosureSource(2, "outside"), frame)
    assert walk(s.GlobalsSource(), frame) is globals()
    assert walk(s.DictItem(s.GlobalsSource(), "GONE"), frame) is GONE
    assert walk(s.DictItem(s.BuiltinsSource(), "len"), frame) is len
    assert walk(s.ModuleSource("sys"), frame) is sys


def test_a_function_has_its_own_builtins(holds):
    odd = FunctionType(plain.__code__, {"__builtins__": {"len": "mine"}})
    guard = Guard(s.DictItem(s.BuiltinsSource(), "len"), Kind.EQUALS, "mine")
    assert holds(guard, 1, function=odd)
    assert not holds(guard, 1)


@pytest.mark.parametrize("walk", [s.Source.load, native_load], ids=["reference", "native"])
def test_ordered_dict_keeps_its_own_order(walk):
    ordered = OrderedDict(a=1, b=2, c=3)
    ordered.move_to_end("a")
    assert [walk(s.DictKey(X, i), FrameView((ordered,), plain)) for i in range(3)] == [
        "b",
        "c",
        "a",
    ]


def test_own_attributes_are_read_without_making_a_dictionary():
    subject = Plain(a=1, b=2)
    before = sys.getsizeof(subject)
    source = s.InstanceDict(X)
    guards = [
        Guard(own("a"), Kind.EQUALS, 1),
        Guard(source, Kind.ABSENT, "z"),
        Guard(source, Kind.PRESENT, "b"),
        Guard(source, Kind.KEYS, ("a", "b")),
        Guard(source, Kind.LENGTH, 2),
    ]
    program = GuardProgram.build(guards)
    assert "instance_dict" not in str(program)
    assert program.native().check((subject,), plain)
    assert sys.getsizeof(subject) == before


def test_hints_survive_other_orders():
    program = GuardProgram.build([Guard(own("a"), Kind.EQUALS, 1)]).native()
    for subject in (
        Plain(a=1),
        Plain(b=2, a=1),
        with_dictionary(c=0, b=2, a=1),
        SimpleNamespace(a=1),
        many(3),
    ) * 3:
        assert program.check((subject,), plain) is (getattr(subject, "a", None) == 1)


def test_every_source_says_what_it_means():
    kinds = {
        kind for kind in vars(s).values() if isinstance(kind, type) and issubclass(kind, s.Source)
    } - {s.Source}
    assert len(kinds) > 20
    assert [kind for kind in kinds if kind.read is s.Source.read] == []
    assert [
        kind for kind in kinds if kind.name is s.Source.name and not hasattr(kind, "written")
    ] == []


class PrintsItself:
    def __repr__(self):
        raise AssertionError("the program's own code was run")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("a", "'a'"),
        (3, "3"),
        (("a", (1,)), "('a', (1,))"),
        (torch.nn.Parameter(torch.zeros(3)), "<Parameter>"),
        ((torch.zeros(3), 1), "(<Tensor>, 1)"),
        (PrintsItself(), "<PrintsItself>"),
        (torch.float32, "torch.float32"),
    ],
    ids=lambda item: item if isinstance(item, str) else type(item).__name__,
)
def test_keys_are_written_without_running_code(key, text):
    assert s.DictItem(X, key).name == f"x[{text}]"
    table = {key: 1}
    for kind, expected in ((Kind.KEYS, (key,)), (Kind.PRESENT, key), (Kind.ABSENT, key)):
        guard = Guard(X, kind, expected)
        assert text in kind_of(guard).expression(guard)
        assert text in "".join(kind_of(guard).difference(guard, table))
