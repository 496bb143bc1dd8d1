"""A break inside a function that an instruction other than a call runs, such as an operator: the
rest of the instruction runs after the function has returned."""

from __future__ import annotations

import framejit
import pytest

from .harness import check, vec


@framejit.disable
def outside(log, what):
    log.append(what)
    return what


class Odd:
    """Everything breaks in the middle."""

    def __init__(self, x, log):
        self.x = x + 1
        self.log = log
        outside(log, "init")
        self.y = x * 2

    @property
    def value(self):
        a = self.x + 1
        outside(self.log, "get")
        return a * 2

    @value.setter
    def value(self, new):
        a = new + 1
        outside(self.log, "set")
        self.x = a * 2

    def __add__(self, other):
        a = self.x + 1
        return NotImplemented if outside(self.log, "add") == other else a * 2

    def __eq__(self, other):
        a = self.x + 1
        return NotImplemented if outside(self.log, "eq") == other else a * 2

    def __lt__(self, other):
        outside(self.log, "lt")
        return NotImplemented

    def __getitem__(self, key):
        a = self.x + key
        outside(self.log, "item")
        return a * 2

    def __setitem__(self, key, value):
        a = value + key
        outside(self.log, "setitem")
        self.x = a * 2

    def __contains__(self, item):
        self.x = self.x + 1
        outside(self.log, "contains")
        self.x = self.x * 2
        return [item] if item else None

    def __neg__(self):
        a = self.x + 1
        outside(self.log, "neg")
        return a * 2

    def __enter__(self):
        a = self.x + 1
        outside(self.log, "enter")
        return a * 2

    def __exit__(self, *error):
        self.x = self.x + 1
        outside(self.log, "exit")
        self.x = self.x * 2

    __hash__ = None


class Right:
    def __radd__(self, other):
        return "reflected"

    def __gt__(self, other):
        return "greater"


def made(x, log):
    t = Odd(x * 3, log)
    return t.x + t.y


def read(x, t):
    return t.value + 1, x * 3


def written(x, t):
    t.value = x + 1
    return t.x - 1


def added(x, t):
    return (t + 1) - x


def added_to_another(x, t):
    return t + Right(), x + 1


def compared(x, t):
    return (t == 1) - x


def less(x, t):
    return t < Right(), x + 1


def subscripted(x, t):
    return t[x + 1] - 1


def item_stored(x, t):
    t[2] = x + 1
    return t.x - 1


def contained(x, t):
    return (3 in t, 0 not in t), t.x - x


def negated(x, t):
    return -t - x


def entered(x, t):
    with t as y:
        z = y - x
    return z + t.x


@pytest.mark.parametrize(
    "f, graphs, ran",
    [(read, 2, 4), (written, 2, 4), (subscripted, 2, 4), (item_stored, 2, 4), (negated, 2, 3), (entered, 3, 6)],
)  # fmt: skip
def test_a_break_inside_keeps_all_operations(f, graphs, ran):
    check(f, vec(2), unbroken(), graphs=graphs, breaks=2 if graphs == 3 else 1, ran=ran)


@pytest.mark.parametrize("f", [added, compared, contained])
def test_a_break_inside_an_operator_is_made_before_it(f):
    check(f, vec(2), unbroken(), graphs=None, breaks=None)


def unbroken():
    made = object.__new__(Odd)
    made.x, made.y, made.log = vec(2), vec(2), []
    return made


def test_a_break_in_a_constructor():
    check(made, vec(2), [], graphs=2, breaks=("disabled-call",), ran=4)


def test_an_operator_that_is_not_implemented_after_the_break():
    def f(x, t):
        return t + "add", x + 1

    check(f, vec(2), unbroken(), graphs=None, breaks=None, skipped=True)
    check(added_to_another, vec(2), unbroken(), graphs=None, breaks=None)


def test_a_comparison_that_is_not_implemented_after_the_break():
    def f(x, t):
        return t == "eq", x + 1

    check(f, vec(2), unbroken(), graphs=None, breaks=None, skipped=True)
    check(less, vec(2), unbroken(), graphs=None, breaks=None, skipped=True)


def test_an_exception_after_the_break():
    class Fails:
        def __init__(self, log):
            outside(log, "init")
            raise ValueError(3)

        @property
        def value(self):
            outside([], "get")
            raise KeyError("gone")

    def f(x, log):
        y = x + 1
        try:
            Fails(log)
        except ValueError as error:
            y = y * error.args[0]
        try:
            object.__new__(Fails).value  # noqa: B018
        except KeyError:
            y = y - 1
        return y

    check(f, vec(2), [], graphs=None, breaks=None)


def test_an_init_that_returns_something():
    class Bad:
        def __init__(self, log):
            outside(log, "init")
            return 3

    def f(x, log):
        y = x + 1
        return Bad(log), y

    check(f, vec(2), [], graphs=None, breaks=None, skipped=True)


def test_property_three_deep():
    class Outer:
        def __init__(self, inner):
            self.inner = inner

        @property
        def value(self):
            return self.inner.value + 1

        def go(self, x):
            return self.value * x

    def f(x, t):
        return t.go(x) - 1

    check(f, vec(2), Outer(unbroken()), graphs=2, breaks=1, ran=5)
