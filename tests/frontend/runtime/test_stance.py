"""set_stance: as a call, a context manager and a decorator; between threads; at breaks."""

from __future__ import annotations

import threading

import framejit
import pytest
import torch


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    framejit.set_stance("default")


def make():
    def f(x, n):
        return x + n

    return framejit.compile(f)


def entries(handle):
    return len(handle.framejit.cache.root.entries)


X = torch.ones(2)


def test_force_eager_compiles_nothing_and_uses_nothing():
    handle = make()
    with framejit.set_stance("force_eager"):
        assert torch.equal(handle(X, 1), X + 1)
    assert entries(handle) == 0 and handle.framejit.compiles == 0
    handle(X, 1)
    assert entries(handle) == 1
    entry = handle.framejit.cache.root.entries[0]
    hits = entry.hits
    with framejit.set_stance("force_eager"):
        handle(X, 1)
    assert entry.hits == hits


def test_eager_on_recompile_uses_what_there_is():
    handle = make()
    with framejit.set_stance("eager_on_recompile"):
        assert torch.equal(handle(X, 1), X + 1)
    assert handle.framejit.compiles == 0
    handle(X, 1)
    entry = handle.framejit.cache.root.entries[0]
    with framejit.set_stance("eager_on_recompile"):
        hits = entry.hits
        assert torch.equal(handle(X, 1), X + 1) and entry.hits == hits + 1
        assert torch.equal(handle(X.double(), 1), X.double() + 1)
    assert handle.framejit.compiles == 1
    assert handle.framejit.cache.root.passed == 2


def test_fail_on_recompile_says_what_differs():
    handle = make()
    handle(X, 1)
    with framejit.set_stance("fail_on_recompile"):
        handle(X, 1)
        with pytest.raises(
            framejit.RecompileError, match="x.dtype is torch.float64, was torch.float32"
        ):
            handle(X.double(), 1)
        fresh = make()
        with pytest.raises(framejit.RecompileError, match="f would be compiled"):
            fresh(X, 1)
    assert torch.equal(handle(X.double(), 1), X.double() + 1) and torch.equal(fresh(X, 1), X + 1)


def test_as_a_call_it_is_the_processs():
    handle = make()
    framejit.set_stance("force_eager")
    thread = threading.Thread(target=handle, args=(X, 1))
    thread.start()
    thread.join()
    handle(X, 1)
    assert handle.framejit.compiles == 0
    framejit.set_stance("default")
    handle(X, 1)
    assert handle.framejit.compiles == 1


def test_as_a_context_manager_it_is_the_threads():
    handle = make()
    with framejit.set_stance("force_eager"):
        thread = threading.Thread(target=handle, args=(X, 1))
        thread.start()
        thread.join()
        assert handle.framejit.compiles == 1
        with framejit.set_stance("default"):
            handle(X.double(), 1)
        assert handle.framejit.compiles == 2
        handle(X.int(), 1)
    assert handle.framejit.compiles == 2
    handle(X.int(), 1)
    assert handle.framejit.compiles == 3


def test_blocks_of_many_threads_do_not_disturb_each_other():
    handle = make()
    wrong = []

    def switch(number):
        stance = ("force_eager", "default", "eager_on_recompile")[number % 3]
        for _ in range(300):
            with framejit.set_stance(stance):
                if not torch.equal(handle(X, 1), X + 1):
                    wrong.append(number)

    threads = [threading.Thread(target=switch, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)
    compiles = handle.framejit.compiles
    handle(X.double(), 1)
    assert handle.framejit.compiles == compiles + 1, "the process's stance is not the default again"


def test_as_a_decorator():
    handle = make()

    @framejit.set_stance("force_eager")
    def run():
        return handle(X, 1)

    handle(X.double(), 1)
    assert handle.framejit.compiles == 1
    assert torch.equal(run(), X + 1) and handle.framejit.compiles == 1


def test_what_follows_a_break_and_frames_met_there():
    @framejit.compile
    def outer(x):
        y = x + 1
        print("", end="")
        return inner(y) * 2

    @framejit.disable(recursive=False)
    def inner(x):
        return x.sin()

    expected = (X + 1).sin() * 2
    with framejit.set_stance("force_eager"):
        assert torch.equal(outer(X), expected)
    assert all(not site.entries for site in outer.framejit.cache.sites())
    assert torch.equal(outer(X), expected) and torch.equal(outer(X), expected)
    with framejit.set_stance("fail_on_recompile"):
        assert torch.equal(outer(X), expected)
        with pytest.raises(framejit.RecompileError):
            outer(X.double())


def test_unknown_ones_are_refused():
    with pytest.raises(ValueError, match="unknown stance 'fast'"):
        framejit.set_stance("fast")
