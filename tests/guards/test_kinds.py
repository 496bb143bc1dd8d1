"""Every kind of guard but tensors and torch's state: what it takes and what it refuses, in C and in
the reference."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque, namedtuple

import pytest
import torch
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind, ShapeExpr
from framejit.guards.kinds.registry import KINDS
from framejit.guards.program import GuardProgram

X, Y, Z = (s.SlotSource(i, name) for i, name in enumerate("xyz"))
NAN = float("nan")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Number(enum.IntEnum):
    ONE = 1


class Liar(dict):
    def __len__(self):
        return 99

    def __iter__(self):
        return iter("lies")

    def __contains__(self, key):
        return True


class Raising:
    def __eq__(self, other):
        raise RuntimeError

    def __bool__(self):
        raise RuntimeError

    __hash__ = object.__hash__

    @property
    def broken(self):
        raise RuntimeError


class Str(str):
    pass


Pair = namedtuple("Pair", "a b")


class Plain:
    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)


def key(value):
    return "".join(value)  # a str equal to a literal but another object


def moved():
    ordered = OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    return ordered


THING, OTHER, ODD = object(), object(), Raising()
PAIR_WITH_ODD = (1, ODD)

# kind, expected, objects that it takes, objects that it refuses
CASES = [
    (Kind.TYPE, int, [1, 10**40], [True, 1.0, "1", int]),
    (Kind.TYPE, type, [int, Plain], [1]),
    (Kind.IS, THING, [THING], [OTHER, None]),
    (Kind.IS, None, [None], [False, 0]),
    (Kind.EQUALS, 4, [4], [5, 4.0, "4", None, True, Number.ONE]),
    (Kind.EQUALS, 1, [1], [True, 1.0, Number.ONE]),
    (Kind.EQUALS, 10**30, [10**30], [10**30 + 1, -(10**30)]),
    (Kind.EQUALS, True, [True], [1, False]),
    (Kind.EQUALS, None, [None], [0, ""]),
    (Kind.EQUALS, ..., [...], [None]),
    (Kind.EQUALS, "abc", ["abc", key(["a", "bc"])], ["abd", "ab", b"abc", Str("abc")]),
    (Kind.EQUALS, "añ€𝄞", [key(["añ", "€𝄞"])], ["añ€", "an€𝄞"]),
    (Kind.EQUALS, b"abc", [bytes(bytearray(b"abc"))], [b"abd", "abc"]),
    (Kind.EQUALS, 0.5, [0.5], [0.25, 1]),
    (Kind.EQUALS, 0.0, [0.0], [-0.0, 0, False]),
    (Kind.EQUALS, -0.0, [-0.0], [0.0]),
    (Kind.EQUALS, NAN, [NAN, float("nan"), -float("nan")], [0.0, "nan", float("inf")]),
    (Kind.EQUALS, complex(0.0, -0.0), [complex(0.0, -0.0)], [complex(0.0, 0.0), 0.0]),
    (Kind.EQUALS, complex(NAN, 1), [complex(NAN, 1)], [complex(NAN, 2)]),
    (
        Kind.EQUALS,
        (1, ("a", 2.0)),
        [(1, ("a", 2.0))],
        [(1, ("a", 2)), (1,), (True, ("a", 2.0)), [1, ("a", 2.0)]],
    ),
    (Kind.EQUALS, (0.0, NAN), [(0.0, float("nan"))], [(-0.0, NAN)]),
    (Kind.EQUALS, Pair(1, 2), [Pair(1, 2)], [(1, 2), Pair(1, 2.0)]),
    (
        Kind.EQUALS,
        frozenset({1, "a"}),
        [frozenset({"a", 1})],
        [frozenset({True, "a"}), {1, "a"}, frozenset({1})],
    ),
    (Kind.EQUALS, (frozenset({1}),), [(frozenset({1}),)], [(frozenset({1.0}),)]),
    (Kind.EQUALS, slice(1, None), [slice(1, None)], [slice(True, None), slice(1, 2), 1]),
    (Kind.EQUALS, torch.float32, [torch.float32], [torch.float64, float]),
    (Kind.EQUALS, torch.device("cpu"), [torch.device("cpu")], [torch.device("meta"), "cpu"]),
    (Kind.EQUALS, torch.Size((2, 3)), [torch.Size((2, 3))], [(2, 3), torch.Size((2, 4))]),
    (Kind.EQUALS, Colour.RED, [Colour.RED], [Colour.BLUE, 1]),
    (Kind.EQUALS, Number.ONE, [Number.ONE], [1, True]),
    (Kind.EQUALS, range(3), [range(3)], [range(4), (0, 1, 2)]),
    (
        Kind.LENGTH,
        2,
        [
            [1, 2],
            (1, 2),
            {1: 1, 2: 2},
            {1, 2},
            frozenset({1, 2}),
            "ab",
            "€𝄞",
            b"ab",
            bytearray(2),
            deque([1, 2]),
            range(2),
            Liar(a=1, b=2),
            OrderedDict(a=1, b=2),
            Str("ab"),
            Pair(1, 2),
        ],
        [[], [1], "abc", 2, None, Raising(), Liar()],
    ),
    (
        Kind.KEYS,
        ("a", "b"),
        [{"a": 1, "b": 2}, Liar(a=1, b=2), {key(["a"]): 1, "b": 2}, OrderedDict(a=1, b=2)],
        [
            {"b": 1, "a": 2},
            {"a": 1},
            {"a": 1, "b": 2, "c": 3},
            {},
            ["a", "b"],
            None,
            moved(),
            {"a": 1, Str("b"): 2},
        ],
    ),
    (Kind.KEYS, ("b", "a"), [moved()], [OrderedDict(a=1, b=2)]),
    (Kind.KEYS, (), [{}, OrderedDict()], [{1: 1}, None, []]),
    (
        Kind.KEYS,
        (1, None, (2, "x")),
        [{1: 0, None: 0, (2, "x"): 0}],
        [{True: 0, None: 0, (2, "x"): 0}],
    ),
    (Kind.KEYS, (ODD, PAIR_WITH_ODD), [{ODD: 1, PAIR_WITH_ODD: 2}], [{ODD: 1, (1, ODD): 2}]),
    (Kind.KEYS, (THING, int), [{THING: 1, int: 2}], [{OTHER: 1, int: 2}]),
    (
        Kind.PRESENT,
        "a",
        [{"a": None}, Liar(a=1), {key(["a"]): 1}],
        [{}, Liar(), {"b": 1}, None, ["a"]],
    ),
    (Kind.ABSENT, "a", [{}, {"b": 1}, None, Liar()], [{"a": None}, ["b"], 3]),
    (
        Kind.ALL_ABSENT,
        ("a", (1, 2)),
        [{}, {"b": 1}, None, Liar()],
        [{"a": None}, {(1, 2): 0}, {"b": 1, "a": 2}, ["b"], 3],
    ),
    (Kind.PRESENT, (1, 2), [{(1, 2): 0}], [{}]),
    (
        Kind.EMPTY_ITEMS,
        ("a", "b"),
        [{"a": {}, "b": OrderedDict()}, {"b": [], "c": 1, "a": {}}, Liar(a=Liar(), b={})],
        [{"a": {}, "b": {1: 1}}, {"a": {1: 1}, "b": {}}, {"a": {}}, {"a": {}, "b": None}, {}, None],
    ),
    (Kind.PYTHON, ("x is even", lambda x: x % 2 == 0), [2, 4], [1, "s"]),
    (Kind.PYTHON, ("x as it is", lambda x: x), [1, [0]], [0, [], None, Raising()]),
]


def names(cases):
    return [f"{case[0].name}-{number}" for number, case in enumerate(cases)]


@pytest.mark.parametrize(("kind", "expected", "good", "bad"), CASES, ids=names(CASES))
def test_kind(kind, expected, good, bad, holds):
    guard = Guard(X, kind, expected)
    for subject in good:
        assert holds(guard, subject), repr(subject)
    for subject in bad:
        assert not holds(guard, subject), repr(subject)


OWN = [
    (Kind.LENGTH, 2, [Plain(a=1, b=2)], [Plain(a=1), 3, Plain]),
    (Kind.LENGTH, 0, [Plain(), lambda: 0], [Plain(a=1), 3]),
    (Kind.KEYS, ("a", "b"), [Plain(a=1, b=2)], [Plain(b=1, a=2), Plain(), 3, Plain]),
    (Kind.KEYS, (), [Plain()], [3, Plain(a=1)]),
    (Kind.ABSENT, "a", [Plain(), Plain(b=1), 3, "s"], [Plain(a=None), Plain]),
    (Kind.ALL_ABSENT, ("a", "b"), [Plain(), Plain(c=1), 3], [Plain(a=None), Plain(b=1), Plain]),
    (Kind.PRESENT, "a", [Plain(a=None)], [Plain(), 3, Plain]),
    (Kind.PRESENT, 3, [], [Plain(a=None)]),
    (Kind.EMPTY_ITEMS, ("a", "b"), [Plain(a={}, b={})], [Plain(a={}, b={1: 1}), Plain(a={}), 3]),
]


@pytest.mark.parametrize("materialised", [False, True])
@pytest.mark.parametrize(("kind", "expected", "good", "bad"), OWN, ids=names(OWN))
def test_kind_of_own_attributes(kind, expected, good, bad, materialised, holds):
    guard = Guard(s.InstanceDict(X), kind, expected)
    for subject in good + bad:
        if materialised and isinstance(subject, Plain):
            vars(subject)
        assert holds(guard, subject) is (subject in good), repr(subject)


def test_own_keys_follow_deletion_and_order(holds):
    subject = Plain(a=1, b=2, c=3)
    del subject.b
    subject.b = 4
    native_only = GuardProgram.build([Guard(s.InstanceDict(X), Kind.KEYS, ("a", "c", "b"))])
    assert native_only.native().check((subject,), test_kind)
    assert holds(Guard(s.InstanceDict(X), Kind.KEYS, ("a", "c", "b")), subject)


def test_same_and_distinct(holds):
    same = Guard(X, Kind.SAME, Y)
    assert holds(same, THING, THING)
    assert not holds(same, THING, OTHER)
    distinct = Guard(X, Kind.DISTINCT, (Y, Z))
    assert holds(distinct, 1, 2, 3)
    assert not holds(distinct, THING, 2, THING)
    assert not holds(distinct, THING, 2)  # no z


@pytest.mark.parametrize("count", [2, 7, 8, 9, 40, 129, 600])
def test_many_distinct(count, holds):
    slots = [s.SlotSource(i, f"x{i}") for i in range(count)]
    guard = Guard(slots[0], Kind.DISTINCT, tuple(slots[1:]))
    objects = [object() for _ in range(count)]
    assert holds(guard, *objects)
    for one in {0, 1, count // 2, count - 1}:
        for other in {0, count - 1} - {one}:
            assert not holds(guard, *objects[:one], objects[other], *objects[one + 1 :])


def size(of, dim):
    return s.TensorProperty(of, "size", dim)


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("s0 == s1", (3, 3), (3, 4)),
        ("s0 <= 4", (4, 0), (5, 0)),
        ("2 <= s0 and s0 % 8 == 0", (16, 0), (12, 0)),
        ("Mod(s0, 8) == 0", (16, 0), (12, 0)),
        ("Max(s0, s1) < Min(10, s0 + s1)", (3, 4), (0, 4)),
        ("FloorDiv(s0, 2) == s1", (5, 2), (5, 3)),
        ("math.floor(s0 / 2) == CeilToInt(IntTrueDiv(s1, 2))", (5, 3), (5, 5)),
        ("Eq(s0, s1) or Ne(s0, 4)", (4, 4), (4, 5)),
        ("s0 // s1 == 1", (3, 2), (3, 0)),
    ],
)
def test_shape(text, good, bad, holds):
    guard = Guard(X, Kind.SHAPE, ShapeExpr(text, (("s0", size(X, 0)), ("s1", size(Y, 0)))))
    assert holds(guard, torch.empty(good[0]), torch.empty(good[1]))
    assert not holds(guard, torch.empty(bad[0]), torch.empty(bad[1]))
    assert not holds(guard, torch.empty(good[0]), "no tensor")


def test_shape_of_ints_and_without_symbols(holds):
    assert holds(Guard(X, Kind.SHAPE, ShapeExpr("n > 2", (("n", X),))), 3)
    assert holds(Guard(X, Kind.SHAPE, ShapeExpr("1 < 2", ())), 3)
    assert not holds(Guard(X, Kind.SHAPE, ShapeExpr("n > 2", (("n", X),))), "s")


def test_a_failed_check_leaves_no_exception(holds):
    assert not holds(Guard(X, Kind.EQUALS, Raising()), Raising())


def test_every_kind_is_registered():
    assert set(KINDS) == set(Kind)
