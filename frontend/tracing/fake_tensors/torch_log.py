"""Silences torch's log of operators that fail on fake tensors: in a capture that is a graph break,
which reports it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch._subclasses import fake_tensor


class CaptureLogFilter(logging.Filter):
    """Drops records of threads that capture."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in self.threads


unheard = CaptureLogFilter()
fake_tensor.log.addFilter(unheard)


@contextmanager
def without_torch_log() -> Iterator[None]:
    thread = threading.get_ident()
    unheard.threads.add(thread)
    try:
        yield
    finally:
        unheard.threads.discard(thread)
