"""The lock of compiles: one compile for each site at a time, and no endless waits."""

from __future__ import annotations

import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from framejit.frontend.runtime import compile_lock
from framejit.frontend.runtime._hook import Site
from framejit.frontend.runtime.compile_lock import CompileLock


@pytest.fixture
def site():
    return Site(None, 0)


def test_one_at_a_time_for_a_site(site):
    lock = CompileLock(waits=False)
    assert lock.acquire(site) and not lock.acquire(site)
    assert lock.acquire(Site(None, 0))
    lock.release(site)
    assert lock.acquire(site)


def test_a_thread_that_was_there_before_waits(site):
    lock = CompileLock(waits=True)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        assert lock.acquire(site)
        other = pool.submit(lock.acquire, site)
        assert not other.done()
        lock.release(site)
        assert other.result(30)


def test_a_younger_thread_does_not_wait(site):
    lock = CompileLock(waits=True)
    assert lock.acquire(site)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(lock.acquire(site)))
    thread.start()
    thread.join(30)
    assert answers == [False]


def test_nobody_waits_for_ever(site, monkeypatch):
    monkeypatch.setattr(compile_lock, "LONGEST_WAIT", 0.05)
    lock = CompileLock(waits=True)
    assert lock.acquire(site)
    assert not lock.acquire(site)


def test_collections_at_any_moment_of_a_compile(torch_server, tmp_path):
    """They may free locals of threads, for which CPython takes the lock that it holds while it looks at all threads."""
    program = textwrap.dedent("""
        import gc, threading, framejit, torch

        class Litter:
            def __init__(self):
                self.me, self.local = self, threading.local()

        handle = framejit.compile(lambda x: x + 1, backend="eager")
        site = handle.framejit.cache.root
        gc.freeze()
        for threshold in range(1, 100):
            gc.collect()
            gc.set_threshold(threshold)
            Litter()
            assert handle.framejit.cache.lock.acquire(site)
            handle.framejit.cache.lock.release(site)
        print("fine")
    """)
    done = torch_server.run(program, tmp_path)
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr
