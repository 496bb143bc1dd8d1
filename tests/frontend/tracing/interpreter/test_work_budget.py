"""What happens to programs that are too much for one graph: long loops, deep recursion, long
functions, endless ones."""

from __future__ import annotations

import sys

import framejit
import pytest
import torch
from framejit import errors

from ...semantics.harness import capture_events, check, strict_compile, vec


def ops_of(events):
    return [event.ops for event in events if type(event).__name__ == "Captured"]


def reasons_of(events):
    return {event.reason_id for event in events if type(event).__name__ == "Break"}


def turns(x, n):
    for _ in range(n):
        x = x * 0.5 + 1
    return x - 1


def test_a_loop_of_ten_thousand_turns_stays_a_loop_around_a_compiled_one():
    h = strict_compile(turns)
    events = capture_events(h)
    assert torch.equal(h(vec(2), 10_000), turns(vec(2), 10_000))
    assert reasons_of(events) == {"long-loop"} and h.framejit.compiles <= 4
    assert max(ops_of(events)) <= 3
    compiles = h.framejit.compiles
    assert (
        torch.equal(h(vec(2) * 2, 10_000), turns(vec(2) * 2, 10_000))
        and h.framejit.compiles == compiles
    )


def test_the_same_loop_with_few_turns_is_unrolled():
    check(turns, vec(2), 200, graphs=1, ran=401)


def test_what_is_unrolled_is_a_knob():
    with framejit.config.patch(unroll_iterations=3, unroll_budget=100):
        h = strict_compile(turns)
    events = capture_events(h)
    assert torch.equal(h(vec(2), 20), turns(vec(2), 20))
    assert reasons_of(events) == {"long-loop"}


def test_a_long_while_loop_with_a_list_and_an_exception():
    def f(x, log):
        n = 0
        try:
            while True:
                x = x * 0.5 + 1
                log.append(n)
                n += 1
                if n == 2000:
                    raise ValueError(n)
        except ValueError as error:
            return x, error.args

    check(f, vec(2), [], graphs=None, breaks=None, again=False)


def test_a_long_loop_in_a_callee_and_in_a_comprehension():
    def inner(x):
        for i in range(1500):
            x = x + 1
        return x * 2

    def f(x):
        y = inner(x - 1)
        return y, [x for _ in range(1500)][-1], inner(y)

    check(f, vec(2), graphs=None, breaks=None)


def test_a_long_loop_of_python_only():
    def f(x):
        total = 0
        for i in range(100_000):
            total += i
        return x + total

    check(f, vec(2), graphs=None, breaks=None, again=False)


def test_a_long_loop_where_no_break_can_be_made():
    def f(x):
        return sum(x.sum() for _ in range(1500)), x + 1

    check(f, vec(2), graphs=None, breaks=None)


def test_a_long_loop_under_fullgraph_says_so():
    with pytest.raises(framejit.GraphBreakError) as caught:
        strict_compile(turns, fullgraph=True)(vec(2), 10_000)
    assert caught.value.graph_break.reason.id == "long-loop" and "unroll_iterations" in str(
        caught.value
    )


def test_recursion_within_the_limit_is_one_graph():
    def down(x, n):
        return x if n == 0 else down(x * 0.5 + 1, n - 1)

    check(down, vec(2), 50, graphs=1, ran=100)


def test_deep_recursion():
    def down(x, n):
        return x if n == 0 else down(x * 0.5 + 1, n - 1)

    h = strict_compile(down)
    events = capture_events(h)
    # less where inductor has raised the limit: under any evaluator, torch.compile's too, Python
    # 3.12
    # has 1,500 levels, of which a call takes two
    depth = min(sys.getrecursionlimit() // 2, 500)
    assert torch.equal(h(vec(2), depth), down(vec(2), depth))
    assert "too-deep" in reasons_of(events) and ops_of(events)


def test_recursion_without_an_end_raises_what_python_raises():
    def down(x, n):
        return down(x + 1, n + 1)

    with pytest.raises(RecursionError):
        strict_compile(down)(vec(2), 0)


def test_a_function_of_five_thousand_lines():
    lines = [f"    x = x + {i}" if i % 25 == 0 else f"    y{i % 50} = {i} * k" for i in range(5000)]
    scope = {}
    exec("def f(x, k):\n" + "\n".join(lines) + "\n    return x, y1, y49", scope)
    check(scope["f"], vec(2), 3, graphs=1, ran=200)


def test_a_budget_of_instructions_ends_every_capture():
    def f(x):
        for i in range(100):
            x = x + 1
        return x

    with framejit.config.patch(trace_budget=300):
        h = strict_compile(f)
    events = capture_events(h)
    assert torch.equal(h(vec(2)), f(vec(2)))
    assert "too-long" in reasons_of(events)


def parts(scale, *more, **named):
    def inner(x):
        y = x * scale
        z = y + len(more)
        del y
        return z, named

    return inner


def of_all_kinds(x):
    out = parts(3, 1, a=2)(x)
    a, b = both = 4, x
    del b
    return out, a, [k for k in both]


def test_the_budget_may_end_before_any_instruction():
    wanted = of_all_kinds(vec(2))
    for budget in range(1, 64):
        with framejit.config.patch(trace_budget=budget):
            got = strict_compile(of_all_kinds)(vec(2))
        assert str(got) == str(wanted), budget


def test_every_break_reason_is_complete():
    for name, reason in errors.REASONS.items():
        assert reason.id == name and name == name.lower() and " " not in name
        assert len(reason.hint) > 10 and len(reason.sentence.format("x")) > 10
        assert reason.sentence.count("{}") <= 1


def reads_its_variables(x):
    frame = sys._getframe()
    y = x + 1
    return y, sorted(frame.f_locals)


def test_a_frame_that_reads_its_own_variables_is_left_to_python():
    def calls_one(x):
        return reads_its_variables(x.sin())[0] * 2

    check(reads_its_variables, vec(2), graphs=0, breaks=None, skipped=True)
    check(calls_one, vec(2), graphs=2, breaks=("unknown-call",), skipped=True)


def test_whether_there_is_a_process_group_is_asked_without_a_break():
    def f(x):
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return x * 3
        return x + 1, torch.get_default_device()

    handle, member = (
        strict_compile(f, backend="eager"),
        torch.distributed.distributed_c10d.GroupMember,
    )
    assert handle(torch.ones(2))[1] == torch.device("cpu")
    member.WORLD = object()
    try:
        assert torch.equal(handle(torch.ones(2)), torch.full((2,), 3.0))
    finally:
        member.WORLD = None
    torch.set_default_device("meta")
    try:
        assert handle(torch.ones(2))[1] == torch.device("meta")
    finally:
        torch.set_default_device(None)
    assert (
        handle(torch.ones(2))[1] == torch.device("cpu")
        and handle.framejit.compiles == 3
        and not handle.framejit.explain().breaks
    )
