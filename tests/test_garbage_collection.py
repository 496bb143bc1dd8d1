"""What a compile does to Python's garbage collector, and that it is left as it was."""

from __future__ import annotations

import gc
import threading
import weakref

import framejit
import pytest
import torch
from framejit.garbage_collection import NEVER, no_collections, no_full_collections


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


def test_no_full_collections(usual_thresholds):
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


def test_compiling_runs_no_full_collection():
    seen = []

    def backend(gm, inputs):
        seen.append(gc.get_threshold()[2])
        return gm

    framejit.compile(lambda x: x.sin() + 1, backend=backend)(torch.ones(2))
    assert seen == [NEVER]
