"""Python's garbage collector, kept out of work that makes many objects and little garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

NEVER = 2**30  # as the threshold of the oldest generation


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Without collections: in a program that has loaded torch one walks over a million objects and
    takes as long as a capture."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def no_full_collections() -> Iterator[None]:
    """Only young objects are collected, once more at the end. What a compile makes and drops would
    else bring about a full collection, which walks over all that was ever imported: it takes as
    long as the compile, and finds nothing."""
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
