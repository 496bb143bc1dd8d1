"""Each thread has a mode of its own; all share a handle."""

from __future__ import annotations

import sys
import threading

import pytest
from framejit.frontend.runtime import _hook as hook

from .handles import calls_inner, compiled, frame_sites, hooked, inner, inner_compiled, site_of

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


def test_threads_have_modes_of_their_own():
    entry = hook.Entry(code=inner_compiled.__code__)
    inside, leave, seen = threading.Event(), threading.Event(), []

    def body():
        inside.set()
        leave.wait()
        return inner(1)

    handle = compiled(body, on_frame=frame_sites({inner.__code__: site_of(inner, entry)})[0])
    thread = threading.Thread(target=lambda: seen.append(handle()))
    thread.start()
    inside.wait()
    assert hook.installed() and hook.current_handle() is None and inner(2) == ("eager", 2)
    leave.set()
    thread.join()
    assert seen == [("compiled", 1)]


def test_threads_share_a_handle():
    made = []

    def on_miss(site, function, slots):
        made.append(slots)
        return hook.Entry(None, inner_compiled)

    handle, wrong = compiled(inner, on_miss=on_miss), []
    nested, _ = hooked(calls_inner, hook.Entry(code=inner_compiled.__code__, needs_hook=True))

    def work():
        for i in range(3000):
            if handle(i) != ("compiled", i) or nested(i) != ("compiled", i):
                wrong.append(i)
            if i % 500 == 0:
                handle.root.clear()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong and made
