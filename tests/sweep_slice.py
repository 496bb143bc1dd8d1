"""Which cases of long tables run: a slice of each, another one at each commit and on each Python.

FRAMEJIT_SWEEP=all runs every case. FRAMEJIT_SWEEP_SLICE repeats the slice of a number, which is in
the last lines of a run.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import pytest

WHOLE = os.environ.get("FRAMEJIT_SWEEP") == "all"
# Parameters that run one program in several ways. Where a test crosses one of these with others, a
# slice of the product runs without a mark, too: each value of each parameter, one case of five.
WAYS = {"backend", "dynamic", "grad", "layout", "training"}
PRODUCT = 8  # cases; smaller products run whole
SLICES = 5040  # slices are told apart by a number below this; every step up to 10 divides it


def slice_number() -> int:
    """The number that is asked for, or one that the commit and Python's version give."""
    asked = os.environ.get("FRAMEJIT_SWEEP_SLICE")
    if asked:
        return int(asked)
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        said = "0"  # tests without their repository
    return (int(said.strip(), 16) + sys.version_info.minor) % SLICES


NUMBER = slice_number()


def one_of(step: int, cases: Iterable[Any]) -> list[Any]:
    """One of `step` cases in the order of the table; at least one. They are counted out in a mixed
    order: in a product of two and three ways, each third case is of the same way."""
    cases = list(cases)
    if WHOLE or not cases:
        return cases
    mixed = random.Random(0).sample(range(len(cases)), len(cases))
    return [cases[at] for at in sorted(mixed[NUMBER % min(step, len(cases)) :: step])]


def few_or_all(few: int, many: int) -> int:
    """How many random cases run: a few, or the many of a whole run."""
    return many if WHOLE else few


def few_of(few: int, many: int) -> range:
    """Which of `many` random cases run: a few behind each other, or all."""
    if WHOLE:
        return range(many)
    start = NUMBER % (many // few) * few
    return range(start, start + few)


def covering(step: int, each: tuple[str, ...], items: list[Any]) -> list[Any]:
    """One of `step` cases of a parametrized test, and as many more that each value of the
    parameters named `each` has a case."""
    kept = one_of(step, items)
    seen = {key for item in kept for key in values_of(item, each)}
    for item in items[NUMBER % len(items) :] + items[: NUMBER % len(items)]:
        new = values_of(item, each) - seen
        if new:
            kept.append(item)
            seen |= new
    return sorted(kept, key=items.index)


def values_of(item: Any, each: tuple[str, ...]) -> set[tuple[str, type, Any]]:
    """A case's values of some parameters."""
    values = [(name, item.callspec.params[name]) for name in each]
    return {
        (name, type(value), value if isinstance(value, Hashable) else repr(value))
        for name, value in values
    }


def left_out(items: list[pytest.Item], named: Iterable[str]) -> set[pytest.Item]:
    """The cases that are not of this run's slice. Tests that the command line names one by one all
    run."""
    if WHOLE or any("::" in name for name in named):
        return set()
    tests: dict[Any, list[Any]] = defaultdict(list)
    single: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            tests[item.nodeid.partition("[")[0]].append(item)
        elif item.get_closest_marker("sweep"):
            single[item.path].append(item)
    out: set[pytest.Item] = set()
    for cases in single.values():
        out |= set(cases) - set(one_of(cases[0].get_closest_marker("sweep").args[0], cases))
    for cases in tests.values():
        mark, crossed = cases[0].get_closest_marker("sweep"), tuple(cases[0].callspec.params)
        if mark:
            out |= set(cases) - set(covering(mark.args[0], mark.kwargs.get("each", ()), cases))
        elif len(cases) >= PRODUCT and len(crossed) > 1 and WAYS & set(crossed):
            out |= set(cases) - set(covering(5, crossed, cases))
    return out
