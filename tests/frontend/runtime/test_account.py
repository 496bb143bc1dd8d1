"""What a handle may spend on compiling code again, and what it tells of that."""

from __future__ import annotations

import math

import framejit
import pytest
import torch
from framejit.errors import FramejitWarning, RecompileError
from framejit.events import Chosen, Skipped
from framejit.frontend.runtime import account
from framejit.frontend.runtime.account import (
    EARLY_SHARE,
    FIRST_CALLS,
    FIRST_COMPILES,
    FIRST_GRAPHS,
    FREE_GRAPHS,
    FREE_VERSIONS,
    LARGE_GRAPH,
    Account,
)

X = torch.ones(3)
LATER = FIRST_CALLS + 1  # a call whose compiles count


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(account, "time", clock)
    return clock


def test_further_versions_take_a_share_of_the_time(clock):
    spender = Account(0.05)
    for _ in range(FREE_VERSIONS):
        assert spender.may_compile(5, LATER)
        spender.charge(5, LATER, 1.0)
    spender.charge(5, LATER, 1.0)  # the first that is not free
    assert not spender.may_compile(5, LATER) and spender.may_compile(1, LATER)
    assert "5% of the program's time" in spender.refusal
    clock.now += 22
    assert spender.may_compile(5, LATER)


def test_the_first_calls_cost_nothing(clock):
    spender = Account(0.0)
    for _ in range(FREE_VERSIONS + 5):
        spender.charge(5, FIRST_CALLS, 1.0)
    assert (
        spender.may_compile(5, FIRST_CALLS)
        and spender.may_compile(5, LATER)
        and spender.again == FREE_VERSIONS + 5
    )


@pytest.mark.parametrize(("budget", "versions"), [(0, 2), (0.5, 3), (2.5, 5), (math.inf, 40)])
def test_a_budget_counts_from_the_first_call(clock, budget, versions):
    spender, made = Account(0.05, budget), 0
    while made < 40 and spender.may_compile(made, 1):
        spender.charge(made, 1, 1.0)
        made += 1
    assert made == versions


def compile_graph(spender, clock, versions=0, calls=1, operations=LARGE_GRAPH):
    clock.now += 1.0
    spender.charge_graph(calls, 1.0, operations)
    spender.charge(versions, calls, 1.0)


def test_with_default_settings_early_graphs_take_a_larger_share_of_the_time(clock):
    spender = Account(0.05, economical=True)
    clock.now += 100.0  # nothing is compiled yet: this buys nothing
    for _ in range(FIRST_GRAPHS):
        assert spender.may_begin(1, LATER)
        compile_graph(spender, clock, 1)
    assert not spender.may_begin(0, LATER) and not spender.may_begin(1, 1)
    assert "5 graphs are compiled" in spender.refusal_of_graphs
    assert "20% of the program's time" in spender.refusal_of_graphs
    assert spender.may_begin(0, 1)  # what the first call needs, which is not charged
    compile_graph(spender, clock)
    clock.now += 1 / EARLY_SHARE - 0.1
    assert not spender.may_begin(1, LATER)
    clock.now += 0.2
    assert spender.may_begin(1, LATER)
    compile_graph(spender, clock, 1, LATER)
    assert not spender.may_begin(1, LATER)


def test_with_default_settings_further_graphs_take_a_share_of_the_time(clock):
    spender = Account(0.05, economical=True)
    for _ in range(FREE_GRAPHS):
        assert spender.may_begin(0, 1)
        compile_graph(spender, clock)
    assert not spender.may_begin(0, 1) and "12 graphs are compiled" in spender.refusal_of_graphs
    assert "5% of the program's time" in spender.refusal_of_graphs
    clock.now += 19.0
    assert not spender.may_begin(0, 1)
    clock.now += 2.0
    assert spender.may_begin(0, 1)
    compile_graph(spender, clock)
    assert not spender.may_begin(0, 1)


def test_graphs_that_are_small_take_a_share_of_the_time_in_the_first_call_too(clock):
    spender = Account(0.05, economical=True)
    for operations in (2 * LARGE_GRAPH,) * (FIRST_GRAPHS - 1) + (0,):
        assert spender.may_begin(0, 1)
        compile_graph(spender, clock, operations=operations)
    assert spender.may_begin(0, 1)  # they are large on average
    for _ in range(FIRST_GRAPHS):  # compiles that find no tensor work
        spender.charge(0, 1, 0.0)
    assert not spender.may_begin(0, 1)
    clock.now += 1 / EARLY_SHARE - 0.1
    assert not spender.may_begin(0, 1)
    clock.now += 0.2
    assert spender.may_begin(0, 1)


