"""CompileLock: one compile at a time for each site of a handle.

In: sites, by threads that want to compile for them. Out: whether they may. Knows nothing of what is
compiled.
"""

from __future__ import annotations

import threading
import time

from ._hook import Site

# seconds for which a thread waits for another's compile, which may wait for this very thread
LONGEST_WAIT = 60.0


class CompileLock:
    """Lets one thread at a time compile for a site. waits: whether a thread that meets a compile in
    progress waits for its end; otherwise it runs in eager."""

    def __init__(self, waits: bool) -> None:
        self._waits = waits
        self._changed = threading.Condition()
        # by the site's id: the threads that there were when its compile began
        self._compiling: dict[int, frozenset[threading.Thread]] = {}

    def acquire(self, site: Site) -> bool:
        """Whether this thread may compile now; else it runs eager. A thread younger than the
        compile does not wait: a backend may have started it, and wait for it in turn."""
        end = time.monotonic() + LONGEST_WAIT
        with self._changed:
            while id(site) in self._compiling:
                left = end - time.monotonic()
                if (
                    not self._waits
                    or threading.current_thread() not in self._compiling[id(site)]
                    or left <= 0
                ):
                    return False
                self._changed.wait(left)
            # sys._current_frames() knows of every thread, but a collection inside it that frees a
            # thread's locals never ends
            self._compiling[id(site)] = frozenset(threading.enumerate())
        return True

    def release(self, site: Site) -> None:
        with self._changed:
            self._compiling.pop(id(site), None)
            self._changed.notify_all()

    def wait(self) -> None:
        """Returns when no thread compiles for this handle."""
        with self._changed:
            while self._compiling:
                self._changed.wait()
