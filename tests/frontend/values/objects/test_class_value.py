"""Classes whose metaclass has special methods, and the names that dir() lists."""

import framejit
import pytest
import torch


class Listed(type):
    """A class as the container of its attributes (torchsde's settings are such)."""

    def all(cls):
        return sorted(getattr(cls, name) for name in dir(cls) if not name.startswith("__"))

    def __contains__(cls, item):
        return item in cls.all()

    def __iter__(cls):
        return iter(cls.all())

    def __len__(cls):
        return len(cls.all())

    def __getitem__(cls, index):
        return cls.all()[index]


class Falsy(type):
    def __bool__(cls):
        return False


class Never(metaclass=Falsy):
    pass


def test_special_methods_of_a_metaclass():
    class Methods(metaclass=Listed):
        euler = "euler"
        heun = "heun"

    class Nothing(metaclass=Listed):
        pass

    class Empty(Nothing):
        pass

    def function(x, name):
        y = x + 1 if name in Methods else x - 1
        truths = bool(Methods), bool(Empty), 1 if Never else 2
        return y, truths, list(Methods), len(Methods), Methods[-1], len(Empty), name not in Empty

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for name in ("euler", "srk", "milstein"):
        assert str(compiled(x, name)) == str(function(x, name))
    for cls in (Methods, Empty, Nothing):  # the last one changes what Empty inherits
        cls.srk = "srk"
        assert str(compiled(x, "srk")) == str(function(x, "srk"))
        del cls.srk
        assert str(compiled(x, "srk")) == str(function(x, "srk"))


class Slotted:
    __slots__ = ("filled", "left_empty")


def test_dir_of_objects_and_classes():
    class Point:
        dims = 2

    class Shifted(Point):
        pass

    point, slotted = Shifted(), Slotted()
    slotted.filled = 1

    def function(x):
        point.y = 1
        return x + 1, dir(point), dir(Point), dir(slotted)

    compiled = framejit.compile(function, backend="eager", fullgraph=True)
    for name in ("x", "z"):
        assert str(compiled(torch.ones(2))) == str(function(torch.ones(2)))
        setattr(point, name, 1)
        assert str(compiled(torch.ones(2))) == str(function(torch.ones(2)))
        setattr(Point, name, 2)
    assert str(compiled(torch.ones(2))) == str(function(torch.ones(2)))


class Lists:
    def __dir__(self):
        return ["of", "its", "own"]


@pytest.mark.parametrize("case", ["own", "stored", "frame"])
def test_dir_is_left_to_python(case):
    class Counted:
        total = 0

    def function(x):
        if case == "own":
            return x + 1, dir(Lists())
        if case == "frame":
            local = x + 1
            return local, dir()
        Counted.total = 1
        return x + 1, dir(Counted)

    compiled = framejit.compile(function, backend="eager")
    assert str(compiled(torch.ones(2))) == str(function(torch.ones(2)))
    assert len(compiled.framejit.explain().breaks) == 1