def test_compiles_that_find_no_tensor_work_are_given_up_early(clock):
    """The clock stands still. What the first compiles find decides."""
    spender = Account(0.05, economical=True)
    for _ in range(FIRST_COMPILES):
        assert spender.may_begin(0, 1)
        clock.now += 1.0
        spender.charge(0, 1, 1.0)
    assert not spender.may_begin(0, 1)
    clock.now += 1 / EARLY_SHARE + 0.1
    assert spender.may_begin(0, 1)
    compile_graph(spender, clock, operations=LARGE_GRAPH * (FIRST_COMPILES + 1))
    assert spender.may_begin(0, 1)


def test_a_function_of_many_breaks_without_tensor_work_is_given_up_early(clock):
    part = "    kept.append(0)\n    print(end='')\n"
    namespace = {"kept": []}
    exec("def log(x):\n" + part * 20 + "    return x + 1", namespace)
    handle = framejit.compile(namespace["log"], backend="autotune")
    for _ in range(3):
        assert torch.equal(handle(X), X + 1)
    assert handle.framejit.compiles == FIRST_COMPILES and len(namespace["kept"]) == 60


@pytest.mark.parametrize(("operations", "compiled"), [(2, FIRST_GRAPHS), (2 * LARGE_GRAPH, 9)])
def test_a_first_call_with_small_graphs_is_given_up_early(clock, operations, compiled):
    """The clock stands still: only what the first call needs is free."""
    part = f"    for _ in range({operations // 2}): x = x * 0.5 + 1\n    print(end='')\n"
    namespace = {}
    exec("def solve(x):\n" + part * 8 + "    return x + 1", namespace)
    solve = namespace["solve"]
    handle = framejit.compile(solve, backend="autotune")
    assert torch.equal(handle(X), solve(X))
    assert handle.framejit.compiles == compiled


@pytest.mark.parametrize("how", [{"economical": False}, {"economical": True, "budget_s": 0.0}])
def test_other_settings_do_not_limit_graphs(clock, how):
    spender = Account(0.05, **how)
    for _ in range(2 * FREE_GRAPHS):
        spender.charge_graph(1, 1.0, LARGE_GRAPH)
    assert spender.may_begin(1, LATER)


def test_with_default_settings_a_limit_is_warned_of_if_its_versions_took_long():
    assert Account(0.05).warns_of_limits
    spender = Account(0.05, economical=True)
    spender.charge(1, 1, 0.5)
    assert not spender.warns_of_limits
    spender.charge(2, 1, 0.6)
    assert spender.warns_of_limits


def search(x, length):
    """As in a beam search, each iteration needs the number of tokens so far."""
    tokens = []
    for number in range(length):
        print(end="")
        for token in tokens:
            x = x + token
        tokens.append(torch.full((), float(number)))
    return x, tokens


@pytest.mark.parametrize(
    ("how", "all_at_once"),
    [
        ({}, False),
        ({"backend": "eager"}, True),
        ({"options": {"compile_budget": math.inf}}, True),
        ({"options": {"patience": 0}}, True),
    ],
)
@pytest.mark.sweep(2)
def test_a_loop_of_many_graphs(how, all_at_once):
    handle = framejit.compile(search, **({"backend": "autotune"} | how))
    compiles = []
    for _ in range(8):
        got, expected = handle(X, 30), search(X, 30)
        assert torch.equal(got[0], expected[0]) and list(map(float, got[1])) == [*range(30)]
        compiles.append(handle.framejit.compiles)
    if all_at_once:
        assert compiles[0] >= 30
    else:
        assert compiles[-1] <= FREE_GRAPHS + 4
        assert "further ones may take" in str(handle.framejit.explain().details())


def test_versions_that_do_not_pay_back_are_given_up_early(clock):
    """The clock stands still: no call takes long enough to be worth another graph."""

    def double_and_add(x):
        y = x * 2
        print(end="")
        return y + x

    handle = framejit.compile(double_and_add, backend="autotune")
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.int16):
        for _ in range(3):
            assert torch.equal(handle(X.to(dtype)), double_and_add(X.to(dtype)))
    assert handle.framejit.compiles == FIRST_GRAPHS


def test_other_versions_for_iterations_of_a_loop_are_given_up_early(clock):
    def double_all(xs):
        found = []
        for x in xs:
            print(end="")
            found.append(x * 2 + 1)
        return found

    handle = framejit.compile(double_all, backend="autotune")
    xs = [torch.ones([1] * dim) for dim in range(12)]
    for one, other in zip(handle(xs), double_all(xs), strict=True):
        assert torch.equal(one, other)
    assert handle.framejit.compiles <= FIRST_GRAPHS + 1


@pytest.mark.parametrize("asked", ["error_on_recompile", "stance"])
def test_an_error_that_the_user_asked_for_is_raised_behind_the_first_graphs(asked):
    with framejit.config.patch(error_on_recompile=asked == "error_on_recompile"):
        handle = framejit.compile(lambda x: search(x + 1, 30), backend="autotune")
    handle(X)
    with pytest.raises(RecompileError):
        if asked == "stance":
            with framejit.set_stance("fail_on_recompile"):
                handle(X.double())
        else:
            handle(X.double())


