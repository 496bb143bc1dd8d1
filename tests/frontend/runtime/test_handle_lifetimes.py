"""What dies with a handle, a code object, an entry."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import pytest
from framejit.frontend.runtime import _hook as hook

from .handles import (
    calls_inner,
    compiled,
    everything,
    flat,
    frame_sites,
    hooked,
    inner,
    inner_compiled,
    resident,
    site_of,
)

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


def test_dead_handles_leave_their_codes():
    handle, site = hooked(calls_inner, hook.Entry(code=inner_compiled.__code__))
    assert handle(1) == ("compiled", 1)
    gone = weakref.ref(site), weakref.ref(handle)
    del handle, site
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert compiled(calls_inner)(1) == ("eager", 1)


def test_cycles_are_collected():
    def make():
        def f(x):
            return g(x)

        def g(x):
            return ("eager", x)

        handle = compiled(f, hook.Entry(None, lambda x: ("compiled", x), data=[]))
        site = site_of(g, hook.Entry(code=g.__code__))
        handle.on_frame = lambda *a: (handle, site)[1]
        handle.me, site.data, site.handle = handle, site, handle
        handle.root.entries[0].data.append(handle)
        handle.root.skip = True
        handle.root.on_miss = lambda *a: handle
        assert handle(1) == ("eager", 1) and len(handle.sites()) == 1
        graph = hook.Quiet(lambda: graph)
        return [weakref.ref(o) for o in (handle, site, f, g)]

    gone = make()
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4


def test_dead_codes_leave_their_handle():
    sites = []

    def on_frame(handle, code, function):
        if (
            code.co_name != "fresh"
        ):  # an audit hook that hears of exec, as the filelock library's does
            return None
        site = hook.Site(None, 0)
        sites.append(weakref.ref(site))
        return site if len(sites) % 2 else None

    def body():
        namespace = {}
        exec("def fresh(): return 1", namespace)
        return namespace["fresh"]()

    handle = compiled(body, on_frame=on_frame)
    for _ in range(10):
        handle()
    gc.collect()
    assert len(sites) == 10 and [ref() for ref in sites] == [None] * 10
    assert [code for code, _ in handle.sites() if code.co_name == "fresh"] == []


def test_equal_codes_have_sites_of_their_own():
    def make():
        def same(x):
            return x

        return same

    first, second = make(), types.FunctionType(make().__code__.replace(), {})
    assert first.__code__ == second.__code__ and first.__code__ is not second.__code__
    on_frame, asked = frame_sites({})
    compiled(lambda: (first(1), second(1)), on_frame=on_frame)()
    assert len(asked) == 2


def test_hits_and_compiles_leak_nothing():
    marker, other = object(), object()

    def counts():
        gc.collect()
        watched = marker, other, inner, inner_compiled, inner.__code__, inner_compiled.__code__
        return [sys.getrefcount(o) for o in watched]

    def rounds(hits, compiles):
        nested, _ = hooked(
            lambda a, n: [inner(a) for _ in range(n)] and None,
            hook.Entry(code=inner_compiled.__code__),
        )
        nested(marker, hits)
        bound = compiled(everything, hook.Entry(None, flat(everything)))
        direct = compiled(inner, hook.Entry(None, inner_compiled, needs_hook=True))
        for _ in range(hits):
            direct(marker)
            bound(marker, other, other, marker, k=other, z=marker)
        for _ in range(compiles):
            fresh = compiled(
                inner, on_miss=lambda *a: hook.Entry(None, inner_compiled, inner_compiled.__code__)
            )
            assert fresh(marker) == ("compiled", marker)
            nested, _ = hooked(calls_inner, hook.Entry(code=inner_compiled.__code__))
            assert nested(other) == ("compiled", other)

    rounds(1_000, 200)
    before, memory = counts(), resident()
    rounds(100_000, 2_000)
    assert counts() == before
    assert resident() - memory < 4_000_000
