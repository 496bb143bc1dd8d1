"""Silences torch's log of operators that fail on fake tensors: in a capture that is a graph break,
which reports it, or torch's operator runs with the sizes of the program instead."""

from __future__ import annotations

import logging
import threading

from torch._subclasses import fake_tensor


class CaptureLogFilter(logging.Filter):
    """Drops records of threads that capture. threads: how often each has entered."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: dict[int, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.threads.get(record.thread or 0)


unheard = CaptureLogFilter()
fake_tensor.log.addFilter(unheard)


class WithoutTorchLog:
    """A context manager for one thread; as a class, since each operation of a capture enters it."""

    def __enter__(self) -> None:
        thread = threading.get_ident()
        unheard.threads[thread] = unheard.threads.get(thread, 0) + 1

    def __exit__(self, *error: object) -> None:
        thread = threading.get_ident()
        unheard.threads[thread] -= 1
        if not unheard.threads[thread]:
            del unheard.threads[thread]
