"""Measures candidates side by side, in rounds, so that a drift of the machine's speed affects all
alike. Ends when it is clear which is the fastest, or when the time is over."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

WARM_UPS = 3  # warm-up calls: CUDA graphs run, record and replay in their first three calls
# A call that takes so many seconds is warm after two of them, unless it is recorded.
SLOW_S, SLOW_WARM_UPS = 0.02, 2
SAMPLE_S = 2e-4  # seconds of a sample: as many calls as fill it
MOST_REPEATS = 100
LEAST_ROUNDS, MOST_ROUNDS = 7, 60
SLOW_ROUNDS = 2  # at least, of slow calls; their last warm-ups are one
# a candidate that is slower by this factor, in its best of several calls, is dropped at its warm-up
HOPELESS = 3.0
SECOND_CHANCES = 5
NOTICEABLE_S = 1e-3


@dataclass
class Timing:
    """The samples of one candidate, in seconds a call. `failure`: why it was excluded. `warm_s`:
    seconds of its last warm-up call."""

    samples: list[float] = field(default_factory=list)
    repeat: int = 1
    failure: str = ""
    warm_s: float = math.inf

    @property
    def seconds(self) -> float:
        return statistics.median(self.samples)

    @property
    def seconds_roughly(self) -> float:
        """Seconds a call, of a candidate that was excluded as too slow as well."""
        return self.seconds if self.samples else self.warm_s

    @property
    def spread(self) -> float:
        """About twice the standard error of the median."""
        middle = self.seconds
        deviation = statistics.median(abs(sample - middle) for sample in self.samples)
        return 2 * 1.86 * deviation / len(self.samples) ** 0.5


@dataclass(frozen=True)
class Stopwatch:
    """wait: returns when the device has finished. reset: restores the inputs before each sample,
    which then consists of one call; it is not timed. None if calls can be repeated without it."""

    wait: Callable[[], None]
    reset: Callable[[], None] | None = None

    def repeats(self, spent: float) -> int:
        """How many calls of so many seconds one sample takes."""
        if self.reset is not None:
            return 1
        return max(1, min(MOST_REPEATS, int(SAMPLE_S / max(spent, 1e-9))))

    def sample(self, call: Callable[[], object], repeat: int) -> float:
        """Seconds that a call takes."""
        if self.reset is not None:
            self.reset()
        self.wait()
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        self.wait()
        return (time.perf_counter() - start) / repeat


def measure(
    calls: dict[str, Callable[[], object]],
    stopwatch: Stopwatch,
    budget_s: float,
    slow_warm_ups: int = SLOW_WARM_UPS,
    warm_ups: int = WARM_UPS,
) -> dict[str, Timing]:
    """Times each call. The first of `calls` is the reference. warm_ups: calls of each before the
    first round; slow_warm_ups: the same of one that takes long. Warm-up calls and a few rounds take
    place even if budget_s is used up."""
    end = time.perf_counter() + budget_s
    timed = {name: Timing() for name in calls}
    for name, call in calls.items():
        best = min(
            (other.samples[0] for other in timed.values() if other.samples), default=float("inf")
        )
        warm_up(timed[name], call, stopwatch, best, slow_warm_ups, warm_ups)
    running = [name for name in calls if timed[name].samples and not timed[name].failure]
    slow = all(timed[name].samples[0] >= SLOW_S for name in running)
    for one in timed.values():
        kept = len(running) < 2 or (slow and not one.failure)
        one.samples = one.samples if kept else []
    rounds, least = (1, SLOW_ROUNDS) if slow else (0, LEAST_ROUNDS)
    while (
        len(running) > 1 and rounds < MOST_ROUNDS and (rounds < least or time.perf_counter() < end)
    ):
        for name in running[rounds % len(running) :] + running[: rounds % len(running)]:
            timed[name].samples.append(stopwatch.sample(calls[name], timed[name].repeat))
        rounds += 1
        if rounds >= LEAST_ROUNDS:
            running = contenders(timed, running)
        if time.perf_counter() > end + budget_s:
            break
    return timed


def warm_up(
    timed: Timing,
    call: Callable[[], object],
    stopwatch: Stopwatch,
    best: float,
    slow_warm_ups: int,
    warm_ups: int,
) -> None:
    """Makes a candidate's first calls and times the last one. Excludes a candidate that fails or is
    far too slow."""
    try:
        spent = 0.0
        for number in range(warm_ups):
            spent = stopwatch.sample(call, 1)
            if number + 1 >= slow_warm_ups and spent >= SLOW_S:
                break
        for _ in range(SECOND_CHANCES):
            if not is_hopeless(spent, best):
                break
            spent = min(spent, stopwatch.sample(call, 1))  # the machine may have been busy
    except Exception as error:  # an error of a candidate: it is rejected, and the program goes on
        timed.failure = f"{type(error).__name__}: {error}"
        return
    timed.samples, timed.warm_s = [spent], spent
    timed.repeat = stopwatch.repeats(spent)
    if is_hopeless(spent, best):
        timed.failure = f"{spent * 1e3:.3g} ms a call, {spent / best:.1f} times as slow as another"


def is_hopeless(spent: float, best: float) -> bool:
    return spent > HOPELESS * best and spent > NOTICEABLE_S


def contenders(timed: dict[str, Timing], running: list[str]) -> list[str]:
    """The candidates that may still turn out to be the fastest."""
    limit = min(timed[name].seconds + timed[name].spread for name in running)
    return [name for name in running if timed[name].seconds - timed[name].spread <= limit]
