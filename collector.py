"""Python's garbage collector, kept out of work that makes many objects and little garbage."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


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
