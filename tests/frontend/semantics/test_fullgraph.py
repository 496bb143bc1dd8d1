"""fullgraph=True: an error of the program reaches its caller as in eager; every other break is a
GraphBreakError.

PYTEST_DONT_REWRITE: `assert` in a compiled function must be Python's own.
"""

from __future__ import annotations

import framejit
import pytest
import torch

from .harness import check, strict_compile, vec


class Custom(Exception):
    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


class Slotted:
    __slots__ = ()


def raised(x, _):
    raise Custom(f"{x.dim()} dimensions", 3)


def asserted(x, sizes):
    y = x + 1
    assert sizes["a"] == 2, f"got {sizes['a']}"
    return y


def missing_key(x, sizes):
    return x + sizes["nope"]


def missing_index(x, sizes):
    return x + list(sizes)[10]


def missing_attribute(x, sizes):
    return x + sizes.size


def divided_by_zero(x, sizes):
    return (x + 1) * (1 // (sizes["a"] - 1))


def callee(x):
    y = x * 2
    raise KeyError("k", y.dim())


def in_a_callee(x, _):
    return callee(x + 1) + 1


def from_another(x, _):
    try:
        x = x + 1
        raise ValueError("a")
    except ValueError as error:
        raise RuntimeError("b") from error


def through_finally(x, sizes):
    try:
        return callee(x)
    finally:
        sizes["seen"] = x + 1


def through_with(x, _):
    with torch.no_grad():
        y = x + 1
        raise ValueError(f"{y.requires_grad}")


def through_a_generator(x, _):
    def parts():
        yield x
        raise ValueError("in a generator")

    return [part + 1 for part in parts()]


def unbound(x, sizes):
    if not sizes:
        z = 1
    return x + z


def unknown_name(x, _):
    return x + not_there  # noqa: F821


def wrong_arguments(x, _):
    return callee(x, 2)


def none_called(x, sizes):
    return sizes.get("b")(x)


def wrong_types(x, sizes):
    return x + len("a" + sizes["a"])


def exhausted(x, _):
    return x + next(iter([]))


def unpacked(x, _):
    a, b = [1, 2, 3]
    return x + a + b


def group(x, _):
    raise ExceptionGroup("g", [ValueError(x.dim()), KeyError(2)])


def effects_first(x, sizes):
    sizes["seen"] = x.dim()
    x.add_(1)
    raise ValueError("after")


def wrong_shapes(x, _):
    return (x + 1) @ torch.ones(7)


def wrong_view(x, sizes):
    sizes["a"] = 4
    return x.view(9, 9)


def wrong_operands(x, _):
    return torch.sin(x, 1, 2)


@pytest.mark.parametrize("function", [
    raised, asserted, missing_key, missing_index, missing_attribute, divided_by_zero, in_a_callee, from_another, through_finally,
    through_with, through_a_generator, unbound, unknown_name, wrong_arguments, none_called, wrong_types, exhausted, unpacked,
    effects_first, wrong_shapes, wrong_view, wrong_operands,
])  # fmt: skip
def test_errors_are_the_programs_own(function):
    check(function, vec(2), {"a": 1}, graphs=None, breaks=None, fullgraph=True)


def test_other_arguments_do_not_raise():
    def f(x, scale):
        y = x.sin()
        if scale == 0:
            raise ValueError("scale is 0")
        return y / scale

    compiled = strict_compile(f, fullgraph=True)
    for _ in range(2):
        with pytest.raises(ValueError, match="scale is 0"):
            compiled(vec(2), 0)
        assert torch.equal(compiled(vec(2), 2), f(vec(2), 2))
    assert compiled.framejit.compiles == 2


def swallowed_by_python(x):
    try:
        return x @ torch.ones(7)
    except RuntimeError:
        return x + 1


def refused_by_an_object(x):
    try:
        Slotted().text = x
    except AttributeError:
        return x + 1


def printed_before(x):
    try:
        raise ValueError("a")
    except ValueError:
        print("b")
        raise


@pytest.mark.parametrize("function", [swallowed_by_python, refused_by_an_object, printed_before])
def test_one_that_does_not_leave_is_a_break(function):
    compiled = strict_compile(function, fullgraph=True)
    for _ in range(2):
        with pytest.raises(framejit.GraphBreakError):
            compiled(vec(2))