def by_text(x, text):
    return x * 2 + len(text)


@pytest.mark.parametrize(("budget", "compiles"), [(0, 2), (math.inf, 8), (None, 8)])
@pytest.mark.filterwarnings("ignore:framejit")
def test_a_handle_keeps_to_its_budget(budget, compiles):
    handle = framejit.compile(
        lambda x, text: x * 2 if text[:1] == "a" else x,
        backend="eager",
        options={"compile_budget": budget},
    )
    for k in range(12):
        assert torch.equal(handle(X, f"a{k}"), X * 2)
    assert handle.framejit.compiles == compiles
    balance = handle.framejit.explain().account
    assert (balance.calls, balance.compiles, balance.again) == (
        12,
        compiles,
        compiles - 1,
    ) and balance.again_s <= balance.seconds
    text = str(handle.framejit.explain())
    assert f"account: {compiles} compiles took" in text
    assert ("compile_budget for compiling code again are spent" in text) == (budget == 0)


def test_what_is_given_up_is_reported_once_and_again_after_a_reset():
    told = []
    with framejit.config.patch(sinks=(told.append,), compile_budget=0.0):
        handle = framejit.compile(lambda x, text: x * 2 if text[:1] == "a" else x, backend="eager")
    for reset in (False, True):
        for k in range(6):
            handle(X, f"a{k}")
        assert sum(isinstance(event, Skipped) for event in told) == 1 + reset
        handle.framejit.reset()


def test_iterations_whose_code_serves_no_other_are_given_up():
    def f(x, functions):
        for function in functions:
            print(end="")
            x = function(x)
        return x

    def made(**how):
        handle = framejit.compile(f, backend="eager", **how)
        for _ in range(4):
            functions = [eval("lambda x: x + 1") for _ in range(30)]  # each with code of its own
            assert torch.equal(handle(torch.ones(3), functions), f(torch.ones(3), functions))
        return handle

    handle = made()
    assert handle.framejit.compiles <= 40  # those of the first call
    (skipped,) = handle.framejit.explain().skipped
    assert skipped.reason.startswith("the code that was compiled for single iterations")
    assert made(options={"compile_budget": math.inf}).framejit.compiles > 80


@pytest.mark.parametrize("wrong", [-1, "much", True, math.nan])
def test_a_budget_that_makes_no_sense(wrong):
    with pytest.raises(ValueError, match="compile_budget must be a number of seconds"):
        framejit.compile(by_text, options={"compile_budget": wrong})
    with pytest.raises(ValueError, match="compile_budget must be a number of seconds"):
        framejit.config.compile_budget = wrong


def test_a_backend_gets_its_own_options_only():
    got = {}

    def backend(gm, example_inputs, *, depth=0):
        got["depth"] = depth
        return gm.forward

    assert torch.equal(
        framejit.compile(by_text, backend=backend, options={"depth": 3, "compile_budget": 1.0})(
            X, "ab"
        ),
        by_text(X, "ab"),
    )
    assert got == {"depth": 3}


def test_a_first_time_user_is_warned_once(monkeypatch):
    monkeypatch.setattr(account, "WARN_AFTER_VERSIONS", 5)
    handle = framejit.compile(lambda x, text: x * 2 if text[:1] == "a" else x, backend="eager")
    with pytest.warns(FramejitWarning, match="compiled 6 times in 6 calls") as told:
        for k in range(8):
            handle(X, f"a{k}")
    (warning,) = told
    text = str(warning.message)
    assert (
        "5 times code that had been compiled before" in text
        and "`text` differed (last 'a5', compiled for 'a4') at " in text
    )
    assert "test_account.py:" in text and "compile_budget" in text


@pytest.mark.parametrize(("seconds", "told"), [
    ([account.WARN_AFTER_S * 2, 1.0], [False, False]),  # a first compile is not compiling again
    ([1.0, account.WARN_AFTER_S / 2, account.WARN_AFTER_S / 2, 1.0], [False, False, True, False]),
])  # fmt: skip
def test_seconds_of_compiling_again_tell_the_user_too(seconds, told):
    one = account.Account(0.05)
    found = []
    for versions, took in enumerate(seconds):
        one.charge(versions, versions + 1, took)
        found.append(one.warns_now())
    assert found == told


def test_what_compiled_code_saves_is_counted_by_the_trials():
    handle = framejit.compile(lambda x: x * 2 + 1, backend="eager")
    handle(X)
    (number,) = {capture.number for capture in handle.framejit.explain().captures}
    handle.framejit.cache.send(
        Chosen(
            "f", "f.py:1", "native", "measured", (("native", 0.25), ("eager", 1.25)), number=number
        )
    )
    for _ in range(3):
        handle(X)
    assert handle.framejit.explain().account.saved_s == 4.0
    assert "saved 4 s in 4 calls" in str(handle.framejit.explain())
