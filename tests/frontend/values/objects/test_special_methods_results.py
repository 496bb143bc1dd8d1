"""What special methods give: Python converts some of it, warns of some and refuses the rest."""

from __future__ import annotations

import abc
import enum
import warnings

import pytest
import torch

from ...semantics.harness import check, strict_compile, vec


class Text(str):
    pass


class Number(int):
    pass


def with_method(name, answer):
    return type("Odd", (), {name: lambda self, *args: answer})()


def in_if(x, odd):
    return (1 if odd else 2), x + 1


USES = {
    "bool": lambda x, odd: (bool(odd), x + 1),
    "if": in_if,
    "any": lambda x, odd: (any([odd]), x + 1),
    "len": lambda x, odd: (len(odd), x + 1),
    "hash": lambda x, odd: (hash(odd), x + 1),
    "str": lambda x, odd: (str(odd), x + 1),
    "repr": lambda x, odd: (repr(odd), x + 1),
    "f-string": lambda x, odd: (f"{odd}", x + 1),
    "f-string with !r": lambda x, odd: (f"{odd!r}", x + 1),
    "comprehension": lambda x, odd: ([item for item in odd], x + 1),
    "list": lambda x, odd: (list(odd), x + 1),
    "item": lambda x, odd: ([1, 2, 3][odd], x + 1),
    "int": lambda x, odd: (int(odd), x + 1),
    "float": lambda x, odd: (float(odd), x + 1),
    "complex": lambda x, odd: (complex(odd), x + 1),
}
ANSWERS = [
    ("__bool__", 1, "bool if any"), ("__bool__", None, "bool if any"), ("__bool__", True, "bool if any"),
    ("__len__", True, "bool if len"), ("__len__", -1, "bool if any len"), ("__len__", "a", "if len"), ("__len__", 1.0, "if len"),
    ("__len__", Number(3), "if len"), ("__len__", 0, "if len"),
    ("__hash__", -1, "hash"), ("__hash__", "a", "hash"), ("__hash__", True, "hash"), ("__hash__", 2**70, "hash"),
    ("__hash__", 2**63 - 1, "hash"), ("__hash__", -(2**63), "hash"),
    ("__str__", 1, "str f-string"), ("__str__", Text("q"), "str f-string"), ("__repr__", 2, "str repr"), ("__format__", 3, "f-string"),
    ("__format__", Text("q"), "f-string"), ("__iter__", 3, "comprehension list"), ("__iter__", [1], "comprehension"),
    ("__index__", True, "item int float"), ("__index__", 1.0, "item int"), ("__index__", 2, "item int float"),
    ("__int__", True, "int"), ("__int__", "s", "int"), ("__int__", Number(3), "int"), ("__int__", 4, "int float"),
    ("__float__", 2, "float complex"), ("__complex__", 1.0, "complex"), ("__trunc__", 3, "int"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "answer", "use"),
    [(name, answer, use) for name, answer, uses in ANSWERS for use in uses.split()],
)
def test_odd_answers(name, answer, use):
    odd, told = with_method(name, answer), []
    for function in (USES[use], strict_compile(USES[use])):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                shown = repr(function(vec(2), odd))
            except (TypeError, ValueError, IndexError) as error:
                shown = repr(error)
        told.append((shown, [(str(warning.message), warning.category) for warning in caught]))
    assert told[0] == told[1]


class Base(metaclass=abc.ABCMeta):
    def __init__(self, log):
        self.log = log

    def __eq__(self, other):
        self.log.append("Base ==")
        return NotImplemented

    def __le__(self, other):
        self.log.append("Base <=")
        return NotImplemented

    def __add__(self, other):
        self.log.append("Base +")
        return NotImplemented

    def __new__(cls, log):
        return Registered(log) if cls is Made else object.__new__(cls)


class Derived(Base):
    def __eq__(self, other):
        self.log.append("Derived ==")
        return NotImplemented

    def __radd__(self, other):
        self.log.append("Derived +")
        return "derived"


class Made(Base):
    def __init__(self, log):
        self.log = log
        log.append("Made")


