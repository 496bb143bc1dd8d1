"""Entries and sites: which entry serves a call, and what happens where none does."""

from __future__ import annotations

import weakref

import pytest
from framejit.frontend.runtime import _hook as hook

from .handles import compiled, inner, inner_compiled, plain

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


def test_hit_runs_the_compiled_function():
    entry = hook.Entry(None, inner_compiled)
    handle = compiled(inner, entry)
    assert handle(3) == ("compiled", 3)
    assert entry.hits == 1 and handle.root.misses == 0


def test_miss_compiles_once_and_then_hits():
    made = []

    def on_miss(site, function, slots):
        assert hook.is_quiet()
        made.append((site, function, slots))
        return hook.Entry(None, inner_compiled, data="mine")

    handle = compiled(inner, on_miss=on_miss)
    assert handle(1) == ("compiled", 1) and handle(2) == ("compiled", 2)
    assert made == [(handle.root, inner, (1,))]
    (entry,) = handle.root.entries
    assert entry.hits == 2 and entry.data == "mine" and handle.root.misses == 1


def test_on_miss_may_decline_raise_or_be_wrong():
    handle = compiled(inner, on_miss=lambda *a: None)
    assert handle(1) == ("eager", 1) and handle.root.misses == 1
    handle.root.on_miss = lambda *a: 1 / 0
    with pytest.raises(ZeroDivisionError):
        handle(1)
    handle.root.on_miss = lambda *a: "an entry"
    with pytest.raises(TypeError, match="Entry or None"):
        handle(1)


def test_on_miss_may_add_the_entry_itself():
    def on_miss(site, function, slots):
        entry = hook.Entry(None, inner_compiled)
        site.add(entry)
        return entry

    handle = compiled(inner, on_miss=on_miss)
    assert handle(1) == ("compiled", 1)
    assert len(handle.root.entries) == 1


def test_an_entry_without_code_says_run_eager():
    entry = hook.Entry()
    handle = compiled(inner, entry)
    assert handle(1) == ("eager", 1)
    assert entry.hits == 1 and handle.root.misses == 0


def test_skip_looks_at_nothing():
    handle = compiled(inner, hook.Entry(None, inner_compiled))
    handle.root.skip = True
    assert handle(1) == ("eager", 1) and handle.root.misses == 0
    handle.root.skip = False
    assert handle(1) == ("compiled", 1)


def test_site_lists_adds_and_removes():
    site, first, second = hook.Site(inner, 1), hook.Entry(), hook.Entry()
    site.add(first)
    site.add(second)
    assert site.entries == (second, first)
    site.remove(first)
    with pytest.raises(ValueError):
        site.remove(first)
    assert site.entries == (second,)
    site.clear()
    assert site.entries == ()
    with pytest.raises(TypeError):
        site.add(inner)
    site.note, site.data = 1, 2
    assert site.__dict__ == {"note": 1} and weakref.ref(site)() is site


@pytest.mark.parametrize(
    "make",
    [
        lambda: hook.Entry(object(), inner),
        lambda: hook.Entry(None, 3),
        lambda: hook.Entry(None, None, 3),
        lambda: hook.Entry(None, inner_compiled, direct=3),
        lambda: hook.Entry(None, inner_compiled, direct=(len, [0], ())),
        lambda: hook.Entry(None, inner_compiled, direct=(len, ("a",), ())),
        lambda: hook.Site(3, 1),
        lambda: hook.Site(inner, 1, 3),
        lambda: hook.Handle(len, hook.Site(inner, 1)),
        lambda: hook.Handle(inner, None),
        lambda: hook.ContinuationMaker(hook.Site(None, 1)),
        lambda: hook.Quiet(3),
    ],
)
def test_wrong_types_are_refused(make):
    with pytest.raises(TypeError):
        make()


def test_wrong_values_are_refused():
    with pytest.raises(ValueError):
        hook.Site(inner, -1)
    with pytest.raises(ValueError, match="2 slots, inner has 1"):
        hook.Handle(inner, hook.Site(inner, 2))
    with pytest.raises(ValueError):
        hook.Entry(None, None, compile("x", "<m>", "exec"))

    def generator():
        yield

    with pytest.raises(ValueError):
        hook.Entry(None, None, generator.__code__)


def test_an_entry_of_code_takes_the_sites_closure():
    def outer(k):
        def f(x, *rest, **kw):
            return ("eager", x, rest, kw, k)

        def g(x, *rest, **kw):
            return ("compiled", x, rest, kw, k)

        return f, g

    f, g = outer("mine")
    code = outer("other")[1].__code__
    assert compiled(f, hook.Entry(code=code))(1, 2, a=3) == ("compiled", 1, (2,), {"a": 3}, "mine")
    with pytest.raises(SystemError, match="free variables"):
        compiled(inner, hook.Entry(code=code))(1)


@pytest.mark.parametrize("make", [tuple, list, iter])
def test_a_graph_of_one_result_is_called_instead_of_the_code(make):
    entry = hook.Entry(
        None, lambda a, b: "code", direct=(lambda *args: make([("graph", *args)]), (1, 0, 1), ())
    )
    assert compiled(plain, entry)("x", "y") == ("graph", "y", "x", "y")


def test_such_a_graph_may_fail():
    def graph(a):
        raise {"value": ValueError, "passed on": LookupError, "exit": KeyboardInterrupt}[a](a)

    handle = compiled(
        inner, hook.Entry(None, lambda a: "code", direct=(graph, (0,), (LookupError,)))
    )
    assert handle("value") == "code"
    for error in (KeyError, LookupError, KeyboardInterrupt):
        with pytest.raises(error):
            handle(
                {KeyError: "unknown", LookupError: "passed on", KeyboardInterrupt: "exit"}[error]
            )
    for wrong in ((), (1, 2), 3):
        handle = compiled(
            inner,
            hook.Entry(None, lambda a: "code", direct=(lambda a, wrong=wrong: wrong, (0,), ())),
        )
        assert handle(1) == "code"
