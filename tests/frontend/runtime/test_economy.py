"""What compiling is worth: whole calls against eager's, entries against the program's time, frames
without tensor work."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.events import CompileStarted, Skipped
from framejit.frontend.runtime import economy
from framejit.frontend.runtime.economy import Contest, IdleFrame, has_room
from framejit.tier import Tier


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now

    monotonic = perf_counter


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(economy, "time", clock)
    return clock


class ContestHost:
    """Stands for a cache."""

    def __init__(self, *tiers):
        self.compiles, self.rests, self.ended, self.said = 0, [], False, []
        self._tiers, self.compiled_graphs = tiers, 0

    def tiers(self):
        return self._tiers

    def say_eager(self, *said):
        self.said.append(said)

    def end_contest(self):
        self.ended = True

    def run_in_eager(self, calls):
        self.rests.append(calls)


def calls(contest, clock, number, compiled, eager, result=None):
    """So many calls, which take so long; returns which ran in eager."""
    sides = []
    for _ in range(number):
        sides.append(contest.begin())
        clock.now += eager if sides[-1] else compiled
        contest.end(result)
    return sides


WHOLE = economy.SETTLED + 2 * economy.PAIRS


def test_compiled_calls_that_are_faster_stay(clock):
    cache = ContestHost()
    sides = calls(Contest(lambda: cache), clock, WHOLE, 1.0, 2.0)
    assert sides == [False] * economy.SETTLED + [False, True, True, False] * (economy.PAIRS // 2)
    assert cache.ended and not cache.rests


def test_calls_rest_in_eager_where_that_is_faster_and_are_compared_again_ever_more_rarely(clock):
    cache = ContestHost()
    contest = Contest(lambda: cache)
    calls(contest, clock, WHOLE, 2.0, 1.0)
    calls(contest, clock, 2 * economy.PAIRS, 2.0, 1.0)
    assert (
        cache.rests == [economy.REST, 2 * economy.REST] and len(cache.said) == 1 and not cache.ended
    )


def test_before_calls_are_compared_a_compile_begins_anew(clock):
    cache = ContestHost()
    contest = Contest(lambda: cache)
    calls(contest, clock, economy.SETTLED - 1, 2.0, 1.0)
    contest.begin()
    cache.compiles += 1
    contest.end(None)
    assert not any(calls(contest, clock, economy.SETTLED, 2.0, 1.0)) and not cache.rests


@pytest.mark.parametrize("by_a_backend", [False, True])
def test_a_call_that_compiles_is_not_counted(clock, by_a_backend):
    """One more graph that runs as captured is compared with the others; a backend's code is new."""
    cache = ContestHost()
    contest = Contest(lambda: cache)
    for _ in range(2 * economy.PAIRS + 1):  # each second call compiles
        calls(contest, clock, economy.SETTLED if not contest._comparing else 1, 2.0, 1.0)
        contest.begin()
        cache.compiles += 1
        cache.compiled_graphs += by_a_backend
        clock.now += 0.1
        contest.end(None)
    assert bool(cache.rests) is not by_a_backend


LONG = economy.SETTLED + 2 * economy.MORE_PAIRS


def test_a_tie_is_the_compiled_calls_if_a_backend_compiled_a_graph(clock):
    cache = ContestHost()
    cache.compiled_graphs = 1
    calls(Contest(lambda: cache), clock, LONG - 1, 1.0, 0.985)
    assert not cache.ended
    cache = ContestHost()
    cache.compiled_graphs = 1
    calls(Contest(lambda: cache), clock, LONG, 1.0, 0.985)
    assert cache.ended and not cache.rests


@pytest.mark.parametrize("eager", [0.985, 1.0, 1.015])
def test_a_tie_is_eagers_if_all_graphs_run_as_captured(clock, eager):
    cache = ContestHost()
    contest = Contest(lambda: cache)
    calls(contest, clock, LONG - 1, 1.0, eager)
    assert not cache.rests
    calls(contest, clock, 1, 1.0, eager)
    assert cache.rests == [economy.REST] and not cache.ended


def test_a_little_is_enough_if_eager_always_wins(clock):
    cache = ContestHost()
    calls(Contest(lambda: cache), clock, WHOLE, 1.0, 0.97)
    assert cache.rests and not cache.ended


@pytest.mark.parametrize("lost", [1, 4])
def test_a_little_that_eager_does_not_always_win_takes_more_pairs(clock, lost):
    cache, slow = ContestHost(), iter([0.96] * lost)
    cache.compiled_graphs = 1
    contest = Contest(lambda: cache)
    calls(contest, clock, economy.SETTLED, 1.0, 0.97)
    for number in range(2 * economy.MORE_PAIRS):
        eager = contest.begin()
        clock.now += 0.97 if eager else next(slow, 1.0)
        contest.end(None)
        assert not cache.rests or number == 2 * economy.MORE_PAIRS - 1
    assert (bool(cache.rests), cache.ended) == ((True, False) if lost == 1 else (False, True))


def test_graphs_that_wait_are_compiled_before_eager_has_won_for_good(clock):
    asked = []
    tier = Tier()
    tier.begin(lambda: asked.append(True))
    tier.wait(50.0)
    cache = ContestHost(tier)
    contest = Contest(lambda: cache)
    calls(contest, clock, WHOLE, 2.0, 1.0)  # 6 s in eager, and 44 s of rest
    assert cache.rests == [50 - economy.PAIRS] and not asked
    calls(contest, clock, 2 * economy.PAIRS, 2.0, 1.0)
    assert asked and tier.hot and len(cache.rests) == 1


LOSS = torch.ones((), requires_grad=True) * 2


