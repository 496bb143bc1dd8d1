"""What a report tells of times: that everything is counted once, at the right place, and that
measuring changes nothing else."""

from __future__ import annotations

import threading

import framejit
import pytest
import torch
from framejit.frontend.runtime import _hook
from framejit.frontend.runtime.probe import Probe

X = torch.arange(3.0)


def two_breaks(x, seen):
    y = x.sin()
    seen.append("one")
    framejit.graph_break()
    z = y + 1
    framejit.graph_break()
    return z * 2


def in_a_loop(x, times):
    for _ in range(times):
        x = x + 1
        framejit.graph_break()
    return x


def raises(x, fail):
    y = x + 1
    try:
        int("none" if fail else "1")
        framejit.graph_break()
    except ValueError:
        y = y * 2
    framejit.graph_break()
    return y + 1


@framejit.disable
def leaves():
    raise KeyError("mine")


def is_left(x, leave):
    y = x + 1
    if leave:
        leaves()
    framejit.graph_break()
    return y * 2


def passes(report):
    return [one.passes for one in report.breaks]


def test_every_pass_is_counted_and_side_effects_happen_once_a_call():
    seen = []
    report = framejit.explain(two_breaks)(X, seen)
    assert seen == ["one"] and passes(report) == [1, 1]
    report = framejit.explain(two_breaks, calls=5)(X, seen)
    assert seen == ["one"] * 6 and passes(report) == [5, 5]
    assert [capture.runs for capture in report.captures] == [5, 5, 5]
    assert all(one.lost >= 0 and one.work >= 0 for one in report.breaks)
    assert report.lost_seconds == sum(one.lost * 5 for one in report.breaks)
    with pytest.raises(ValueError, match="calls must be at least 1"):
        framejit.explain(two_breaks, calls=0)


def test_a_loops_break_is_passed_in_each_turn():
    assert sum(passes(framejit.explain(in_a_loop, calls=3)(X, 4))) == 12


def test_exceptions_do_not_confuse_it():
    probe = Probe()
    with framejit.config.patch(probe=probe):
        compiled = framejit.compile(raises)
        left = framejit.compile(is_left)
    for fail in (False, True, False, True):
        assert torch.equal(compiled(X, fail), raises(X, fail))
    for leave in (False, True, True, False):
        if leave:
            with pytest.raises(KeyError):
                left(X, True)
        else:
            assert torch.equal(left(X, False), is_left(X, False))
    compiled(X, False)
    assert probe.thread.in_progress == []
    assert passes(compiled.framejit.explain())[-1] == 5
    assert passes(left.framejit.explain()) == [2, 0], "what an exception leaves is not passed"


def test_calls_inside_a_statement_are_calls_of_their_own():
    def inner(x):
        y = x + 1
        framejit.graph_break()
        return y * 2

    def outer(x, call):
        y = x.sin()[0:3]  # generated code holds the slice, which does not hash
        z = call(y)
        return z.cos()

    probe = Probe()
    with framejit.config.patch(probe=probe):
        compiled, outer_compiled = framejit.compile(inner), framejit.compile(outer)
    hidden = framejit.disable(lambda x: compiled(x), recursive=False)
    for _ in range(3):
        assert torch.equal(outer_compiled(X, hidden), outer(X, inner))
    assert probe.calls.all_times == 3 and probe.thread.in_progress == []
    assert sum(tally.work.all_times for tally in probe.breaks.values()) == 6


def test_a_live_function_is_measured_without_a_reset():
    handle = framejit.compile(two_breaks)
    seen = []
    for _ in range(3):
        handle(X, seen)
    before, root = handle.framejit.explain(), handle.framejit.cache.root
    entries, compiles = root.entries, handle.framejit.compiles
    assert (
        len(seen) == 3
        and before.breaks[0].passes is None
        and before.lost_seconds is None
        and before.times.graphs is None
    )
    with handle.framejit.measure():
        for _ in range(4):
            handle(X, seen)
    assert root.entries == entries and handle.framejit.compiles == compiles + 3 and len(seen) == 7
    report = handle.framejit.explain()
    assert passes(report) == [4, 4] and report.times.graphs > 0 and len(seen) == 7
    handle(X, seen)
    assert handle.framejit.compiles == compiles + 3 and passes(handle.framejit.explain()) == [
        4,
        4,
    ], "not measured any more"


def test_code_that_nobody_measures_calls_no_marks():
    handle = framejit.compile(two_breaks)
    handle(X, [])

    def constants(handle):
        sites = handle.framejit.cache.sites()
        return [const for site in sites for entry in site.entries for const in entry.code.co_consts]

    assert not any(
        isinstance(const, _hook.Quiet) and "Probe" in repr(const.wrapped)
        for const in constants(handle)
    )
    with handle.framejit.measure():
        handle(X, [])
        assert any(
            isinstance(const, _hook.Quiet) and "Probe" in repr(const.wrapped)
            for const in constants(handle)
        )


def test_phases_and_running_are_all_of_the_call():
    report = framejit.explain(two_breaks)(X, [])
    parts = report.times.parts
    assert {
        "trace",
        "fake_tensors",
        "codegen",
        "backend",
        "guards",
        "graphs",
        "python",
        "measuring",
    } <= set(parts)
    assert all(spent >= 0 for spent in parts.values()) and sum(parts.values()) <= report.times.wall
    assert sum(report.times.shares.values()) == pytest.approx(1)
    assert set(report.times.shares) == {"compiling", "compiled code", "Python", "measuring"}


def test_guards_have_their_costs():
    (capture,) = framejit.explain(lambda x, n: x * n)(X, 3).captures
    assert capture.check_seconds >= 0
    assert all((check.seconds is None) == check.watched for check in capture.checks)
    assert any(check.seconds is not None for check in capture.checks)


def test_threads_have_chains_of_their_own():
    probe = Probe()
    with framejit.config.patch(probe=probe):
        compiled = framejit.compile(two_breaks)
    compiled(X, [])
    results = []
    threads = [
        threading.Thread(target=lambda: results.extend(compiled(X, []) for _ in range(20)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, two_breaks(X, [])) for one in results)
    assert [tally.lost.all_times for tally in probe.breaks.values()] == [81, 81]
