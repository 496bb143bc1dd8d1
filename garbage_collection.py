"""Pauses Python's garbage collector during work that makes many objects and little garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

NEVER = 2**30  # as the threshold of the oldest generation


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
    """Collects young objects only, and once more at the end. The objects of a compile would
    otherwise cause a full collection, which visits every imported object: it takes as long as the
    compile and finds nothing."""
    thresholds = gc.get_threshold()
    if thresholds[2] == NEVER:  # another thread compiles, too, and will restore it
        yield
        return
    gc.set_threshold(*thresholds[:2], NEVER)
    try:
        yield
    finally:
        if gc.isenabled():
            gc.collect(1)
        gc.set_threshold(*thresholds)