def steps(contest, clock, number, compiled, eager, result=LOSS):
    """So many training steps: a forward pass, which takes no time in eager, and the rest of each
    step, which takes so long."""
    sides = []
    for _ in range(number):
        sides.append(contest.begin())
        clock.now += 0.0 if sides[-1] else 0.5
        contest.end(result)
        clock.now += eager if sides[-1] else compiled
    return sides


@pytest.mark.parametrize("result", [LOSS, {"loss": [1.0, LOSS]}, object()])
def test_with_compiled_gradients_whole_steps_are_compared(clock, result):
    for compiled, eager in ((1.0, 2.0), (2.0, 1.0)):
        cache = ContestHost()
        cache.compiled_graphs = 1
        contest = Contest(lambda: cache)
        steps(contest, clock, WHOLE, compiled, eager, result)
        assert not cache.ended and not cache.rests  # the last step has not ended
        contest.begin()
        assert (cache.ended, bool(cache.rests)) == (compiled < eager, compiled > eager)


def test_a_step_that_goes_on_while_calls_rest_is_not_measured(clock):
    cache = ContestHost()
    cache.compiled_graphs = 1
    contest = Contest(lambda: cache)
    steps(contest, clock, WHOLE + 1, 2.0, 1.0)
    assert cache.rests == [economy.REST]
    clock.now += 1000 * economy.REST  # calls in eager, which are not measured
    steps(contest, clock, 2 * economy.PAIRS, 2.0, 1.0)
    assert not cache.ended
    steps(contest, clock, 1, 2.0, 1.0)
    assert cache.rests == [economy.REST, 2 * economy.REST]


def test_evaluation_between_steps_of_training_begins_anew_and_then_ends(clock):
    cache = ContestHost()
    cache.compiled_graphs = 1
    contest = Contest(lambda: cache)
    for _ in range(economy.MOST_TURNS // 2 + 1):
        assert not cache.ended
        steps(contest, clock, 3, 1.0, 2.0)
        with torch.no_grad():
            calls(contest, clock, 3, 1.0, 2.0, LOSS.detach())
    assert cache.ended and not cache.rests


@pytest.mark.parametrize("result", [None, LOSS.detach(), (0.5, [LOSS.detach(), "loss"])])
def test_a_step_whose_backward_pass_is_within_the_call_is_compared_as_a_call(clock, result):
    cache = ContestHost()
    cache.compiled_graphs = 1
    calls(Contest(lambda: cache), clock, WHOLE, 2.0, 1.0, result)
    assert cache.rests and not cache.ended


def test_without_gradients_every_call_decides(clock):
    cache = ContestHost()
    cache.compiled_graphs = 1
    with torch.no_grad():
        calls(Contest(lambda: cache), clock, WHOLE, 2.0, 1.0, LOSS)
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


@pytest.mark.parametrize("how", [
    {"backend": "eager"}, {"backend": "autotune", "fullgraph": True}, {"backend": "autotune", "mode": "reduce-overhead"},
])  # fmt: skip
def test_only_the_default_compares(how):
    assert framejit.compile(lambda x: x + 1, **how).contest is None


def test_comparing_can_be_switched_off():
    with framejit.config.patch(compare_calls=False):
        assert framejit.compile(with_breaks, backend="autotune").contest is None


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


class Entry:
    def __init__(self, hits):
        self.hits = hits


def test_iterations_get_code_as_long_as_that_serves_again():
    assert has_room([Entry(1)] * (economy.EARLY_ENTRIES - 1))
    assert not has_room([Entry(1)] * economy.EARLY_ENTRIES)
    assert has_room([Entry(5)] * economy.EARLY_ENTRIES)


def test_a_stack_of_layers_around_breaks_settles():
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(20))

    def f(x):
        for layer in layers:
            print(end="")
            x = layer(x)
        return x

    events = []
    with framejit.config.patch(sinks=(events.append,), compile_share=float("inf")):
        handle = framejit.compile(f, backend="eager")
    x = torch.ones(2, 4)
    for _ in range(6):
        torch.testing.assert_close(handle(x), f(x))
    settled = sum(isinstance(event, CompileStarted) for event in events)
    handle(x)
    assert sum(isinstance(event, CompileStarted) for event in events) == settled


def test_frames_without_tensor_work_are_captured_ever_more_rarely():
    frame = IdleFrame()
    captured = []
    for call in range(100):
        if frame.may_capture():
            captured.append(call)
            frame.found_nothing()
    assert captured == [0, 1, 2, 3, 7, 23, 87]


def test_a_frame_whose_breaks_lead_to_no_tensor_work_is_left_to_python():
    def describe(names):
        found = []
        for number, name in enumerate(names):
            print(end="")
            found.append(name * number)
            memo[name, number] = len(found)
        return found

    def f(x, names):
        return x + len(describe(names))

    memo = {}
    names = [f"name{number}" for number in range(60)]
    handle = framejit.compile(f, backend="eager")
    for _ in range(3):
        memo.clear()
        assert torch.equal(handle(torch.ones(2), names), torch.ones(2) + 60)
        assert len(memo) == 60
    assert handle.framejit.compiles <= economy.IDLE_RESTS + 12
    assert str(handle.framejit.explain().details()).count("has no tensor operations") == 1


def test_a_frame_with_tensor_work_behind_many_breaks_is_compiled():
    def f(x, chatty):
        if chatty:
            for number in range(30):
                print(end="")
                chatty.append(number)
        return x.sin() + 1

    handle, x = framejit.compile(f, backend="eager"), torch.ones(2)
    for chatty in ([], [1], [1], []):
        assert torch.equal(handle(x, chatty), x.sin() + 1)
    assert any(capture.ops for capture in handle.framejit.explain().captures)
