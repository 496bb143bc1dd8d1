"""Candidates are measured in rounds; slow ones are called a few times only."""

from __future__ import annotations

import time

import pytest
from framejit.backends.autotune.choose import choose
from framejit.backends.autotune.measure import (
    LEAST_ROUNDS,
    WARM_UPS,
    Stopwatch,
    Timing,
    measure,
)


def calls_of(**seconds):
    """Functions that sleep, and how often each was called."""
    counts = dict.fromkeys(seconds, 0)

    def sleeping(name):
        def call():
            counts[name] += 1
            time.sleep(seconds[name])

        return call

    return {name: sleeping(name) for name in seconds}, counts


@pytest.mark.parametrize("warm_ups", [2, WARM_UPS])
def test_slow_calls_are_few_where_the_time_is_over(warm_ups):
    calls, counts = calls_of(eager=0.06, native=0.03)
    timed = measure(calls, Stopwatch(lambda: None), 0.0, warm_ups)
    assert counts == {"eager": warm_ups + 1, "native": warm_ups + 1}
    assert [len(one.samples) for one in timed.values()] == [2, 2]
    assert choose(timed, "eager") == "native"


def test_slow_calls_are_measured_until_the_time_is_over():
    calls, counts = calls_of(eager=0.03, native=0.03)
    measure(calls, Stopwatch(lambda: None), 0.4)
    assert counts["eager"] > 3


def test_quick_calls_are_measured_in_rounds():
    calls, _ = calls_of(eager=2e-4, native=1e-4)
    timed = measure(calls, Stopwatch(lambda: None), 1.0)
    assert all(len(one.samples) >= LEAST_ROUNDS for one in timed.values())
    assert choose(timed, "eager") == "native"


def test_a_hopeless_call_is_out():
    calls, counts = calls_of(eager=0.02, native=0.2)  # far apart, for busy machines
    timed = measure(calls, Stopwatch(lambda: None), 0.3)
    assert "times as slow" in timed["native"].failure
    assert choose(timed, "eager") == "eager"


def test_where_sizes_vary_the_fastest_code_is_chosen_and_then_whether_it_is_recorded():
    def timing(seconds):
        return Timing([seconds] * LEAST_ROUNDS, warm_s=seconds)

    hopeless = Timing(failure="3 times as slow as another", warm_s=3.0)
    timed = {
        "eager": timing(8.0),
        "cudagraphs": timing(1.7),
        "native": hopeless,
        "native+cudagraphs": timing(1.9),  # for want of room it was measured unrecorded, say
    }
    assert choose(timed, "eager") == "cudagraphs"
    assert choose(timed, "eager", varies=True) == "native+cudagraphs"
    timed["native"] = timing(9.0)
    assert choose(timed, "eager", varies=True) == "cudagraphs"
    del timed["native"]
    assert choose(timed, "eager", varies=True) == "cudagraphs"
