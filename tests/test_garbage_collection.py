"""What a compile does to Python's garbage collector, and that it is left as it was."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import framejit
import pytest
import torch
from framejit import garbage_collection
from framejit.garbage_collection import (
    NEVER,
    no_collections,
    no_full_collections,
    permanent_objects,
)


@pytest.fixture(autouse=True)
def usual_thresholds():
    before, enabled = gc.get_threshold(), gc.isenabled()
    gc.enable()
    yield before
    assert gc.get_threshold() == before
    (gc.enable if enabled else gc.disable)()


class Cycle:
    def __init__(self):
        self.itself = self


def cycle():
    """A weak reference to garbage."""
    return weakref.ref(Cycle())


def collections(run):
    """The generations that are collected while `run` runs."""
    found = []

    def note(phase, info):
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(note)
    try:
        run()
    finally:
        gc.callbacks.remove(note)
    return found


def allocate():
    """Enough that every generation of the collector is due, whatever its thresholds."""
    kept = [[[] for _ in range(20)] for _ in range(2000)]
    assert len(kept) == 2000


def test_no_collections():
    def work():
        with no_collections():
            allocate()

    assert collections(work) == []
    assert gc.isenabled()


def test_no_full_collections(usual_thresholds, monkeypatch):
    monkeypatch.setattr(garbage_collection, "SELDOM", 5)

    def work():
        with no_full_collections():
            allocate()

    gc.set_threshold(5, 1, 1)
    try:
        found = collections(work)
    finally:
        gc.set_threshold(*usual_thresholds)
    assert 0 in found
    assert 2 not in found


def test_young_garbage_is_collected_at_the_end():
    with no_full_collections():
        garbage = cycle()
    assert garbage() is None


def test_survivors_of_a_compile_count_less():
    generations = garbage_collection.generations
    gc.collect()
    assert generations.survivors() == 0
    with no_full_collections():
        kept = [[] for _ in range(4000)]
    assert 1000 <= generations.survivors() < 1500
    assert len(kept) == 4000
    gc.collect()
    kept = [[] for _ in range(4000)]
    gc.collect(1)
    assert generations.survivors() >= 4000


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    with no_full_collections():
        garbage = cycle()
    assert garbage() is not None
    assert not gc.isenabled()


def test_an_error_restores_it():
    with pytest.raises(ValueError, match="inside"), no_full_collections():
        raise ValueError("inside")


def test_inside_one_another():
    with no_full_collections():
        with no_full_collections():
            pass
        assert gc.get_threshold()[2] == NEVER


def test_two_threads():
    """The first to begin restores the thresholds, whichever ends first."""
    begun, ended = threading.Event(), threading.Event()

    def other():
        with no_full_collections():
            begun.set()
            ended.wait(10)

    thread = threading.Thread(target=other)
    with no_full_collections():
        thread.start()
        begun.wait(10)
    assert gc.get_threshold()[2] != NEVER
    ended.set()
    thread.join()


def test_objects_of_a_compile_are_visited_once():
    def many(x):
        for _ in range(50):
            x = x.sin() + 1
        return x

    with framejit.config.patch(store=False):
        framejit.compile(lambda x: x.sin() + 1, backend="eager")(torch.ones(2))  # imports
        compiled = framejit.compile(many, backend="eager")
        gc.collect()
        assert collections(lambda: compiled(torch.ones(2))) == [1]


def test_compiling_runs_no_full_collection():
    seen = []

    def backend(gm, inputs):
        seen.append(gc.get_threshold()[2])
        return gm

    framejit.compile(lambda x: x.sin() + 1, backend=backend)(torch.ones(2))
    assert seen == [NEVER]


@pytest.fixture
def alone(monkeypatch):
    """As if no test before had left a thread behind."""
    monkeypatch.setattr(garbage_collection, "waiting_threads", dict)


def is_visited(obj, generation=None):
    """Whether a collection may visit an object."""
    return any(obj is other for other in gc.get_objects(generation))


def test_permanent_objects_are_not_visited(alone):
    before = Cycle()
    with permanent_objects():
        inside = Cycle()
        garbage = cycle()
    after = Cycle()
    assert garbage() is None
    assert not is_visited(inside)
    assert is_visited(after, 0)
    assert is_visited(before, 0)


def test_a_permanent_object_dies_with_its_last_reference(alone):
    with permanent_objects():
        inside = Cycle()
    inside.itself = None
    gone = weakref.ref(inside)
    del inside
    assert gone() is None


def test_what_only_a_permanent_object_refers_to_stays(alone):
    with permanent_objects():
        inside = Cycle()
    inside.later = Cycle()
    kept = weakref.ref(inside.later)
    gc.collect()
    assert kept() is not None


def test_permanent_objects_inside_one_another(alone):
    with permanent_objects():
        with permanent_objects():
            inner = Cycle()
        outer = Cycle()
    assert not is_visited(inner)
    assert not is_visited(outer)


def test_nothing_is_permanent_after_an_error(alone):
    before = Cycle()
    with pytest.raises(ValueError, match="inside"), permanent_objects():
        inside = Cycle()
        raise ValueError("inside")
    assert is_visited(inside)
    assert is_visited(before)


OURS = "of a test"  # begins the names of the threads that tests start


class Waiting(threading.Thread):
    """A thread that waits, as a progress bar's does, until it is woken, and then `rounds` times
    more."""

    def __init__(self, rounds=0):
        super().__init__(daemon=True, name=f"{OURS}, waiting")
        self.rounds, self.woken, self.waits = rounds, threading.Semaphore(0), threading.Event()

    def run(self):
        for _ in range(self.rounds + 1):
            self.waits.set()
            self.woken.acquire()

    def begin(self):
        self.start()
        self.wait_until_it_waits()
        return self

    def wait_until_it_waits(self):
        self.waits.wait(10)
        while sys._current_frames()[self.ident].f_code is not threading.Condition.wait.__code__:
            time.sleep(0.001)

    def wake(self):
        self.waits.clear()
        self.woken.release()


@pytest.fixture
def with_known_threads(monkeypatch):
    """Looks at the threads that the test starts only."""
    frames = sys._current_frames

    def current_frames():
        ours = {one.ident for one in threading.enumerate() if one.name.startswith(OURS)}
        return {ident: frame for ident, frame in frames().items() if ident in ours}

    monkeypatch.setattr(garbage_collection.sys, "_current_frames", current_frames)


def test_threads_that_wait_do_not_matter(with_known_threads):
    thread = Waiting().begin()
    with permanent_objects():
        inside = Cycle()
    thread.wake()
    thread.join()
    assert not is_visited(inside)


def test_nothing_is_permanent_where_another_thread_has_run(with_known_threads):
    thread = Waiting(rounds=1).begin()
    with permanent_objects():
        inside = Cycle()
        thread.wake()
        thread.wait_until_it_waits()
    thread.wake()
    thread.join()
    assert is_visited(inside)


def test_nothing_is_permanent_where_another_thread_runs(with_known_threads):
    ended = threading.Event()

    def run():
        while not ended.is_set():
            time.sleep(0.001)

    thread = threading.Thread(target=run, name=f"{OURS}, running")
    thread.start()
    with permanent_objects():
        inside = Cycle()
        garbage = cycle()
    ended.set()
    thread.join()
    assert garbage() is None
    assert is_visited(inside)


PERMANENT = """
import gc, torch, framejit
known = set(map(id, gc.get_objects()))
compiled = framejit.compile(lambda x: x.sin() + 1, backend="{backend}")
compiled(torch.ones(2, requires_grad={gradient}))
new = [obj for obj in gc.get_objects() if id(obj) not in known]
print(len(new), gc.get_freeze_count())
"""


@pytest.mark.parametrize(
    ("backend", "gradient", "loads"), [("eager", False, 15_000), ("native", True, 40_000)]
)
def test_what_a_first_compile_loads_is_permanent(backend, gradient, loads, torch_server, tmp_path):
    """Each full collection of the program would visit it: 18,000 objects where a graph is captured
    only, more than 100,000 where it is compiled."""
    run = torch_server.run(PERMANENT.format(backend=backend, gradient=gradient), tmp_path)
    assert run.returncode == 0, run.stderr
    visited, permanent = map(int, run.stdout.split())
    assert visited < 10_000
    assert permanent > loads
