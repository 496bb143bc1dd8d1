"""copy.copy and copy.deepcopy of objects by what their classes say; named tuples and classes below
them; metaclasses that call."""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import NamedTuple

import framejit
import pytest
import torch

from ...semantics.harness import check, vec


class Slots:
    __slots__ = ("a", "b", "unset")

    def __init__(self, a, b):
        self.a, self.b = a, b


class SlotsAndMore(Slots):
    def __init__(self, a, b):
        super().__init__(a, b)
        self.more = [a]


@dataclasses.dataclass(slots=True)
class Record:
    a: object
    b: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: object
    b: int = 2


class WithState:
    def __init__(self, a):
        self.a = a

    def __getstate__(self):
        return {"a": self.a, "kept": 1}

    def __setstate__(self, state):
        self.__dict__.update(state, set=True)


class Reducing:
    def __init__(self, a):
        self.a = a

    def __reduce__(self):
        return Reducing, (self.a,), {"state": [1]}


class Items(list):
    def append(self, item):
        super().append(("appended", item))


class Table(dict):
    pass


class Colour(enum.Enum):
    RED = 1


class Shared:
    def __init__(self, part):
        self.left = self.right = part

    def __deepcopy__(self, memo):
        made = Shared.__new__(Shared)
        made.left, made.right = copy.deepcopy(self.left, memo), copy.deepcopy(self.right, memo)
        return made


def both(x, obj):
    shallow, deep = copy.copy(obj), copy.deepcopy(obj)
    return x + 1, shallow, deep, shallow is obj, deep is obj


def with_attribute(obj, **attributes):
    vars(obj).update(attributes)
    return obj


GIVEN = [Slots([1], {"a": 2}), SlotsAndMore([1], 2), Record([1]), Frozen([1]), WithState([1]), Reducing([1]), with_attribute(Table(a=[1]), name=[2]),
         with_attribute(Items([1, [2]]), name=[2]), deque([1, [2]]), deque([[1], [2]], maxlen=2), Shared([1])]  # fmt: skip


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
def test_existing(given):
    check(both, vec(2), given, graphs=None, breaks=None)


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
def test_after_a_change(given):
    def f(x, holder):
        part = copy.deepcopy(holder)
        part[0].append(x * 2)
        holder[0].append(x)
        return part, copy.copy(holder[1]), copy.deepcopy(holder)

    check(f, vec(2), [[], given], graphs=None, breaks=None)


def test_made_inside():
    def f(x, n):
        made = Slots([n], Record(x, [n]))
        shallow, deep = copy.copy(made), copy.deepcopy((made, made, deque([[n]], maxlen=2)))
        made.a.append(1)
        deep[0].a.append(2)
        deep[2].append(n)
        deep[2].append(n)
        return made, shallow, deep, deep[0] is deep[1]

    check(f, vec(2), 3, graphs=None, breaks=None)


def test_parts_stay_shared():
    def f(x, n):
        part = [n]
        made = copy.deepcopy(Shared(part))
        made.left.append(x)
        return x + 1, made, made.left is made.right, part

    check(f, vec(2), 3, graphs=None, breaks=None)


class Config:
    """Reads and writes attributes by another name, as the configurations of transformers do."""

    other_names = {"layers": "depth"}

    def __init__(self):
        self.depth, self.sizes, self.options = 2, [1, [2]], {"a": [1], "b": (1, [2])}
        self.itself = self
        self.dtype = torch.float32

    def __getattribute__(self, name):
        if name in object.__getattribute__(self, "__class__").other_names:
            name = super().__getattribute__("other_names")[name]
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        super().__setattr__(self.other_names.get(name, name), value)


class Counting:
    """Counts the questions for attributes that it does not have."""

    asked = 0

    def __getattr__(self, name):
        Counting.asked += 1
        raise AttributeError(name)


class Delegating:
    def __init__(self, part):
        self.part = part

    def __getattr__(self, name):
        return getattr(vars(self).get("part"), name)


def list_in_itself():
    made = [1]
    made.append(made)
    return made


def tuple_in_its_list():
    made = ([],)
    made[0].append(made)
    return made


