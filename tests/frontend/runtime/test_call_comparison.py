"""Whole calls, compiled and in eager: which side stays."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.events import Skipped
from framejit.frontend.runtime import call_comparison
from framejit.frontend.runtime.call_comparison import CallComparison
from framejit.tier import Tier


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now

    monotonic = perf_counter


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(call_comparison, "time", clock)
    return clock


class ComparedCache:
    """Stands for a cache."""

    def __init__(self, *tiers):
        self.compiles, self.rests, self.ended, self.said = 0, [], False, []
        self._tiers, self.compiled_graphs = tiers, 0

    def tiers(self):
        return self._tiers

    def report_rest_in_eager(self, *said):
        self.said.append(said)

    def end_comparison(self):
        self.ended = True

    def run_in_eager(self, calls):
        self.rests.append(calls)


def calls(comparison, clock, number, compiled, eager, result=None, tier=None, savable=0.0):
    """So many calls, which take so long; returns which ran in eager. savable: what compiling would
    save of each compiled one."""
    sides = []
    for _ in range(number):
        sides.append(comparison.begin())
        clock.now += eager if sides[-1] else compiled
        if tier is not None and not sides[-1]:
            tier.savable_s += savable
        comparison.end(result)
    return sides


WHOLE = call_comparison.SETTLED + 2 * call_comparison.PAIRS
SHORT = call_comparison.SETTLED + 2 * call_comparison.FEW_PAIRS


def test_compiled_calls_that_are_faster_stay(clock):
    cache = ComparedCache()
    sides = calls(CallComparison(lambda: cache), clock, WHOLE, 1.0, 2.0)
    assert sides == [False] * call_comparison.SETTLED + [False, True, True, False] * (
        call_comparison.PAIRS // 2
    )
    assert cache.ended and not cache.rests


def test_calls_rest_in_eager_where_that_is_faster_and_are_compared_again_ever_more_rarely(clock):
    cache = ComparedCache()
    comparison = CallComparison(lambda: cache)
    calls(comparison, clock, SHORT, 1.1, 1.0)
    calls(comparison, clock, 2 * call_comparison.FEW_PAIRS, 1.1, 1.0)
    assert (
        cache.rests == [call_comparison.REST, 2 * call_comparison.REST]
        and len(cache.said) == 1
        and not cache.ended
    )


def test_the_more_a_comparison_costs_the_later_is_the_next(clock):
    cache = ComparedCache()
    comparison = CallComparison(lambda: cache)
    calls(comparison, clock, SHORT, 5.0, 1.0)
    cost = call_comparison.FEW_PAIRS * 4
    assert cache.rests == [cost / call_comparison.MOST_COMPARING]


def test_few_pairs_decide_only_if_no_backend_has_compiled_anything(clock):
    for graphs in (0, 1):
        cache = ComparedCache()
        cache.compiled_graphs = graphs
        calls(CallComparison(lambda: cache), clock, SHORT, 2.0, 1.0)
        assert bool(cache.rests) == (graphs == 0)


def test_before_calls_are_compared_a_compile_begins_anew(clock):
    cache = ComparedCache()
    comparison = CallComparison(lambda: cache)
    calls(comparison, clock, call_comparison.SETTLED - 1, 2.0, 1.0)
    comparison.begin()
    cache.compiles += 1
    comparison.end(None)
    assert not any(calls(comparison, clock, call_comparison.SETTLED, 2.0, 1.0)) and not cache.rests


@pytest.mark.parametrize("by_a_backend", [False, True])
def test_a_call_that_compiles_is_not_counted(clock, by_a_backend):
    """One more graph that runs as captured is compared with the others; a backend's code is new."""
    cache = ComparedCache()
    comparison = CallComparison(lambda: cache)
    for _ in range(2 * call_comparison.FEW_PAIRS + 1):  # each second call compiles
        calls(
            comparison, clock, call_comparison.SETTLED if not comparison._comparing else 1, 2.0, 1.0
        )
        comparison.begin()
        cache.compiles += 1
        cache.compiled_graphs += by_a_backend
        clock.now += 0.1
        comparison.end(None)
    assert bool(cache.rests) is not by_a_backend


LONG = call_comparison.SETTLED + 2 * call_comparison.MORE_PAIRS


def test_a_tie_is_the_compiled_calls_if_a_backend_compiled_a_graph(clock):
    cache = ComparedCache()
    cache.compiled_graphs = 1
    calls(CallComparison(lambda: cache), clock, LONG - 1, 1.0, 0.985)
    assert not cache.ended
    cache = ComparedCache()
    cache.compiled_graphs = 1
    calls(CallComparison(lambda: cache), clock, LONG, 1.0, 0.985)
    assert cache.ended and not cache.rests


@pytest.mark.parametrize("eager", [0.985, 1.0, 1.015])
def test_a_tie_is_eagers_if_all_graphs_run_as_captured(clock, eager):
    cache = ComparedCache()
    comparison = CallComparison(lambda: cache)
    calls(comparison, clock, WHOLE - 1, 1.0, eager)
    assert not cache.rests
    calls(comparison, clock, 1, 1.0, eager)
    assert cache.rests == [call_comparison.REST] and not cache.ended


def test_a_little_is_enough_if_eager_always_wins(clock):
    cache = ComparedCache()
    cache.compiled_graphs = 1
    calls(CallComparison(lambda: cache), clock, WHOLE, 1.0, 0.97)
    assert cache.rests and not cache.ended


@pytest.mark.parametrize("lost", [1, 4])
def test_a_little_that_eager_does_not_always_win_takes_more_pairs(clock, lost):
    cache, slow = ComparedCache(), iter([0.96] * lost)
    cache.compiled_graphs = 1
    comparison = CallComparison(lambda: cache)
    calls(comparison, clock, call_comparison.SETTLED, 1.0, 0.97)
    for number in range(2 * call_comparison.MORE_PAIRS):
        eager = comparison.begin()
        clock.now += 0.97 if eager else next(slow, 1.0)
        comparison.end(None)
        assert not cache.rests or number == 2 * call_comparison.MORE_PAIRS - 1
    assert (bool(cache.rests), cache.ended) == ((True, False) if lost == 1 else (False, True))


def with_waiting_graphs():
    """What is asked for, and a comparison of calls whose graphs wait 50 s to be compiled."""
    asked = []
    tier = Tier()
    tier.begin(lambda: asked.append(True))
    tier.wait(50.0)
    cache = ComparedCache(tier)
    return asked, tier, cache, CallComparison(lambda: cache)


def test_graphs_that_wait_are_compiled_before_eager_has_won_for_good(clock):
    asked, tier, cache, comparison = with_waiting_graphs()
    # 4 s in eager, and 46 s of rest
    calls(comparison, clock, SHORT, 2.0, 1.0, tier=tier, savable=1.1)
    assert cache.rests == [50 - call_comparison.FEW_PAIRS] and not asked
    calls(comparison, clock, 2 * call_comparison.FEW_PAIRS, 2.0, 1.0, tier=tier, savable=1.1)
    assert asked and tier.hot and len(cache.rests) == 1


def test_graphs_that_would_lose_compiled_too_are_not_compiled(clock):
    """What is slow about the calls is not in the graphs: they break."""
    asked, tier, cache, comparison = with_waiting_graphs()
    calls(comparison, clock, SHORT, 2.0, 1.0, tier=tier, savable=0.9)
    for _ in range(4):
        calls(comparison, clock, 2 * call_comparison.FEW_PAIRS, 2.0, 1.0, tier=tier, savable=0.9)
    assert len(cache.rests) == 5 and min(cache.rests) >= call_comparison.REST
    assert not asked and not tier.hot


LOSS = torch.ones((), requires_grad=True) * 2


def steps(comparison, clock, number, compiled, eager, result=LOSS):
    """So many training steps: a forward pass, which takes no time in eager, and the rest of each
    step, which takes so long."""
    sides = []
    for _ in range(number):
        sides.append(comparison.begin())
        clock.now += 0.0 if sides[-1] else 0.5
        comparison.end(result)
        clock.now += eager if sides[-1] else compiled
    return sides


@pytest.mark.parametrize("result", [LOSS, {"loss": [1.0, LOSS]}, object()])
def test_with_compiled_gradients_whole_steps_are_compared(clock, result):
    for compiled, eager in ((1.0, 2.0), (2.0, 1.0)):
        cache = ComparedCache()
        cache.compiled_graphs = 1
        comparison = CallComparison(lambda: cache)
        steps(comparison, clock, WHOLE, compiled, eager, result)
        assert not cache.ended and not cache.rests  # the last step has not ended
        comparison.begin()
        assert (cache.ended, bool(cache.rests)) == (compiled < eager, compiled > eager)


