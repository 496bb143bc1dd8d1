"""Many threads and one handle: one compile, nobody waits for ever, nobody gets a wrong answer."""

from __future__ import annotations

import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import framejit
import pytest
import torch
from framejit.frontend.runtime import compile_lock

X = torch.ones(3)
THREADS = 64


def together(count, work):
    """Runs work(number) in threads that start at once; their exceptions, and whether all came to an
    end."""
    barrier, failures = threading.Barrier(count), []

    def run(number):
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 90
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    return failures


def slow_backend(compiled):
    def backend(gm, inputs):
        compiled.append(threading.get_ident())
        time.sleep(0.2)
        return gm.forward

    return backend


@pytest.mark.parametrize("wait", [False, True])
def test_64_threads_compile_once(wait):
    ran_eager, compiled = [], []

    def f(x):
        if not framejit.is_compiling():
            ran_eager.append(1)
        return x.sin() + 1

    with framejit.config.patch(wait_for_compile=wait, strict=True):
        handle = framejit.compile(f, backend=slow_backend(compiled))
    expected = X.sin() + 1

    def work(number):
        for _ in range(3):
            assert torch.equal(handle(X), expected)

    assert together(THREADS, work) == []
    assert len(compiled) == 1 and handle.framejit.compiles == 1
    assert len(handle.framejit.cache.root.entries) == 1
    assert (not ran_eager) is wait


def test_breaks_and_shapes_in_many_threads():
    compiled = []

    def f(x):
        y = x * 2
        print("", end="")
        return y + x.shape[0]

    with framejit.config.patch(strict=True):
        handle = framejit.compile(f, backend=slow_backend(compiled), dynamic=False)

    def work(number):
        for _ in range(20):
            x = torch.ones(number % 3 + 2)
            assert torch.equal(handle(x), x * 2 + x.shape[0])

    assert together(12, work) == []
    handle.wait()
    together(12, work)
    assert all(len(site.entries) <= 3 for site in handle.framejit.cache.sites())
    assert len(compiled) == sum(len(site.entries) for site in handle.framejit.cache.sites())


def test_a_compile_that_fails_lets_the_others_go_on():
    def failing(gm, inputs):
        time.sleep(0.1)
        raise RuntimeError("no")

    with framejit.config.patch(wait_for_compile=True):
        handle = framejit.compile(lambda x: x + 1, backend=failing)
    failures = together(4, lambda number: handle(X))
    assert failures and all(isinstance(error, framejit.BackendError) for error in failures)


@pytest.mark.parametrize("pooled", [False, True])
def test_helpers_of_a_backend_may_call_the_handle(pooled, monkeypatch):
    """The compile waits for a thread that meets this very compile: started by it, or one that was there before."""
    monkeypatch.setattr(compile_lock, "LONGEST_WAIT", 0.2)
    seen = []
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()

        def backend(gm, inputs):
            if pooled:
                seen.append(pool.submit(handle, X).result(30))
            else:
                assert together(1, lambda number: seen.append(handle(X))) == []
            return gm.forward

        with framejit.config.patch(wait_for_compile=True, strict=True):
            handle = framejit.compile(lambda x: x + 1, backend=backend)
        assert torch.equal(handle(X), X + 1) and torch.equal(seen[0], X + 1)
    assert handle.framejit.compiles == 1


def test_compiles_in_threads_that_end(torch_server, tmp_path):
    """Each in a thread of its own, one after the other, in a process that compiles nothing in its
    main thread."""
    program = textwrap.dedent("""
        import threading, framejit, torch
        def work():
            assert torch.equal(framejit.compile(lambda x: x + 1)(torch.ones(2)), torch.full((2,), 2.0))
        for _ in range(20):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        print("fine")
    """)
    done = torch_server.run(program, tmp_path)
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr


def test_arguments_of_many_threads_do_not_mix():
    """One entry, armed for one module at a time, called with many modules at once."""

    def call(module, x):
        return module(x)

    handle = framejit.compile(call)
    modules = [torch.nn.Linear(3, 3) for _ in range(8)]
    with torch.no_grad():
        expected = [module(X) for module in modules]
        handle(modules[0], X)

        def work(number):
            with torch.no_grad():
                for turn in range(200):
                    at = (number + turn) % 8
                    assert torch.equal(handle(modules[at], X), expected[at])

        assert together(8, work) == []


def test_callees_of_a_function_that_another_thread_compiles_stay_in_python():
    started, release, compiled = threading.Event(), threading.Event(), []

    def backend(gm, inputs):
        compiled.append(threading.get_ident())
        started.set()
        assert release.wait(30)
        return gm.forward

    def inner(x):
        return x.sin() + 1

    def f(x):
        return inner(x) * 2

    with framejit.config.patch(wait_for_compile=False, strict=True):
        handle = framejit.compile(f, backend=backend)
    first = threading.Thread(target=handle, args=(X,))
    first.start()
    assert started.wait(30)
    for _ in range(3):
        assert torch.equal(handle(X), f(X))
    release.set()
    first.join(30)
    assert len(compiled) == handle.framejit.compiles == 1
    assert torch.equal(handle(X), f(X)) and handle.framejit.compiles == 1