DEEP = {
    "configuration": (Config, ()),
    "default dictionary": (lambda: defaultdict(list, {1: [2]}), ()),
    "ordered dictionary": (lambda: OrderedDict(a=[1], b=2), ()),
    "counter": (lambda: Counter("aab"), ()),
    "named tuple": (lambda: Typed([1], 2), ()),
    "tuple of literals": (lambda: (1, ("a", None)), ()),
    "list in itself": (list_in_itself, ("unknown-call",)),
    "tuple in its list": (tuple_in_its_list, ("unknown-call",)),
    "functions and classes": (lambda: [len, vec, Config, torch.sin, Colour.RED], ()),
    "dictionary below dict": (lambda: Table(a=[1]), ()),
    "list with its own append": (lambda: Items([[2]]), ()),
    "set": (lambda: [{1, 2}], ()),
    "keys that are copied": (lambda: {(1, Colour): [2], Typed([1].index): 1}, ("unknown-call",)),
    "tensor": (lambda: [vec(2)], ("unknown-call",)),
    "own way": (lambda: [Shared([1])], None),
    "counts questions": (lambda: [Counting()], None),
    "delegates": (lambda: [Delegating([1])], None),
    "module": (lambda: [torch.nn.Identity()], ("unknown-call",)),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_copies(name):
    make, breaks = DEEP[name]

    def f(x, given):
        pair = [given, given]
        made = copy.deepcopy(pair)
        asked, Counting.asked = Counting.asked, 0
        return x * 2, made, pair, made[0] is made[1], made[0] is given, asked

    check(f, vec(2), make(), graphs=None, breaks=breaks)


def test_a_deep_copy_is_changed():
    def f(x, config):
        made = copy.deepcopy(config)
        made.layers = 3
        made.sizes[1].append(x)
        made.options["c"] = made.options["b"][1]
        del made.dtype
        return x * made.layers, made, config.layers, vars(made), made.itself is made

    check(f, vec(2), Config())


def test_a_memo_of_the_programs_own():
    def f(x, items):
        memo = {}
        return x + 1, copy.deepcopy(items, memo), len(memo) > 0

    check(f, vec(2), [[1]], graphs=None, breaks=("unknown-call",))


class Pair(namedtuple("Pair", "x y")):
    @property
    def both(self):
        return self.x + self.y

    def doubled(self):
        return self._replace(x=self.x * 2)


class Typed(NamedTuple):
    a: object
    b: int = 3

    def times(self):
        return self.a * self.b


class Doubling(namedtuple("Doubling", "x y")):
    __slots__ = ()

    def __new__(cls, x, y=2):
        return super().__new__(cls, x * 2, y)


def test_named_tuples_with_attributes():
    def f(x, given):
        made = Pair(x, 2)
        made.extra = x * 3
        given.extra = 1
        return (
            made,
            made.both,
            made.doubled(),
            made.extra,
            made._asdict(),
            vars(made),
            [*given],
            given.both,
            given.x,
            given._fields,
            made[1],
        )

    check(f, vec(2), Pair(1, 2))


def test_named_tuples_that_make_themselves():
    def f(x, n):
        made = Doubling(x, n)
        return (
            made,
            made.x,
            Doubling(n),
            copy.copy(made),
            copy.deepcopy(made),
            made._replace(y=5),
            Doubling._make([1, 2]),
            Typed(x).times(),
        )

    check(f, vec(2), 3, graphs=None, breaks=None)


class Marking(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.mark = cls.__name__
        return made


class SegmentMarks(metaclass=Marking):
    def __init__(self, value, scale=1):
        self.value = value * scale


class Single(type):
    made: dict = {}

    def __call__(cls, *args):
        if cls not in cls.made:
            cls.made[cls] = super().__call__(*args)
        return cls.made[cls]


class Only(metaclass=Single):
    def __init__(self, value):
        self.value = value


def test_metaclasses_that_call():
    def f(x, n):
        made = SegmentMarks(x, scale=n)
        return made, made.value + 1, made.mark

    check(f, vec(2), 3)


def test_a_single_instance():
    def f(x, made):
        Single.made = made
        one, other = Only(2), Only(3)
        return x * one.value, one is other, made

    check(f, vec(2), {}, graphs=None, breaks=None)


def test_a_break_in_a_metaclass_call():
    def f(x, n):
        made = Printing(x * 2, n)
        return made.value + 1

    check(f, vec(2), 3, graphs=2, breaks=("output",))


class Telling(type):
    def __call__(cls, value, n):
        made = super().__call__(value * 3)
        print("made", n)
        return made


class Printing(metaclass=Telling):
    def __init__(self, value):
        self.value = value + 1


@pytest.mark.parametrize("given", [{"b", "a", "c"}, set(), {8, 0, 16, 1, 24}])
def test_deep_copies_of_sets(given):
    def f(x, holder):
        copied = copy.deepcopy(holder)
        copied["set"].add("later")
        return x + len(copied["set"]), copied, list(copied["same"])

    expected = f(vec(2), {"set": given, "same": given})
    compiled = framejit.compile(f, backend="eager")
    got = compiled(vec(2), {"set": given, "same": given})
    assert str(got[1:]) == str(expected[1:])
    assert got[1]["set"] is got[1]["same"] is not given and "later" not in given
    assert torch.equal(got[0], expected[0]) and not compiled.framejit.explain().breaks
