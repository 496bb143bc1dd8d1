"""RecompilePolicy: whether a handle compiles for a call that no entry serves, and what it reports
if it does not.

In: a site, the call's arguments, the handle's calls so far. Out: a decision. Limits are in
recompile_limits.py, the time that compiling may take is in account.py, texts for the user are in
recompile_warnings.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import warn_user
from ...events import Balance, Change, Full, Miss, Sink, Skipped
from ...guards.failure import Failure
from ...guards.kinds import kind_of
from ...options import Options
from ._hook import Site, stance
from .account import ITERATIONS, Account
from .recompile_limits import Misses, RecompileDecision, decide
from .recompile_warnings import compiling_text, limit_text
from .unserved_call import UnservedCall
from .unused_entries import UNUSED, UnusedEntries

EARLY_ENTRIES = 8  # that a site in a loop may have before any of them has served a second call
HISTORY = 256  # misses that a handle remembers
# A guard that failed when the call came and does not any more.
UNKNOWN = Failure(None, "something", "so", "otherwise for a moment")


class RecompilePolicy:
    """The misses of one handle, its account, and the sites that have been refused an entry."""

    def __init__(self, options: Options, send: Sink) -> None:
        self._options, self._send = options, send
        self.misses: deque[Miss] = deque(maxlen=HISTORY)
        self._postponed: set[Site] = set()  # sites of which the user knows
        self.reset()

    def reset(self) -> None:
        """Begins a new account; the misses are kept."""
        options = self._options
        self.account = Account(options.compile_share, options.compile_budget, options.is_economical)
        self._postponed.clear()
        holds_back = options.is_economical and options.compile_budget is None
        self._unused = UnusedEntries() if holds_back else None

    def must_wait(self, call: UnservedCall) -> bool:
        """Whether nothing may be compiled now, whatever the call needs; reports it to the user.
        Code whose graph has run for long enough is compiled in any case, as is what leaves a `with`
        block (CompileUnit), and under the stance "fail_on_recompile" the call goes on, to raise the
        error."""
        unit = call.unit
        if unit.tier.hot or unit.leaves_context or stance() == "fail_on_recompile":
            return False
        if not self.account.may_begin(len(call.site.entries), call.calls):
            self._postpone(call, self.account.refusal_of_graphs)
            return True
        return self._unused is not None and self._unused.must_wait(call.site)

    def report_misses(self, call: UnservedCall) -> Misses:
        """Why each of the site's entries, the one used last first, cannot serve this call."""
        unit, frame, entries = call.unit, call.frame, call.site.entries
        found = [
            (entry.data, entry.program.first_failure(frame.slots, frame.function))
            for entry in entries
        ]
        another = unit.iterations.made_for_another
        own = [
            (program, step)
            for program, step in found
            if not another(program.guards, program.guard_of(step), frame)
        ]
        left = unit.iterations.iterations_left(frame) if len(own) < len(found) else 0
        if left > self._options.unroll_iterations:
            own = found
        failures = [program.failure(step, frame) or UNKNOWN for program, step in own or found[:1]]
        for_iteration = not own
        if failures:
            miss = Miss(
                unit.name,
                unit.start if for_iteration else unit.where,
                tuple(map(change_record, failures)),
                for_iteration,
            )
            self.misses.append(miss)
            self._send(miss)
        return Misses(
            len(found),
            failures,
            for_iteration,
            left if own is found else 0,
            not for_iteration
            or self.account.compiles_all(call.calls, unit.in_python_loop)
            or has_room(entries),
        )

    def decide(self, call: UnservedCall, misses: Misses) -> RecompileDecision:
        """Decides about a call. Raises where the user asked for it (see decide in
        recompile_limits.py), and reports to the user where the call is not compiled."""
        unit = call.unit
        decision = decide(unit.name, self._options, stance(), misses, unit.variation, call.frame)
        reason = self._reason_to_postpone(decision, call, misses)
        if reason:
            self._postpone(call, reason)
            return RecompileDecision.LATER
        if decision is not RecompileDecision.COMPILE:
            self._stop(call, misses, decision)
        return decision

    def _reason_to_postpone(
        self, decision: RecompileDecision, call: UnservedCall, misses: Misses
    ) -> str:
        """Why the call runs in eager although no limit is reached: a later one may compile. "" to
        follow the decision."""
        if decision is RecompileDecision.LATER:
            return ITERATIONS
        if decision is not RecompileDecision.COMPILE:
            return ""
        if not self.account.may_compile(misses.entries, call.calls):
            return self.account.refusal
        if self._unused is None or misses.for_iteration or call.unit.tier.hot:
            return ""
        return UNUSED if self._unused.hold_back(call.site) else ""

    def _postpone(self, call: UnservedCall, reason: str) -> None:
        """Reports once, until the site is cleared, why it gets no further entry."""
        if call.site not in self._postponed:
            self._postponed.add(call.site)
            self._send(Skipped(call.unit.name, call.unit.where, reason))

    def _stop(self, call: UnservedCall, misses: Misses, limit: RecompileDecision) -> None:
        """The site has reached a limit: calls that no entry serves run in eager from now on."""
        site, unit = call.site, call.unit
        site.full = True
        site.gave_up = limit is RecompileDecision.LIMIT
        self._send(Full(unit.name, unit.where, misses.entries, limit.option, misses.left))
        if site.gave_up and self.account.warns_of_limits:
            warn_user(limit_text(unit.name, unit.where, misses.entries, self.misses), stacklevel=2)

    def warn_of_compiling(self, function: str, balance: Callable[[], Balance]) -> None:
        """Warns once of a handle that keeps compiling."""
        if self.account.warns_now():
            warn_user(compiling_text(function, balance(), self.misses), stacklevel=2)


def change_record(failure: Failure) -> Change:
    """The record of a guard that failed."""
    if failure.guard is None:
        return Change("", failure.what, failure.old, failure.new, "")
    return Change(
        kind_of(failure.guard).expression(failure.guard),
        failure.what,
        failure.old,
        failure.new,
        failure.guard.line,
    )


def has_room(entries: Iterable[Any]) -> bool:
    """Whether a site in a loop, where each iteration may need its own entry, gets one more: a few
    at first, then as many as have served calls again. A loop over a list of layers has all its
    entries after its first calls; one whose iterations never repeat stops compiling."""
    found = list(entries)
    return len(found) < EARLY_ENTRIES + sum(entry.hits > 1 for entry in found) * 2
