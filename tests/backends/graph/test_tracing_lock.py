"""Threads that compile at the same time: each graph is compiled, none falls back to eager."""

from __future__ import annotations

import os
import threading

import framejit
import pytest
import torch
from framejit.backends.graph.tracing_lock import tracing_lock

THREADS = 6
FORMS = (
    "x.tanh() + {n}",
    "(x * {n}).sigmoid()",
    "x.exp().sum(0) - {n}",
    "(x @ x.t()).relu() + {n}",
)


def functions(turn):
    return [eval(f"lambda x: {FORMS[n % 4].format(n=turn + n + 1)}") for n in range(THREADS)]


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("backend", ["aot_eager", "torchscript", "native"])
def test_threads_that_compile_at_once(backend, grad):
    x = torch.linspace(-1, 1, 16).reshape(4, 4)
    for turn in range(3):
        errors, start = [], threading.Barrier(THREADS)

        def work(fn, compiled):
            try:
                given, wanted = x.clone().requires_grad_(grad), x.clone().requires_grad_(grad)
                start.wait()
                got, expected = compiled(given), fn(wanted)
                torch.testing.assert_close(got, expected)
                if grad:
                    got.sum().backward()
                    expected.sum().backward()
                    torch.testing.assert_close(given.grad, wanted.grad)
            except BaseException as error:
                errors.append(error)

        plain = functions(100 * turn)
        with framejit.config.patch(strict=True):
            handles = [framejit.compile(fn, backend=backend) for fn in plain]
        threads = [
            threading.Thread(target=work, args=both) for both in zip(plain, handles, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors


def test_a_forked_process_does_not_wait_for_a_thread_that_it_lacks():
    held, done = threading.Event(), threading.Event()

    def hold():
        with tracing_lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if tracing_lock.acquire(timeout=5) else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
