"""Compares whole calls of a handle, compiled and in eager.

With the default backend, a handle should not be slower than eager. The autotuner measures graphs;
what is around them (guards, breaks, side effects) is measured by running some calls in eager.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_leaves

from ...tier import Tier

SETTLED = 4  # calls in a row without a compile, before calls are compared
FEW_PAIRS = 4  # calls compared on each side, if no backend has compiled anything
PAIRS = 6  # the same, if a backend has
MORE_PAIRS = 12  # the same, if the first ones do not decide
# After so many pairs: one side is faster if its median is below this fraction of the other's, and
# it has won so many of the pairs (whose inputs may have different sizes).
VERDICTS = {FEW_PAIRS: ((0.95, 4),), PAIRS: ((0.95, 5), (0.98, 6)), MORE_PAIRS: ((0.98, 9),)}
REST = 64  # calls in eager until the next comparison, at least; doubled each time
MOST_COMPARING = 0.02  # the part of the time that the next comparison may cost
MOST_RESTS = 10  # doublings
MOST_PRECISE_S = 1e-7  # no call takes less
MOST_SWITCHES = 8  # between training and evaluation, before nothing is compared
PLAIN = (int, float, str, type(None))  # results that hold no tensor


class ComparedCache(Protocol):
    """The interface that a comparison needs of a handle's cache."""

    compiles: int

    @property
    def compiled_graphs(self) -> int: ...  # by a backend, so far
    def tiers(self) -> Iterable[Tier]: ...
    def report_rest_in_eager(self, compiled_s: float, eager_s: float, calls: int) -> None: ...
    def end_comparison(self) -> None: ...
    def run_in_eager(self, calls: int) -> None: ...


class CallComparison:
    """Compares calls of a handle, compiled and in eager, once nothing is compiled any more. `begin`
    and `end` are called around each measured call (handle.c).

    Where a backward pass may follow that was compiled too, what is compared are steps: the time
    from the beginning of one call to that of the next. Compiled and eager calls take turns as in
    ABBA, so that with two calls a step neither always has the same one.

    Calls with gradients and calls without, as of training and evaluation that take turns, are
    compared apart; the first verdict decides for both.

    A tie goes to the compiled calls if a backend has compiled a graph of theirs. If all graphs run
    as captured, it goes to eager, where nothing more is compiled, until waiting graphs are due; and
    fewer pairs decide, as a wrong verdict costs little. Where compiling them would not save what
    the calls are slower by, they are not compiled."""

    def __init__(self, measured: Callable[[], ComparedCache | None]) -> None:
        self._measured = measured  # weakly: the handle holds the comparison
        self._settled = self._rests = 0
        self._series = {False: Series(), True: Series()}  # by whether gradients are on
        self._current = self._series[False]
        self._spent_s = 0.0  # by calls in eager
        self._savable_s = 0.0  # by compiling graphs, when the comparison began
        self._compiles = self._graphs = -1
        self._thread, self._start = 0, 0.0
        self._eager = self._step_goes_on = False

    @property
    def _comparing(self) -> bool:
        return self._settled >= SETTLED

    def begin(self) -> bool:
        """Whether the call that begins runs in eager."""
        cache = self._measured()
        if cache is None:
            return False
        now, rests = self._now(), self._rests
        if self._step_goes_on and self._thread == threading.get_ident():
            self._take(cache, now - self._start)
        self._step_goes_on, self._thread = False, 0
        if self._rests > rests:
            return False  # the step that begins ends after calls that are not measured
        self._current = self._series[torch.is_grad_enabled()]
        if self._comparing and not any(map(any, self._current.samples.values())):
            self._savable_s = savable_s(cache)
        self._eager = self._comparing and self._current.next_is_eager
        self._compiles, self._graphs = cache.compiles, cache.compiled_graphs
        self._thread, self._start = threading.get_ident(), now
        return self._eager

    def end(self, result: Any) -> None:
        """Called with the result of the call."""
        cache = self._measured()
        if cache is None or self._thread != threading.get_ident():
            return
        whole_steps = cache.compiled_graphs > 0 and may_go_backward(result)
        if self._current.switch_to(whole_steps) > MOST_SWITCHES:
            cache.end_comparison()
        if whole_steps:
            self._step_goes_on = True
        else:
            took, self._thread = self._now() - self._start, 0
            self._take(cache, took)

    def _take(self, cache: ComparedCache, took: float) -> None:
        """Records the seconds of a call, or of a step. One that compiled something is not
        counted."""
        if cache.compiles != self._compiles:
            if not self._comparing or cache.compiled_graphs != self._graphs:
                self._restart()
        elif not self._comparing:
            self._settled += 1
        else:
            self._current.samples[self._eager].append(took)
            compiled, eager = self._current.samples[False], self._current.samples[True]
            if len(compiled) == len(eager) and len(eager) in VERDICTS:
                self._judge(cache, compiled, eager)

    def _now(self) -> float:
        if self._comparing and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter()

    def _restart(self) -> None:
        self._settled = 0
        for series in self._series.values():
            series.clear()

    def _judge(self, cache: ComparedCache, compiled: list[float], eager: list[float]) -> None:
        """Ends the comparison if one side is faster; after the first pairs of calls, only if it is
        clearly faster."""
        by_a_backend = cache.compiled_graphs > 0
        if by_a_backend and len(eager) == FEW_PAIRS:
            return
        if is_faster(eager, compiled):
            self._switch_to_eager(cache, compiled, eager)
        elif is_faster(compiled, eager):
            if len(eager) > FEW_PAIRS:
                cache.end_comparison()
        elif len(eager) < (MORE_PAIRS if by_a_backend else PAIRS):
            return
        elif by_a_backend:
            cache.end_comparison()
        else:
            self._switch_to_eager(cache, compiled, eager)

    def _switch_to_eager(
        self, cache: ComparedCache, compiled: list[float], eager: list[float]
    ) -> None:
        """Calls run in eager for a while. If graphs have waited long enough for a backend, they are
        compiled instead."""
        fast, slow = statistics.median(eager), statistics.median(compiled)
        self._restart()
        self._settled = SETTLED
        self._spent_s += sum(eager)
        saved = (savable_s(cache) - self._savable_s) / len(compiled)
        waiting = [tier for tier in cache.tiers() if tier.due_s > 0 and slow - saved < fast]
        left_s = sum(tier.due_s for tier in waiting) - self._spent_s
        if waiting and left_s <= 0:
            for tier in waiting:
                tier.promote()
            self._restart()
            self._rests = 0
            return
        cost = len(compiled) * max(slow / max(fast, MOST_PRECISE_S) - 1, 0.0)  # in calls in eager
        calls = max(REST, math.ceil(cost / MOST_COMPARING)) << min(self._rests, MOST_RESTS)
        if waiting:
            calls = min(calls, math.ceil(left_s / max(fast, MOST_PRECISE_S)))
        self._rests += 1
        self._spent_s += calls * fast
        if self._rests == 1:
            cache.report_rest_in_eager(slow, fast, calls)
        cache.run_in_eager(calls)


