"""Relations between numbers: the stack program in C says what Python's own arithmetic says, for
numbers of any size."""

from __future__ import annotations

import random

import pytest
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind, ShapeExpr
from framejit.guards.kinds.shape import compile_relation
from framejit.guards.native import _guards
from framejit.guards.program import GuardProgram
from framejit.guards.reference import check
from framejit.guards.relation import stack_program
from framejit.guards.source import FrameView

NAMES = ("a", "b", "c")
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    -7,
    12,
    2**31,
    2**62,
    2**63 - 1,
    -(2**63),
    2**63,
    10**25,
    True,
    False,
    0.5,
    -2.0,
    float("nan"),
    float("inf"),
)
EXPRESSIVE = (
    "a + b == c", "a - b * 2 < c", "a // b == c", "a % b == 0", "Mod(a, b) != 1", "0 <= a <= b < c", "not a == b", "a == b or 10 % a == 0",
    "a != 0 and 10 % a == 1", "Min(a, b) <= Max(b, c)", "Ne(CeilDiv(a, b), 2)", "ModularIndexing(a, 2, 3) == 1", "-a > Abs(b)",
    "Eq(FloorDiv(a, 4) * 4, a)", "Not(a < b)", "(a < b) + 1 == 2", "a*9223372036854775807 > b", "a", "True",
)  # fmt: skip
PYTHON_ONLY = (
    "IntTrueDiv(a, b) > 1.5", "a ** 2 == b", "And(a < b, b < c)", "a and b", "math.floor(a) == 1", "Where(a < b, 1, 2) == 1", "a == 0.5",
    "Eq(a, 1 << 70)", "Min(a, b, c) == 1", "(a + " * 40 + "b" + ")" * 40 + " == c",
)  # fmt: skip


def guard_of(text):
    symbols = tuple((name, s.SlotSource(index, name)) for index, name in enumerate(NAMES))
    return Guard(symbols[0][1], Kind.SHAPE, ShapeExpr(text, symbols))


def python_says(text, numbers):
    try:
        return bool(compile_relation(text, NAMES)(*numbers))
    except Exception:
        return False


def agrees(text, numbers):
    guard = guard_of(text)
    program = GuardProgram.build([guard])
    expected = python_says(text, numbers)
    assert check(guard, FrameView(numbers, agrees)) == expected, (text, numbers)
    assert program.native().check(numbers, agrees) == expected, (text, numbers)
    return program


@pytest.mark.parametrize("text", EXPRESSIVE)
def test_runs_in_c(text):
    assert [
        step.op for step in agrees(text, (1, 2, 3)).steps if step.op in ("SHAPE", "RELATION")
    ] == ["RELATION"]
    choose = random.Random(text)
    for _ in range(300):
        agrees(text, tuple(choose.choice(NUMBERS) for _ in NAMES))


@pytest.mark.parametrize("text", PYTHON_ONLY)
def test_the_rest_stays_pythons(text):
    assert stack_program(text, NAMES) is None
    agrees(text, (3, 2, 1))
    agrees(text, (1, 2, 2))


def test_what_is_no_relation():
    assert stack_program("d == 1", NAMES) is None
    assert stack_program("a ==", NAMES) is None


class Odd(int):
    def __lt__(self, other):
        raise RuntimeError("a guard must not run this")


@pytest.mark.parametrize("number", [Odd(1), "1", None, 1j])
def test_no_other_numbers(number):
    guard = guard_of("a < 2")
    assert not check(guard, FrameView((number, 0, 0), agrees))
    assert not GuardProgram.build([guard]).native().check((number, 0, 0), agrees)


def expression(choose, depth):
    if depth == 0:
        return choose.choice((*NAMES, str(choose.randint(-9, 9)), str(2**62)))
    left, right = (expression(choose, depth - 1) for _ in range(2))
    return choose.choice((
        f"({left} + {right})", f"({left} - {right})", f"({left} * {right})", f"({left} // {right})", f"({left} % {right})",
        f"Min({left}, {right})", f"Max({left}, {right})", f"CeilDiv({left}, {right})", f"(-{left})", f"Abs({left})",
    ))  # fmt: skip


def relation(choose, depth):
    if depth == 0:
        return f"({expression(choose, 2)} {choose.choice(('==', '!=', '<', '<=', '>', '>='))} {expression(choose, 1)})"
    left, right = (relation(choose, depth - 1) for _ in range(2))
    return choose.choice(
        (f"({left} and {right})", f"({left} or {right})", f"(not {left})", f"({left} == {right})")
    )


@pytest.mark.parametrize("seed", range(4))
def test_random_relations(seed):
    choose = random.Random(seed)
    for _ in range(100):
        text = relation(choose, choose.randint(0, 3))
        assert stack_program(text, NAMES) is not None
        for _ in range(5):
            agrees(text, tuple(choose.choice(NUMBERS) for _ in NAMES))


@pytest.mark.parametrize("code", [
    ((0, 3),), ((2, 0),), (), ((0, 0), (0, 0)), ((99, 0),), ((0, 0), (18, 5)), tuple((1, 1) for _ in range(40)), ((0,),), 5,
])  # fmt: skip
def test_unsound_code_is_refused(code):
    with pytest.raises((ValueError, TypeError)):
        _guards.Program(
            (("SLOT", 0, (), False, None, 0), ("RELATION", 0, (0,), False, code, 0)), (), 1
        )
