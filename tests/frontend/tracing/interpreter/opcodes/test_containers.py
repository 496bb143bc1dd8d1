"""Class patterns: captured without arguments; positional, by keyword, of builtin classes, and what
does not match: left to Python."""

from __future__ import annotations

import dataclasses

import framejit
import pytest
import torch

from ....semantics.harness import check


@dataclasses.dataclass
class Point:
    a: torch.Tensor
    b: int


class Scaled:
    __match_args__ = ("x",)

    def __init__(self, x, by):
        self.x, self.by = x, by


class Marked:
    pass


class Empty:
    pass


T = torch.arange(2.0)
MARKED = Marked()
MARKED.mark = 1


def which(obj, t):
    match obj:
        case Point(a, b=3):
            return a + 3
        case Point(a, b):
            return a * b
        case Scaled(x, by=int(n)):
            return x - n
        case Scaled(x, by=str()):
            return x - 100
        case bool():
            return t - 1
        case int(i) if i > 3:
            return t * i
        case int() | float():
            return t * obj
        case str(text):
            return t + len(text)
        case Marked(mark=_):
            return t * 7
        case Marked():
            return t * 9
        case torch.Tensor(shape=(2,)):
            return obj * 5
        case [Point(b=b), *rest]:
            return t + b + len(rest)
        case {"p": Point(a=a)}:
            return a - 1
        case _:
            return t


OBJECTS = {
    "by keyword": Point(T, 3), "positional": Point(T, 4), "nested": Scaled(T, 2),
    "nested builtin": Scaled(T, "s"), "no nested match": Scaled(T, None), "guarded": 5, "int": 2,
    "float": 1.5, "str": "abc", "attribute is there": MARKED, "attribute is missing": Marked(),
    "tensor": T, "another tensor": torch.ones(3), "in a list": [Point(T, 1), 2],
    "in a dictionary": {"p": Point(T, 2)}, "none": None, "bool": True, "other": Empty(),
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_class_patterns(name):
    handle = framejit.compile(which, backend="eager")
    for _ in range(2):
        assert torch.equal(handle(OBJECTS[name], T), which(OBJECTS[name], T))


def kind(obj, t):
    y = t.sin()
    match obj:
        case Point():
            return y + 1
        case bool() | None:
            return y - 1
        case int() | float():
            return y * obj
        case torch.Tensor():
            return y + obj.sum()
        case dict() | tuple():
            return y * len(obj)
    return y


@pytest.mark.parametrize(
    "obj",
    [Point(T, 3), True, None, 2.5, T, {1: 2}, (), Empty()],
    ids=lambda obj: type(obj).__name__,
)
def test_a_class_alone_is_captured(obj):
    check(kind, obj, T)


def no_class(obj, t):
    try:
        match obj:
            case NO_CLASS():
                return t
    except TypeError as error:
        return t + 1, str(error)


NO_CLASS = (int, str)


def test_a_pattern_of_no_class():
    check(no_class, 1, T, breaks=("unsupported-bytecode",), graphs=None)


def too_many(obj, t):
    try:
        match obj:
            case Empty(_):
                return t
    except AttributeError:
        return t + 1


def twice(obj, t):
    match obj:
        case Point(a, a=b):
            return a + b


@pytest.mark.parametrize("f, obj", [(too_many, Empty()), (twice, Point(T, 1))], ids=["many", "two"])
def test_patterns_that_raise(f, obj):
    messages = []
    for run in (f, framejit.compile(f, backend="eager")):
        with pytest.raises(TypeError) as caught:
            run(obj, T)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
