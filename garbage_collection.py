"""Pauses Python's garbage collector during work that makes many objects and little garbage, and
keeps it away from objects that live as long as the process."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

WAIT = threading.Condition.wait.__code__  # waits once, and returns
NEVER = 2**30  # as the threshold of the oldest generation
SELDOM = 200_000  # as that of the youngest: more objects than most compiles make
LIGHT = 4  # so many survivors of a compile bring the next full collection as near as one other


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Switches collections off. In a program that has loaded torch, a collection visits a million
    objects and takes as long as a capture."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def no_full_collections() -> Iterator[None]:
    """Collects young objects only, seldom, and once more at the end. The objects of a compile would
    otherwise cause a full collection, which visits every imported object: it takes as long as the
    compile and finds nothing. Most of them are still in use until the end."""
    thresholds = gc.get_threshold()
    if thresholds[2] == NEVER:  # another thread compiles, too, and will restore it
        yield
        return
    often = thresholds[0]  # 0: never
    gc.set_threshold(often and max(often, SELDOM), thresholds[1], NEVER)
    try:
        yield
    finally:
        if gc.isenabled():
            collect_young()
        gc.set_threshold(*thresholds)


def collect_young() -> None:
    """Collects young objects. Those that survive count less than others towards the next full
    collection: a compiled model has ten thousands, which stay as long as it does, so a full
    collection in its first call takes as long as the call and finds nothing."""
    if generations is None:
        gc.collect(1)
        return
    before = generations.survivors()
    gc.collect(1)
    added = generations.survivors() - before
    if added > 0:
        generations.set_survivors(before + added // LIGHT)


@contextlib.contextmanager
def permanent_objects() -> Iterator[None]:
    """Makes what is created inside, and is no garbage at the end, permanent, as gc.freeze() does
    with all objects: no collection visits it again. For imports only: the compiler and the parts of
    torch that it loads are as many objects as torch itself, and each full collection of a program
    would visit them. Garbage is collected first: functions that run at import take their frames, in
    cycles that refer to all frames around them, and so to the program's objects. Makes nothing
    permanent where another thread may have run Python meanwhile, as its objects could be among
    these."""
    waiting = waiting_threads()
    with no_collections():
        if generations is None or waiting is None or not generations.hide_young():
            yield
            gc.collect(0)
            return
        try:
            yield
            gc.collect(0)
            if waiting_threads() == waiting:
                generations.freeze_young()
        finally:
            generations.show_young()


def import_permanently(name: str, package: str) -> Any:
    """A module, imported in a thread of its own where it is not loaded yet, its objects permanent:
    no mode of torch's is on there, and the stack is free, however deep the call that needs it."""
    errors: list[BaseException] = []

    def load() -> None:
        try:
            importlib.import_module(name, package)
        except BaseException as error:
            errors.append(error)

    if importlib.util.resolve_name(name, package) not in sys.modules:
        with permanent_objects():
            thread = threading.Thread(target=load, name="framejit import")
            thread.start()
            thread.join()
    if errors:
        raise errors[0]
    return importlib.import_module(name, package)


def waiting_threads() -> dict[int, FrameType] | None:
    """The innermost frame of each other thread that runs Python, by thread; None where one does not
    wait for a condition, as progress bars and queues do. While a thread has the same such frame, it
    runs nothing."""
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)
    return frames if all(one.f_code is WAIT for one in frames.values()) else None


def load_generations() -> Any:
    """The part in C; None under a Python for which it could not be built."""
    try:
        return importlib.import_module("._generations", __package__)
    except ImportError:
        return None


generations = load_generations()
