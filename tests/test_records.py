"""Records have the methods of frozen dataclasses."""

from __future__ import annotations

import copy
import pickle
from dataclasses import KW_ONLY, dataclass, field, fields, replace

import pytest
from framejit.records import record


@record
class Point:
    """Two fields, one of which does not count."""

    x: int
    note: str = field(default="", compare=False, repr=False)
    more: list = field(default_factory=list)


@record
class Named(Point):
    _: KW_ONLY
    name: str


@record
class One:
    only: float


@record
class Empty:
    """No fields."""


@record
class Own:
    x: int

    def __eq__(self, other):
        return True

    def __repr__(self):
        return "mine"


@dataclass(frozen=True)
class Frozen:
    x: int
    y: str = ""


@record
class Pair:
    x: int
    y: str = ""


NAN = float("nan")
SAME = [
    (Point(1, "a"), Point(1, "b")), (Named(1, name="n"), Named(1, name="n")), (One(NAN), One(NAN)),
    (Empty(), Empty()), (Own(1), Own(2)), (Pair(1, "b"), Pair(1, "b")),
]  # fmt: skip
DIFFERENT = [
    (Point(1), Point(2)), (Point(1, more=[1]), Point(1)), (Named(1, name="n"), Named(1, name="m")),
    (Point(1), Named(1, name="n")), (One(1.0), (1.0, 1.0)), (Empty(), One(1.0)), (Pair(1), Frozen(1)),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_records(one, other):
    assert one == other and not one != other


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_records(one, other):
    assert one != other and not one == other


def test_hashes():
    assert hash(Pair(1, "b")) == hash(Pair(1, "b")) and hash(Empty()) == hash(Empty())
    assert len({Pair(1), Pair(1), Pair(2), One(2.0), One(2.0), Empty(), Empty()}) == 4
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1))


@pytest.mark.parametrize("values", [(1,), (2, "b")])
def test_the_text_is_a_dataclass_s(values):
    assert repr(Pair(*values)) == repr(Frozen(*values)).replace("Frozen", "Pair")


def test_own_methods_stay():
    assert repr(Own(3)) == "mine" and Own(3) == Own(4) and hash(Own(3)) == hash(Own(3))


def test_a_record_in_itself_has_a_text():
    point = Point(1)
    point.more.append(point)
    assert repr(point) == "Point(x=1, more=[...])"


def test_dataclasses_functions_take_records():
    named = Named(1, "a", name="n")
    assert [one.name for one in fields(named)] == ["x", "note", "more", "name"]
    assert replace(named, x=2) == Named(2, name="n")
    match Pair(4, "y"):
        case Pair(x, y):
            assert (x, y) == (4, "y")


@pytest.mark.parametrize(
    "make_copy", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_are_equal(make_copy):
    assert make_copy(Named(1, more=[2], name="n")) == Named(1, more=[2], name="n")


@record
class Nested:
    inner: object


class CountsComparisons:
    count = 0

    def __eq__(self, other):
        CountsComparisons.count += 1
        return True


def test_each_field_is_compared_once():
    one, other = CountsComparisons(), CountsComparisons()
    for _ in range(20):
        one, other = Nested(one), Nested(other)
    assert one == other and CountsComparisons.count == 1
