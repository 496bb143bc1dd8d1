"""Handles, sites and hand-made "compiled" code for the tests of the hook.

Compiled code is any function whose arguments are the slots of the original; it says that it ran by
its result.
"""

from __future__ import annotations

import resource
import sys
import types

import pytest
from framejit.frontend.runtime import _hook as hook


def slot_count(function):
    code = function.__code__
    return (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & 4)
        + bool(code.co_flags & 8)
    )


def compiled(function, *entries, on_miss=None, on_frame=None):
    """A handle of `function` whose root site holds `entries` (the first in front)."""
    site = hook.Site(function, slot_count(function), on_miss)
    for entry in reversed(entries):
        site.add(entry)
    return hook.Handle(function, site, on_frame)


def frame_sites(table):
    """An on_frame callback from a dictionary code -> site, and the list of what it was asked."""
    asked = []

    def on_frame(handle, code, function):
        asked.append((code.co_name, function))
        return table.get(code)

    return on_frame, asked


def site_of(function, *entries, on_miss=None):
    site = hook.Site(None, slot_count(function), on_miss)
    for entry in reversed(entries):
        site.add(entry)
    return site


def inner(x):
    return ("eager", x)


def inner_compiled(x):
    return ("compiled", x)


def calls_inner(x):
    return inner(x)


def hooked(nested, entry):
    """A handle that runs `nested` eagerly, with `entry` waiting for frames of `inner`."""
    site = site_of(inner, entry)
    on_frame, _ = frame_sites({inner.__code__: site})
    return compiled(nested, on_frame=on_frame), site


def resident():
    """Bytes of memory this process occupies now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def plain(a, b):
    return ("a b", a, b)


def stack_names():
    frame, names = sys._getframe(1), []
    while frame is not None and len(names) < 4:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def watched(function, *args, by=sys.settrace):
    """What a function returns, and the names of frames that were told to a tracer, or to a
    profiler, meanwhile."""
    events = []
    by(lambda frame, event, arg: events.append(frame.f_code.co_name))
    try:
        return function(*args), events
    finally:
        by(None)


def flat(function):
    """`function` taking its slots by position, as an entry has it."""
    code = function.__code__
    return types.FunctionType(
        code.replace(
            co_argcount=slot_count(function),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~12,
            co_consts=tuple(f"compiled {c}" if isinstance(c, str) else c for c in code.co_consts),
        ),
        function.__globals__,
    )


def everything(p, /, a, b=2, *rest, k, m=7, **kw):
    return ("everything", p, a, b, rest, k, m, kw)


def depth_reached(function):
    """How deep `function(n)` gets before RecursionError."""
    reached = [0]

    def note(n):
        reached[0] = n

    with pytest.raises(RecursionError):
        function(note, 0)
    return reached[0]


def descend(note, n):
    note(n)
    return descend(note, n + 1)


def many(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9=0):
    return ("many", a0, a9, b0, b9)