@Base.register
@Made.register
class Registered:
    def __init__(self, log):
        self.log = log

    def __eq__(self, other):
        self.log.append("Registered ==")
        return NotImplemented

    def __ge__(self, other):
        self.log.append("Registered >=")
        return True

    def __radd__(self, other):
        self.log.append("Registered +")
        return "registered"


@pytest.mark.parametrize("other", [Derived, Registered])
def test_registered_subclasses_are_not_asked_first(other):
    def f(x, log):
        first, second = Base(log), other(log)
        answers = [first == second]
        for ask in (lambda: first <= second, lambda: first + second):
            try:
                answers.append(ask())
            except TypeError as error:
                answers.append(str(error))
        return x + 1, answers, log

    check(f, vec(2), [])


def test_a_registered_subclass_made_by_new_is_not_initialised():
    def f(x, log):
        return x + 1, type(Made(log)).__name__, log

    check(f, vec(2), [])


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def twice(self):
        return self._value_ * 2

    @enum.property
    def shade(self):
        return self.depth


def by_item(x, colour):
    return x * Colour[colour.name].value


def by_dictionary(x, colour):
    return x * colour.__dict__["_value_"] if "extra" not in vars(Colour.BLUE) else x


@pytest.mark.parametrize(
    "use",
    [
        lambda x, colour: x * colour.value,
        lambda x, colour: x * Colour.BLUE.value,
        lambda x, colour: x * colour._value_,
        lambda x, colour: x * colour.twice,
        lambda x, colour: x * colour.shade,
        lambda x, colour: x * getattr(colour, "extra", 3),
        lambda x, colour: x * len(colour.kept),
        lambda x, colour: x if colour.__dict__ == {"_value_": 2} else x * colour.value,
        by_item,
        by_dictionary,
    ],
)
def test_attributes_of_an_enumerations_member_may_change(use):
    member = Colour.BLUE
    before = dict(vars(member))
    compiled = strict_compile(use)
    try:
        member.depth, member.kept = 2, [1]
        for name, value in (
            ("_value_", 2),
            ("_value_", 9),
            ("extra", 5),
            ("depth", 7),
            ("kept", [1, 2]),
        ):
            setattr(member, name, value)
            assert torch.equal(compiled(vec(2), member), use(vec(2), member)), name
        member.kept.append(3)
        assert torch.equal(compiled(vec(2), member), use(vec(2), member))
    finally:
        vars(member).clear()
        vars(member).update(before)


def test_what_a_member_holds_is_changed():
    class Kept(enum.Enum):
        ONE = "one"

        def __init__(self, text):
            self.seen = []

    def f(x):
        Kept.ONE.seen.append(len(Kept.ONE.seen))
        return x + len(Kept.ONE.seen), vars(Kept.ONE)["seen"]

    compiled = strict_compile(f)
    for length in (1, 2, 3):
        value, seen = compiled(vec(2))
        assert torch.equal(value, vec(2) + length)
        assert seen is Kept.ONE.seen
        assert seen == list(range(length))


@pytest.mark.parametrize("use", [abs, len, iter, reversed, str, int, hash])
def test_special_methods_are_those_of_the_class(use):
    class Bare:
        def __repr__(self):
            return "bare"

        def __hash__(self):
            return 3

    def f(x, bare):
        for name in ("abs", "len", "iter", "reversed", "str", "int", "hash"):
            setattr(bare, f"__{name}__", lambda: 7)
        try:
            answer = use(bare)
        except TypeError as error:
            answer = str(error)
        return x + 1, answer

    check(f, vec(2), Bare(), graphs=None, breaks=None)


class Answering:
    """It sees how often torch asks what it is."""

    def __init__(self, log):
        self.log = log

    def __getattr__(self, name):
        self.log.append(name)
        raise AttributeError(name)

    def __radd__(self, other):
        return other * 2

    def __gt__(self, other):
        return other * 3


def right_of_a_tensor(x, log):
    thing = Answering(log)
    return x + thing, x < thing


def test_an_operand_that_torch_asks_in_python_breaks():
    check(
        right_of_a_tensor,
        vec(2),
        [],
        graphs=None,
        breaks=("unsupported-value", "exception-leaves", "unsupported-value"),
    )
