"""What is tried and kept where candidates cannot be recorded or time is over."""

from __future__ import annotations

import gc
import time
import weakref

import pytest
import torch
from framejit.backends.autotune import tuning
from framejit.backends.autotune.candidates import Choice
from framejit.backends.autotune.plan import TuningPlan
from framejit.backends.registry import Backend
from framejit.events import Chosen, Reporter


def sleeping(x):
    time.sleep(0.002)
    return x * 2


def quick(gm, example_inputs):
    """Faster than eager on a graph that sleeps."""
    return lambda *args: [args[0] * 2]


def slow_to_compile(gm, example_inputs):
    time.sleep(0.1)
    return quick(gm, example_inputs)


def unrecordable(below, at_call):
    """What recording makes of a backend's work that cannot be recorded: it says so at a call, and
    runs it."""

    def compile_recorded(gm, example_inputs, report):
        call, calls = below(gm, example_inputs), []

        def run(*args):
            calls.append(1)
            if len(calls) == at_call:
                report.send_recorded(False, "CUDA graphs: not recorded: a test")
            return call(*args)

        return run

    return compile_recorded


@pytest.fixture
def decide(monkeypatch):
    """Tunes a graph of one slow operation; the call that was chosen and how that was told."""

    def decide(backends, example=None, **plan):
        example = torch.ones(4) if example is None else example
        backends = [Backend(name, function) for name, function in backends.items()]
        monkeypatch.setattr(
            tuning, "lookup", {backend.name: backend for backend in backends}.__getitem__
        )
        graph, told = torch.fx.Graph(), []
        x = graph.placeholder("x")
        graph.output((graph.call_function(sleeping, (x,)),))
        x.meta["example_value"] = example
        gm, plan = (
            torch.fx.GraphModule({}, graph),
            TuningPlan(isolate=False, remember=False, **plan),
        )
        reporter, inputs = Reporter("f", "f.py:1", told.append), [example]
        call = tuning.Tuning(gm, inputs, plan, Choice(tuple(backends), ()), reporter).decide(inputs)
        (decision,) = (event for event in told if isinstance(event, Chosen))
        return call, decision

    return decide


@pytest.mark.parametrize("at_call", [1, 3], ids=["at its first run", "while it is measured"])
@pytest.mark.parametrize("below", [quick, slow_to_compile], ids=["in time", "no time left"])
def test_what_cannot_be_recorded_runs_without_recording(decide, at_call, below):
    compiled = []

    def plain(gm, example_inputs):
        compiled.append(True)
        return below(gm, example_inputs)

    call, decision = decide(
        {"plain+cudagraphs": unrecordable(below, at_call), "plain": plain}, tune_budget_s=0.05
    )
    assert decision.backend == "plain" and call(torch.ones(4))[0].tolist() == [2.0] * 4
    assert "a test" in dict(decision.struck)["plain+cudagraphs"] and "plain" not in dict(
        decision.struck
    )
    assert compiled == ([True] if below is quick and at_call == 3 else [])


def test_eagers_work_that_cannot_be_recorded_is_eager(decide):
    _, decision = decide({"cudagraphs": unrecordable(lambda gm, examples: gm.forward, 1)})
    assert decision.backend == "eager" and "a test" in dict(decision.struck)["cudagraphs"]


@pytest.mark.parametrize("backend", ["cudagraphs", "native"])
def test_inputs_with_gaps(decide, backend):
    """What is between their elements is compared where a candidate runs on copies of them; a
    recording does not."""
    _, decision = decide({backend: quick}, torch.ones(2, 8)[:, :4])
    assert decision.backend == backend


def test_native_is_tried_however_much_time_others_took(decide):
    _, decision = decide(
        {"first": slow_to_compile, "other": quick, "native": quick}, tune_budget_s=0.05
    )
    assert dict(decision.struck)["other"].startswith("not tried") and "native" in dict(
        decision.timings
    )


class Recorded:
    """What a candidate that records leads to: its compiled code, which leads back to itself."""

    def __init__(self):
        self.itself = self


@pytest.mark.parametrize(("taken", "collected"), [(1 << 30, True), (1 << 20, False)])
def test_large_recordings_of_losers_are_freed_at_once(taken, collected, monkeypatch):
    monkeypatch.setattr(tuning.pool, "recorded_bytes", lambda: taken)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    work = object.__new__(tuning.Tuning)
    work.device = torch.device("cuda")
    code = Recorded()
    alive = weakref.ref(code)
    names = ("native", "native+cudagraphs")
    work.built = {
        name: tuning.Candidate(Backend(name, quick), None, code if name != "native" else None)
        for name in names
    }
    del code
    gc.disable()
    try:
        work.drop_losers("native")
        assert (alive() is None) is collected and list(work.built) == ["native"]
    finally:
        gc.enable()
