"""Silences torch's log of operators that fail on fake tensors: in a capture that is a graph break,
which reports it."""

from __future__ import annotations

import logging
import threading

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


class WithoutTorchLog:
    """A context manager for one thread; as a class, since each operation of a capture enters it."""

    def __enter__(self) -> None:
        unheard.threads.add(threading.get_ident())

    def __exit__(self, *error: object) -> None:
        unheard.threads.discard(threading.get_ident())
