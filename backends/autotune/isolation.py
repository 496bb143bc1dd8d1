"""Runs a candidate first in a forked process, so that a crash, a hang or exhausted memory does not
affect the program.

Only for the CPU: a forked child has no CUDA device. The child uses one thread, since OpenMP's
others do not exist after a fork, and ends by _exit, so that no cleanup code of the program runs in
it.
"""

from __future__ import annotations

import faulthandler
import math
import os
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable

import torch

MOST = 8192  # bytes of a verdict
SHARE = 1 / 3  # of a processor, the least that a busy machine is expected to give a process


def run_isolated(work: Callable[[], str], limit_s: float, limit_bytes: int) -> str:
    """Runs `work` in a forked child and returns its result: "" or what is wrong. If the child did
    not finish, returns how it ended. limit_s: of processor time, so that a busy machine does not
    look like a hang."""
    here, there = os.pipe()
    with warnings.catch_warnings():
        # Python warns of a fork with threads; the child uses none of them
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        in_child(work, there, limit_s, limit_bytes)
    os.close(there)
    try:
        return verdict(child, here, limit_s)
    finally:
        os.close(here)


def in_child(work: Callable[[], str], there: int, limit_s: float, limit_bytes: int) -> None:
    """Runs in the child; never returns."""
    code = 1
    try:
        faulthandler.disable()
        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(quiet, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        seconds = max(1, math.ceil(limit_s))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        limit = address_space() + limit_bytes
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        if most == resource.RLIM_INFINITY or limit < most:
            resource.setrlimit(resource.RLIMIT_AS, (limit, most))
        torch.set_num_threads(1)
        text = work()
        os.write(there, b"+" + text.encode()[: MOST - 1])
        code = 0
    except BaseException as error:
        # whatever it is: the parent reads its text, and this process ends here
        os.write(there, f"+{type(error).__name__}: {error}".encode()[:MOST])
        code = 0
    finally:
        os._exit(code)


def address_space() -> int:
    """Bytes of memory that this process has mapped."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def verdict(child: int, here: int, limit_s: float) -> str:
    """Waits for the child's answer and its end."""
    end = time.monotonic() + limit_s / SHARE
    said, hung = b"", f"hung: no result in {limit_s:.3g} s"
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([here], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                break
            part = os.read(here, MOST)
            if not part:
                _, status = os.waitpid(child, 0)
                child = 0
                if said:
                    return said[1:].decode(errors="replace")
                return hung if died_of(status) is signal.SIGXCPU else describe_death(status)
            said += part
        return hung
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def describe_death(status: int) -> str:
    """How a process ended, from waitpid's status."""
    died = died_of(status)
    if died is not None:
        return f"crashed: {died.name}"
    return f"crashed: exit code {os.WEXITSTATUS(status)}"


def died_of(status: int) -> signal.Signals | None:
    """The signal that ended a process, from waitpid's status."""
    return signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
