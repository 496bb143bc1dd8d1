"""What programs say to torch.compile holds for framejit, too."""

from __future__ import annotations

import time

import framejit
import pytest
import torch

from ..semantics.harness import strict_compile, vec

said: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_said():
    said.clear()


@torch.compiler.allow_in_graph
def allowed(x):
    return x.sin() if len(said) else x.cos()


@torch.compiler.assume_constant_result
def constant(scale):
    said.append("called")
    return time.time() * 0 + scale


@torch._dynamo.nonstrict_trace
def traced(x):
    return x * 3


@torch.compiler.disable
def left_to_python(x):
    return x * 5


def compile_dynamo_says(x):
    return x + 1 if torch.compiler.is_dynamo_compiling() else x


CASES = {
    "allow_in_graph": (lambda x: allowed(x) + 1, lambda x: x.cos() + 1, ()),
    "nonstrict_trace": (lambda x: traced(x) + 1, lambda x: x * 3 + 1, ()),
    "disable": (lambda x: left_to_python(x) + 1, lambda x: x * 5 + 1, ("disabled-call",)),
    "is_compiling": (
        lambda x: x + 1 if torch.compiler.is_compiling() else x,
        lambda x: x + 1,
        (),
    ),
    "is_dynamo_compiling": (compile_dynamo_says, lambda x: x + 1, ()),
    "torch._dynamo.is_compiling": (
        lambda x: x + 1 if torch._dynamo.is_compiling() else x,
        lambda x: x + 1,
        (),
    ),
    "is_exporting": (lambda x: x + 1 if torch.compiler.is_exporting() else x, lambda x: x, ()),
    "graph_break": (lambda x: (torch._dynamo.graph_break(), x + 1)[1], lambda x: x + 1, ()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_directive(name):
    fn, expected, breaks = CASES[name]
    step = strict_compile(fn, backend="eager")
    for x in (vec(3), vec(3) + 1):
        torch.testing.assert_close(step(x), expected(x))
    assert tuple(found.id for found in step.framejit.explain().breaks) == breaks
    if name == "allow_in_graph":
        (graph,) = step.framejit.explain().graphs
        assert any("allowed" in str(node) for node in graph.nodes)


def test_a_constant_is_asked_for_once():
    step = strict_compile(lambda x: x * constant(2.0), backend="eager")
    for x in (vec(3), vec(3) + 1, vec(3)):
        torch.testing.assert_close(step(x), x * 2)
    assert said == ["called"] and not step.framejit.explain().breaks


def test_what_depends_on_tensors_is_no_constant():
    @torch.compiler.assume_constant_result
    def doubled(x):
        return x * 2

    step = strict_compile(lambda x: doubled(x) + 1, backend="eager")
    for x in (vec(3), vec(3) + 1):
        torch.testing.assert_close(step(x), x * 2 + 1)


def test_a_disallowed_operator_breaks():
    step = strict_compile(lambda x: torch.sub(x.sin(), 1) + 1, backend="eager")
    torch._dynamo.disallow_in_graph(torch.sub)
    try:
        torch.testing.assert_close(step(vec(3)), vec(3).sin())
    finally:
        torch.compiler.allow_in_graph(torch.sub)
    (found,) = step.framejit.explain().breaks
    assert found.id == "disabled-call" and "disallow_in_graph" in found.reason


def test_a_substitute_is_captured():
    def substitute():
        return None

    def fn(x):
        time.tzset()
        return x + 1

    broken = strict_compile(fn, backend="eager")
    broken(vec(3))
    assert broken.framejit.explain().breaks
    torch.compiler.substitute_in_graph(time.tzset)(substitute)
    step = strict_compile(fn, backend="eager")
    torch.testing.assert_close(step(vec(3)), vec(3) + 1)
    assert not step.framejit.explain().breaks


@pytest.mark.parametrize(
    "name, compiles",
    [("mark_dynamic", 1), ("maybe_mark_dynamic", 1), ("mark_unbacked", 1), ("mark_static", 3)],
)
def test_marks_of_torch(name, compiles):
    step = strict_compile(lambda x: x.sin() + 1, backend="eager")
    for n in (3, 5, 8):
        x = torch.ones(n)
        getattr(torch._dynamo.decorators, name)(x, 0)
        torch.testing.assert_close(step(x), x.sin() + 1)
    assert step.framejit.compiles == compiles


def test_the_range_of_a_mark():
    step = strict_compile(lambda x: x.sin() + 1, backend="eager")
    for n in (4, 6):
        x = torch.ones(n)
        torch._dynamo.mark_dynamic(x, 0, min=3, max=9)
        step(x)
    step(torch.ones(20))
    assert step.framejit.compiles == 2


def test_marks_of_framejit_count_first():
    step = strict_compile(lambda x: x + 1, backend="eager")
    for n in (3, 5):
        x = torch.ones(n)
        torch._dynamo.mark_dynamic(x, 0)
        framejit.mark_static(x, 0)
        step(x)
    assert step.framejit.compiles == 2
