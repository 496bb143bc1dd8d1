"""Functions of torch.jit: a scripted one is captured through its Python, where both say the same;
everything else costs one break."""

from __future__ import annotations

import framejit
import pytest
import torch

from ...semantics.harness import check, vec


def halves(x: torch.Tensor, times: int, to: torch.Tensor | None = None) -> torch.Tensor:
    if times > 2:
        x = x / times
    return x if to is None else x + to


def asking(x: torch.Tensor) -> torch.Tensor:
    if torch.jit.is_scripting():
        return x + 1
    return x - 1


def branching(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if bool(x.sum() > 0) else x - 1


def outer(x: torch.Tensor) -> torch.Tensor:
    return halves(x, 3) * 2


SCRIPTED = torch.jit.script(halves)
ASKING = torch.jit.script(asking)
OUTER = torch.jit.script(outer)
with pytest.warns(torch.jit.TracerWarning):
    TRACED = torch.jit.trace(branching, torch.ones(3), check_trace=False)


def test_a_scripted_function_is_captured():
    def f(x):
        return SCRIPTED(x, 3) + SCRIPTED(x, times=1, to=x) + OUTER(x)

    check(f, vec(4), graphs=1)


def test_another_scripted_function_in_its_place_is_seen():
    def f(x):
        return HELD["now"](x * 2) + 1

    HELD = {"now": OUTER}
    compiled = framejit.compile(f, backend="eager")
    assert torch.equal(compiled(vec(4)), f(vec(4)))
    assert not compiled.framejit.explain().breaks
    HELD["now"] = TRACED
    assert torch.equal(compiled(vec(4)), f(vec(4)))


def test_one_that_asks_whether_it_is_scripted_answers_as_scripted():
    def f(x):
        return ASKING(x * 2) * 3

    check(f, vec(4), graphs=2, breaks=("unknown-call",))


def test_a_traced_function_is_what_was_traced():
    def f(x):
        return TRACED(x * 2) * 3

    check(f, -torch.ones(4), graphs=2, breaks=("unknown-call",))


def test_a_scripted_module_costs_one_break():
    module = torch.jit.script(torch.nn.Linear(4, 4))

    def f(x):
        return module(x * 2) * 3

    check(f, vec(4), graphs=2, breaks=("unknown-call",))


def test_what_it_refuses_is_refused():
    def f(x):
        y = x * 2
        try:
            return SCRIPTED(1.5, 3)
        except RuntimeError as error:
            return y, "Expected a value of type 'Tensor'" in str(error)

    check(f, vec(4), breaks=("unknown-call",))
