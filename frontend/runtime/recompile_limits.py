"""Decides about a call that no entry serves: compile again, more generally, no more, or raise.

In: the failures of a site's entries. Out: a decision. Uses no locks and no bytecode.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ...errors import FramejitError, RecompileError, RecompileLimitError
from ...guards.failure import Failure
from ...guards.guard import Kind
from ...guards.source import FrameView, PathEnds
from ...options import Options
from ...records import record
from ..tracing.sizes.variation import VARIES, Variation

ENTRIES_OF_NEW_CLASSES = 2  # of a site, that were made for classes which are gone


class RecompileDecision(Enum):
    """What to do with the call. LATER: it runs in eager, with everything that it calls; a later one
    may compile. LIMIT and ITERATIONS: it and all later calls that no entry serves run in eager; the
    value is the name of the option that limits."""

    COMPILE = ""
    LIMIT = "recompile_limit"
    ITERATIONS = "unroll_iterations"
    LATER = "later"

    @property
    def option(self) -> str:
        return self.value


@record
class Misses:
    """Why a site's entries do not serve a call. `failures`: of the entries that were not made for
    another loop iteration; if all were (`for_iteration`), of the most recently used one. `left`:
    the remaining iterations, if these are too many for an entry each, so that all entries count.
    `room`: whether another iteration may get an entry (recompile_policy.has_room)."""

    entries: int
    failures: Sequence[Failure]
    for_iteration: bool = False
    left: int = 0
    room: bool = True


def decide(
    name: str, options: Options, stance: str, misses: Misses, variation: Variation, frame: FrameView
) -> RecompileDecision:
    """Raises RecompileError or RecompileLimitError where the user asked for that. A loop iteration
    that needs its own entry may have as many entries as another site, and at most as many
    iterations get entries as a graph unrolls."""
    reason = f"; last miss: {misses.failures[0]}" if misses.failures else ""
    own = 0 if misses.for_iteration else len(misses.failures)
    if stance == "fail_on_recompile":
        raise RecompileError(
            f"{name} would be compiled under the stance 'fail_on_recompile'{reason}"
        )
    if options.error_on_recompile and own:
        raise RecompileError(f"{name} would be compiled again (config.error_on_recompile){reason}")
    if own < options.recompile_limit:
        limit = RecompileDecision.ITERATIONS
        most = max(options.recompile_limit, options.unroll_iterations)
    else:
        limit, most = RecompileDecision.LIMIT, options.recompile_limit
    if misses.for_iteration and not misses.room:
        return RecompileDecision.LATER
    raises = options.fail_on_recompile_limit_hit or options.fullgraph
    if own >= ENTRIES_OF_NEW_CLASSES and not raises and needs_new_classes(misses.failures, frame):
        return RecompileDecision.LIMIT
    if misses.entries < most or generalise(misses.failures, variation, options, frame):
        return RecompileDecision.COMPILE
    if raises:
        raise limit_error(name, limit.option, most, reason)
    return limit


def needs_new_classes(failures: Sequence[Failure], frame: FrameView) -> bool:
    """Whether each entry is for another class of the same name, as a `class` statement in the
    function makes one in each call: the next entry would not be used again, either."""
    return all(is_another_class_of_that_name(failure, frame) for failure in failures)


def is_another_class_of_that_name(failure: Failure, frame: FrameView) -> bool:
    """Whether a guard failed because a class was defined anew: another class object of the same
    name."""
    guard = failure.guard
    if guard is None or guard.kind not in (Kind.IS, Kind.TYPE):
        return False
    try:
        found = guard.source.load(frame)
    except (PathEnds, AttributeError):
        return False
    expected, cls = guard.expected, found if guard.kind is Kind.IS else type(found)
    return (
        isinstance(expected, type)
        and isinstance(cls, type)
        and cls is not expected
        and (cls.__module__, cls.__qualname__) == (expected.__module__, expected.__qualname__)
    )


def limit_error(name: str, option: str, limit: int, reason: str) -> FramejitError:
    return RecompileLimitError(
        f"{name} would need more than {limit} entries (config.{option}){reason}"
    )


def generalise(
    failures: Sequence[Failure], variation: Variation, options: Options, frame: FrameView
) -> bool:
    """Makes the numbers, texts and sizes that failed dynamic, for one more compile. False if all of
    them are dynamic already, or cannot be."""
    if options.dynamic is False or not options.automatic_dynamic_shapes:
        return False
    return any([loosen(failure, variation, options, frame) for failure in failures])


def loosen(failure: Failure, variation: Variation, options: Options, frame: FrameView) -> bool:
    """Whether a failed guard specialised a number or text that can be dynamic."""
    guard = failure.guard
    if guard is None:
        return False
    if guard.kind is Kind.EQUALS and type(guard.expected) in (int, float, str):
        fixed = {int: options.specialize_int, float: options.specialize_float}
        if fixed.get(type(guard.expected)) or variation.numbers.get(guard.source, VARIES) is VARIES:
            return False
        variation.expect_number(guard.source)
        return True
    if guard.kind is not Kind.TENSOR:
        return False
    try:
        sizes = tuple(guard.source.load(frame).shape)
    except (PathEnds, AttributeError):
        return False
    known = variation.sizes.get(guard.source)
    if known is None or len(known) != len(sizes):
        return False
    varied = [
        dim
        for dim, (old, new) in enumerate(zip(known, sizes, strict=True))
        if old is not None and old != new
    ]
    if varied:
        variation.expect_dims(guard.source, len(sizes), varied)
    return bool(varied)