def savable_s(cache: ComparedCache) -> float:
    """Seconds that compiling graphs which wait would have saved so far."""
    return sum(tier.savable_s for tier in cache.tiers())


class Series:
    """The seconds of calls, or of steps, that are compared with each other."""

    def __init__(self) -> None:
        self.samples: dict[bool, list[float]] = {False: [], True: []}  # by whether in eager
        self._whole_steps = False
        self._switches = 0  # from calls to whole steps, or back

    @property
    def next_is_eager(self) -> bool:
        return sum(map(len, self.samples.values())) % 4 in (1, 2)

    def switch_to(self, whole_steps: bool) -> int:
        """Takes whether whole steps are measured from now on; calls and steps are not mixed.
        Returns how often that changed."""
        if whole_steps != self._whole_steps:
            self._whole_steps, self._switches = whole_steps, self._switches + 1
            self.clear()
        return self._switches

    def clear(self) -> None:
        self.samples = {False: [], True: []}


def is_faster(times: Sequence[float], others: Sequence[float]) -> bool:
    """Whether calls that took `times` are faster, beyond doubt, than those that took `others` and
    alternated with them."""
    wins = sum(one < other for one, other in zip(times, others, strict=True))
    typical, other = statistics.median(times), statistics.median(others)
    return any(typical < part * other and wins >= least for part, least in VERDICTS[len(times)])


def may_go_backward(result: Any) -> bool:
    """Whether the caller may start a backward pass from a call's result. A complete training step
    returns numbers and detached tensors."""
    return torch.is_grad_enabled() and any(
        item.requires_grad if isinstance(item, torch.Tensor) else not isinstance(item, PLAIN)
        for item in tree_leaves(result)
    )
