"""EntryWriter: writes files in a thread of its own, so that no call waits for the disk. At the end
of the process Python waits for the thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path


class EntryWriter:
    """Writes in the order in which it is asked."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets the thread, which a forked process does not have."""
        self._thread: ThreadPoolExecutor | None = None
        self._pending: dict[Path, Future[None]] = {}
        self._lock = threading.Lock()

    def write(self, path: Path, work: Callable[[], None]) -> Future[None]:
        """Starts work on a file. Raises RuntimeError while the process ends."""
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="framejit-entries")
            self._pending = {one: job for one, job in self._pending.items() if not job.done()}
            job = self._pending[path] = self._thread.submit(work)
        return job

    def wait_for(self, path: Path) -> None:
        """Returns when nothing is being written to a file."""
        job = self._pending.get(path)
        if job is not None:
            wait([job])


entry_writer = EntryWriter()
os.register_at_fork(after_in_child=entry_writer.reset)
