"""torch.compiler.disable and torch._dynamo.disable mean what framejit.disable means, wherever the
marked function is."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch import nn

from ..semantics.harness import strict_compile

seen: list[tuple[str, bool, bool]] = []


def note(place):
    seen.append((place, framejit.is_compiling(), torch.compiler.is_compiling()))


def callee(x):
    note("callee")
    return x * 2


DEEP = {
    "compiler": torch.compiler.disable, "compiler called": torch.compiler.disable(), "reason": torch.compiler.disable(reason="because"),
    "reason given with it": lambda f: torch.compiler.disable(f, reason="because"),
    "dynamo": torch._dynamo.disable, "dynamo called": torch._dynamo.disable(), "framejit": framejit.disable,
    "framejit called": framejit.disable(),
}  # fmt: skip
SHALLOW = {
    "compiler": lambda f: torch.compiler.disable(f, recursive=False), "compiler called": torch.compiler.disable(recursive=False),
    "dynamo": lambda f: torch._dynamo.disable(f, recursive=False), "framejit": lambda f: framejit.disable(f, recursive=False),
    "skip": torch._dynamo.decorators.skip,
}  # fmt: skip
MARKS = [pytest.param(mark, False, id=f"deep {name}") for name, mark in DEEP.items()]
MARKS += [pytest.param(mark, True, id=f"shallow {name}") for name, mark in SHALLOW.items()]


def called(mark):
    def own(x):
        note("own")
        return callee(x) + 1

    marked = mark(own)
    return lambda x: marked(x + 1) * 3


def root(mark):
    def own(x):
        note("own")
        return callee(x) + 1

    return mark(own)


def make_class(mark):
    class SegmentMarks(nn.Module):
        @mark
        def forward(self, x):
            note("own")
            return callee(x)

    return SegmentMarks


def module(mark):
    return make_class(mark)()


def nested(mark):
    return nn.Sequential(nn.Linear(3, 3), make_class(mark)(), nn.ReLU())


def of_instance(mark):
    module = nn.Linear(3, 3)

    def own(x):
        note("own")
        return callee(x)

    module.forward = mark(own)
    return module


@pytest.mark.parametrize(
    "make", [called, root, module, nested, of_instance], ids=lambda make: make.__name__
)
@pytest.mark.parametrize(("mark", "shallow"), MARKS)
def test_a_marked_function(make, mark, shallow):
    target = make(mark)
    x = torch.randn(2, 3)
    with torch.no_grad():
        expected = target(x)
    seen.clear()
    compiled = (
        strict_compile(target) if not isinstance(target, nn.Module) else framejit.compile(target)
    )
    with torch.no_grad():
        assert all(compiled(x).equal(expected) for _ in range(3))
    assert {one for one in seen if one[0] == "own"} == {("own", False, False)}
    assert {one[1:] for one in seen if one[0] == "callee"} <= (
        {(True, True)} if shallow else {(False, False)}
    )


def test_the_reason_is_told():
    @torch.compiler.disable(reason="it talks to a device")
    def own(x):
        return x + 1

    handle = strict_compile(lambda x: own(x) * 2)
    handle(torch.ones(2))
    assert "own (it talks to a device)" in handle.framejit.explain().breaks[0].reason


@pytest.mark.parametrize("disable", [torch.compiler.disable, torch._dynamo.disable])
def test_a_marked_class_of_modules(disable):
    @disable
    class SegmentMarks(nn.Module):
        def forward(self, x):
            note("own")
            return callee(x)

    seen.clear()
    for module in (
        SegmentMarks(),
        nn.Sequential(SegmentMarks(), nn.ReLU()),
        disable(make_class(lambda f: f)()),
    ):
        compiled = framejit.compile(module)
        assert compiled(torch.ones(2)).equal(torch.full((2,), 2.0))
    assert {one[1:] for one in seen} == {(False, False)}
    assert (
        "marked as disabled"
        in framejit.compile(SegmentMarks()).framejit.explain().skipped[0].reason
    )


def test_a_decorator_that_copies_the_mark_is_no_marked_function():
    import functools

    @torch.compiler.disable
    def own(x):
        note("own")
        return x + 1

    @functools.wraps(own)
    def around(x):
        note("around")
        return own(x * 2)

    seen.clear()
    handle = strict_compile(lambda x: around(x) + 1)
    assert handle(torch.ones(2)).equal(torch.full((2,), 4.0))
    assert set(seen) == {("around", True, True), ("own", False, False)}


def test_a_method_with_recursive_false():
    module = nn.Linear(3, 3)
    module.forward = framejit.disable(module.forward, recursive=False)
    x = torch.randn(2, 3)
    assert framejit.compile(module)(x).equal(nn.Linear.forward(module, x))
