"""Compiling Triton kernels in other processes: all at once, loaded in order, each once; failures
are reported. The compilers are fakes."""

from __future__ import annotations

import threading

import pytest
from framejit.backends.native.toolchain import load_triton
from framejit.backends.native.toolchain.load_triton import Job, KernelLoader


def job(text):
    return Job(text, (), (), (), (), 4)


@pytest.fixture
def compilers(monkeypatch):
    """What was compiled elsewhere, and loaded; compilers wait until `open` is set."""

    class Compilers:
        def __init__(self):
            self.open, self.compiled, self.loaded = threading.Event(), [], []

        def compile(self, message):
            assert self.open.wait(60)
            self.compiled.append(message)
            return "no such thing" if message == "broken" else None

    made, loaded = Compilers(), {}

    def load(one, device):
        if one.text == "too large":
            raise ValueError("out of registers")
        made.loaded.append(one.text)
        loaded[one, device] = ("kernel", one.text)
        return loaded[one, device]

    monkeypatch.setattr(load_triton, "workers", lambda: made)
    monkeypatch.setattr(load_triton, "as_message", lambda one, device: one.text)
    monkeypatch.setattr(load_triton, "_load", load)
    monkeypatch.setattr(load_triton, "_loaded", loaded)
    return made


def test_the_caller_goes_on_while_kernels_are_compiled(compilers):
    first, second = (
        KernelLoader([job("a"), job("b"), job("a")], 0),
        KernelLoader([job("c"), job("d")], 0),
    )
    assert compilers.compiled == compilers.loaded == []
    compilers.open.set()
    assert second.kernels() == {job("c"): ("kernel", "c"), job("d"): ("kernel", "d")}
    assert first.kernels() == {job("a"): ("kernel", "a"), job("b"): ("kernel", "b")}
    assert sorted(compilers.compiled) == ["a", "b", "c", "d"]
    assert compilers.loaded == ["c", "d", "a", "b"]


def test_what_is_loaded_is_not_compiled_again(compilers):
    compilers.open.set()
    KernelLoader([job("a"), job("b")], 0).kernels()
    again = KernelLoader([job("b"), job("c"), job("a")], 0)
    assert again.kernels() == {
        job("b"): ("kernel", "b"),
        job("c"): ("kernel", "c"),
        job("a"): ("kernel", "a"),
    }
    assert compilers.loaded == ["a", "b", "c"]  # one alone is compiled here
    assert sorted(compilers.compiled) == ["a", "b"]


def test_failures_are_listed_beside_successes(compilers):
    compilers.open.set()
    ended = KernelLoader([job("a"), job("broken"), job("too large")], 0).finish()
    assert ended == {
        job("a"): ("kernel", "a"),
        job("broken"): "no such thing",
        job("too large"): "ValueError: out of registers",
    }
    with pytest.raises(RuntimeError, match="no such thing\nbroken"):
        KernelLoader([job("a"), job("broken"), job("too large")], 0).kernels()