def test_a_step_that_goes_on_while_calls_rest_is_not_measured(clock):
    cache = ComparedCache()
    cache.compiled_graphs = 1
    comparison = CallComparison(lambda: cache)
    steps(comparison, clock, WHOLE + 1, 1.1, 1.0)
    (rest,) = cache.rests
    clock.now += 1000 * rest  # calls in eager, which are not measured
    steps(comparison, clock, 2 * call_comparison.PAIRS, 1.1, 1.0)
    assert not cache.ended
    steps(comparison, clock, 1, 1.1, 1.0)
    assert cache.rests == [rest, 2 * rest]


def test_steps_of_training_and_calls_of_evaluation_that_take_turns_are_compared_apart(clock):
    for compiled, eager in ((1.0, 2.0), (1.1, 1.0)):
        cache = ComparedCache()
        cache.compiled_graphs = 1
        comparison = CallComparison(lambda: cache)
        for _ in range(WHOLE):
            steps(comparison, clock, 1, compiled, eager)
            with torch.no_grad():
                calls(comparison, clock, 1, 100 * compiled, 100 * eager, LOSS.detach())
        assert (cache.ended, bool(cache.rests)) == (compiled < eager, compiled > eager)


def test_with_gradients_on_steps_and_calls_that_take_turns_are_not_compared(clock):
    cache = ComparedCache()
    cache.compiled_graphs = 1
    comparison = CallComparison(lambda: cache)
    for _ in range(call_comparison.MOST_SWITCHES // 2 + 1):
        assert not cache.ended
        steps(comparison, clock, 3, 1.0, 2.0)
        calls(comparison, clock, 3, 1.0, 2.0, LOSS.detach())
    assert cache.ended and not cache.rests


@pytest.mark.parametrize("result", [None, LOSS.detach(), (0.5, [LOSS.detach(), "loss"])])
def test_a_step_whose_backward_pass_is_within_the_call_is_compared_as_a_call(clock, result):
    cache = ComparedCache()
    cache.compiled_graphs = 1
    calls(CallComparison(lambda: cache), clock, WHOLE, 2.0, 1.0, result)
    assert cache.rests and not cache.ended


def test_without_gradients_every_call_decides(clock):
    cache = ComparedCache()
    cache.compiled_graphs = 1
    with torch.no_grad():
        calls(CallComparison(lambda: cache), clock, WHOLE, 2.0, 1.0, LOSS)
    assert cache.rests and not cache.ended


def with_breaks(x):
    for number in range(10):
        print(end="")
        x = x + number
    return x


def test_a_function_of_breaks_ends_in_eager_and_says_so():
    events = []
    with framejit.config.patch(sinks=(events.append,)):
        handle = framejit.compile(with_breaks, backend="autotune")
    x = torch.ones(4)
    for _ in range(WHOLE + 30):
        assert torch.equal(handle(x), with_breaks(x))
    if handle.unmeasured:  # else compiled calls were as fast on this machine
        assert any(
            "calls run in eager" in event.reason for event in events if isinstance(event, Skipped)
        )


@pytest.mark.parametrize(
    ("compiled_s", "eager_s", "said"),
    [
        (0.002, 0.001, "2 ms compiled and 1 ms in eager; calls run in eager"),
        (0.001, 0.002, "1 ms compiled and 2 ms in eager, which may be chance, and no backend"),
    ],
)
def test_a_rest_in_eager_says_which_side_is_faster(compiled_s, eager_s, said):
    events = []
    with framejit.config.patch(sinks=(events.append,)):
        handle = framejit.compile(with_breaks, backend="autotune")
        handle(torch.ones(4))
        handle.framejit.cache.report_rest_in_eager(compiled_s, eager_s, 64)
    assert said in events[-1].reason


@pytest.mark.parametrize("how", [
    {"backend": "eager"}, {"backend": "autotune", "fullgraph": True}, {"backend": "autotune", "mode": "reduce-overhead"},
])  # fmt: skip
def test_only_the_default_compares(how):
    assert framejit.compile(lambda x: x + 1, **how).comparison is None


def test_comparing_can_be_switched_off():
    with framejit.config.patch(compare_calls=False):
        assert framejit.compile(with_breaks, backend="autotune").comparison is None


def test_exceptions_of_a_compared_call_are_the_programs():
    def f(x):
        if x.shape[0] == 3:
            raise KeyError("three")
        return x + 1

    handle = framejit.compile(f, backend="autotune")
    for _ in range(WHOLE):
        with pytest.raises(KeyError, match="three"):
            handle(torch.ones(3))
        assert torch.equal(handle(torch.ones(2)), torch.full((2,), 2.0))
