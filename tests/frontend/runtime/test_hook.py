"""The frame hook: handles, sites, entries, continuations and the evaluator, with hand-made "compiled" code.

Compiled code is any function whose arguments are the slots of the original; it says that it ran by its result.
Run as a script, this file makes the checks that need a process of their own (see `test_in_child`).
"""
from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import importlib
import importlib.util
import inspect
import os
import resource
import signal
import subprocess
import sys
import sysconfig
import threading
import traceback
import types
import unittest
import weakref

import pytest
from framejit.frontend.runtime import _hook as hook


@pytest.fixture(autouse=True)
def _untraced_and_clean():
    """Handles step aside while anyone traces (a coverage run does), so these tests cannot."""
    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    yield
    assert not hook.installed()
    assert hook.current_handle() is None
    assert not hook.is_quiet()
    sys.setprofile(profiler)
    sys.settrace(tracer)


def slot_count(function):
    code = function.__code__
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


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


# ---- entries and sites ----


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
    entry = hook.Entry(None, lambda a, b: "code", direct=(lambda *args: make([("graph", *args)]), (1, 0, 1), ()))
    assert compiled(plain, entry)("x", "y") == ("graph", "y", "x", "y")


def test_such_a_graph_may_fail():
    def graph(a):
        raise {"value": ValueError, "passed on": LookupError, "exit": KeyboardInterrupt}[a](a)

    handle = compiled(inner, hook.Entry(None, lambda a: "code", direct=(graph, (0,), (LookupError,))))
    assert handle("value") == "code"
    for error in (KeyError, LookupError, KeyboardInterrupt):
        with pytest.raises(error):
            handle({KeyError: "unknown", LookupError: "passed on", KeyboardInterrupt: "exit"}[error])
    for wrong in ((), (1, 2), 3):
        handle = compiled(inner, hook.Entry(None, lambda a: "code", direct=(lambda a, wrong=wrong: wrong, (0,), ())))
        assert handle(1) == "code"


# ---- binding ----


def plain(a, b):
    return ("a b", a, b)


def defaults(a, b=2, c=3):
    return ("defaults", a, b, c)


def keyword_only(a, *, k, m=5):
    return ("keyword only", a, k, m)


def everything(p, /, a, b=2, *rest, k, m=7, **kw):
    return ("everything", p, a, b, rest, k, m, kw)


def only_rest(*rest):
    return ("only rest", rest)


def only_kw(**kw):
    return ("only kw", kw)


def nothing():
    tag = "nothing"
    return [tag]


def many(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9=0):
    return ("many", a0, a9, b0, b9)


CALLS = {
    plain: [
        ((1, 2), {}), ((1,), {"b": 2}), ((), {"b": 2, "a": 1}),
        ((1,), {}), ((1, 2, 3), {}), ((1, 2), {"a": 1}), ((1, 2), {"z": 1}),
    ],
    defaults: [
        ((1,), {}), ((1, 5), {}), ((1, 5, 6), {}), ((1,), {"c": 9}), ((), {"a": 0}), ((), {}), ((1, 2, 3, 4), {}),
    ],
    keyword_only: [
        ((1,), {"k": 2}), ((1,), {"k": 2, "m": 3}), ((), {"a": 1, "k": 2}), ((1,), {}), ((1, 2), {"k": 1}),
    ],
    everything: [
        ((1, 2), {"k": 3}), ((1, 2, 3, 4, 5), {"k": 3, "z": 1}), ((1,), {"a": 2, "k": 3, "p": 9}),
        ((1, 2), {}), ((), {"p": 1, "a": 2, "k": 3}), ((1, 2), {"a": 3, "k": 1}),
    ],
    only_rest: [((), {}), ((1, 2), {}), ((), {"a": 1})],
    only_kw: [((), {}), ((), {"a": 1}), ((1,), {})],
    nothing: [((), {}), ((1,), {}), ((), {"a": 1})],
    many: [*((tuple(range(n)), {}) for n in (18, 19, 20, 21)), (tuple(range(18)), {"b8": 1, "b9": 5})],
}  # fmt: skip
BINDINGS = [(function, *call) for function, calls in CALLS.items() for call in calls]


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


def outcome(function, args, kwargs):
    try:
        return tuple(function(*args, **kwargs))
    except TypeError as error:
        return str(error), len(traceback.extract_tb(error.__traceback__))


@pytest.mark.parametrize("function, args, kwargs", BINDINGS)
@pytest.mark.parametrize("needs_hook", [False, True])
def test_binding_is_pythons(function, args, kwargs, needs_hook):
    handle = compiled(function, hook.Entry(None, flat(function), needs_hook=needs_hook))
    expected = outcome(function, args, kwargs)
    if isinstance(expected[-1], int) and isinstance(expected[0], str) and "()" in expected[0]:
        assert outcome(handle, args, kwargs) == expected
    else:
        name, *values = expected
        assert outcome(handle, args, kwargs) == (f"compiled {name}", *values)


@pytest.mark.parametrize("function, args, kwargs", BINDINGS)
def test_eager_gets_the_call_as_it_came(function, args, kwargs):
    assert outcome(compiled(function), args, kwargs) == outcome(function, args, kwargs)


def test_defaults_are_read_at_the_call():
    def f(a, b=1, *, k=2):
        return (a, b, k)

    handle = compiled(f, hook.Entry(None, lambda a, b, k: ("compiled", a, b, k)))
    assert handle(0) == ("compiled", 0, 1, 2)
    f.__defaults__, f.__kwdefaults__ = (10,), {"k": 20}
    assert handle(0) == ("compiled", 0, 10, 20)
    f.__defaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        handle(0)
    f.__kwdefaults__ = None
    with pytest.raises(TypeError, match="keyword-only"):
        handle(0, 1)


def test_keywords_of_a_str_subclass_are_left_to_python():
    class Name(str):
        pass

    handle = compiled(plain, hook.Entry(None, flat(plain)))
    assert handle(1, **{Name("b"): 2}) == ("a b", 1, 2)


# ---- the handle as an object ----


def test_handle_is_a_method():
    class C:
        pass

    def method(self, x):
        return ("eager", self, x)

    C.method = compiled(method, hook.Entry(None, lambda self, x: ("compiled", self, x)))
    c = C()
    assert c.method(1) == ("compiled", c, 1) == C.method(c, 1) == c.method(1)
    assert type(c.method) is types.MethodType and C.method is C.__dict__["method"]


def test_handle_wears_the_functions_name():
    def f(a, b=1):
        """Doc."""

    handle = functools.update_wrapper(compiled(f), f)
    assert handle.__name__ == "f" and handle.__doc__ == "Doc." and handle.__wrapped__ is f
    assert inspect.signature(handle) == inspect.signature(f)
    assert handle.function is f and weakref.ref(handle)() is handle
    handle.anything = 1
    assert "anything" in handle.__dict__ and repr(handle).startswith("<framejit handle of test_handle")
    with pytest.raises(AttributeError):
        _ = handle.missing


def test_a_replaced_code_object_runs_plainly():
    def f(x):
        return ("eager", x)

    handle = compiled(f, hook.Entry(None, inner_compiled))
    code = f.__code__
    f.__code__ = (lambda x: ("new", x)).__code__
    assert handle(1) == ("new", 1)
    f.__code__ = code
    assert handle(1) == ("compiled", 1)


def test_plain_while_quiet_or_disabled():
    handle = compiled(inner, hook.Entry(None, inner_compiled))
    assert hook.quiet_call(handle, 1) == ("eager", 1) == hook.quiet_call(handle, x=1)
    assert hook.set_enabled(False) is True
    try:
        assert handle(1) == ("eager", 1)
    finally:
        assert hook.set_enabled(True) is False
    assert handle(1) == ("compiled", 1)


def watched(function, *args):
    events = []
    sys.settrace(lambda frame, event, arg: events.append(frame.f_code.co_name))
    try:
        return function(*args), events
    finally:
        sys.settrace(None)


def profiled(function, *args):
    events = []
    sys.setprofile(lambda frame, event, arg: events.append(frame.f_code.co_name))
    try:
        return function(*args), events
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("watch", [watched, profiled])
def test_steps_aside_for_tracers(watch):
    handle = compiled(inner, hook.Entry(None, inner_compiled))
    result, events = watch(handle, 1)
    assert result == ("eager", 1) and "inner" in events
    assert handle(1) == ("compiled", 1)
    nested, _ = hooked(calls_inner, hook.Entry(None, inner_compiled))

    def outer():
        return watch(calls_inner, 1)

    result, events = compiled(outer, on_frame=nested.on_frame)()
    assert result == ("eager", 1) and "inner" in events


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of 3.12")
@pytest.mark.parametrize("where", ["global", "local"])
def test_steps_aside_for_monitoring(where):
    handle, tool, seen = compiled(inner, hook.Entry(None, inner_compiled)), 4, []
    monitoring = sys.monitoring
    start = monitoring.events.PY_START
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, start, lambda code, offset: seen.append(code.co_name))
        assert handle(1) == ("compiled", 1)
        if where == "global":
            monitoring.set_events(tool, start)
        else:
            monitoring.set_local_events(tool, inner.__code__, start)
        assert handle(1) == ("eager", 1) and "inner" in seen
    finally:
        monitoring.set_events(tool, 0)
        monitoring.set_local_events(tool, inner.__code__, 0)
        monitoring.free_tool_id(tool)
    assert handle(1) == ("compiled", 1)


# ---- the hook ----


def test_eager_meets_nested_frames():
    entry = hook.Entry(code=inner_compiled.__code__)
    site = site_of(inner, entry)
    on_frame, asked = frame_sites({inner.__code__: site})
    handle = compiled(calls_inner, on_frame=on_frame)
    assert [handle(i) for i in range(3)] == [("compiled", i) for i in range(3)]
    assert asked == [("inner", inner)] and entry.hits == 3
    assert (inner.__code__, site) in handle.sites()
    handle.forget()
    assert handle.sites() == [] and handle(1) == ("compiled", 1) and len(asked) == 2


def test_none_is_remembered():
    on_frame, asked = frame_sites({})
    handle = compiled(calls_inner, on_frame=on_frame)
    assert handle(1) == handle(1) == ("eager", 1)
    assert asked == [("inner", inner)]
    assert compiled(calls_inner)(1) == ("eager", 1)


@pytest.mark.parametrize("bad", [lambda *a: 1 / 0, lambda *a: 3, lambda *a: hook.Site(None, 9)])
def test_a_failing_on_frame_does_not_fail_the_call(bad, monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    handle = compiled(calls_inner, on_frame=bad)
    assert handle(1) == handle(1) == ("eager", 1)
    assert len(raised) == 1


def test_frame_miss_compiles_with_slots_and_function():
    made = []

    def on_miss(site, function, slots):
        assert hook.is_quiet()
        made.append((function, slots))
        return hook.Entry(code=inner_compiled.__code__) if slots[0] else None

    on_frame, _ = frame_sites({inner.__code__: site_of(inner, on_miss=on_miss)})
    handle = compiled(calls_inner, on_frame=on_frame)
    assert handle(0) == ("eager", 0) and handle(1) == ("compiled", 1) and handle(2) == ("compiled", 2)
    assert made == [(inner, (0,)), (inner, (1,))]


def test_frame_miss_may_raise():
    on_frame, _ = frame_sites({inner.__code__: site_of(inner, on_miss=lambda *a: 1 / 0)})
    handle = compiled(calls_inner, on_frame=on_frame)
    for _ in range(100):
        with pytest.raises(ZeroDivisionError):
            handle(1)


@pytest.mark.parametrize("in_place", [True, False])
def test_frames_with_cells_closures_and_variadics(in_place):
    def outer(k):
        def f(x, *rest, a=1, **kw):
            return ("eager", (lambda: x)(), rest, a, kw, k)

        def g(x, *rest, a=1, **kw):
            big = [x, rest, a, kw, k, (lambda: x)()]
            one, two, three = 1, 2, 3
            return ("compiled", (lambda: x)(), rest, a, kw, k) if big and one + two == three else None

        return f, g

    f, _ = outer("mine")
    f2, _ = outer("other")
    flat_code = outer(0)[1].__code__
    flat_code = flat_code.replace(co_argcount=4, co_kwonlyargcount=0, co_flags=flat_code.co_flags & ~12)
    function = types.FunctionType(flat_code, globals(), closure=outer("mine")[1].__closure__)
    entry = hook.Entry(code=outer(0)[1].__code__) if in_place else hook.Entry(None, function)
    on_frame, _ = frame_sites({f.__code__: site_of(f, entry)})

    def nested(h):
        return h(1), h(2, 3, 4, a=5, b=6)

    handle = compiled(nested, on_frame=on_frame)
    assert handle(f) == (("compiled", 1, (), 1, {}, "mine"), ("compiled", 2, (3, 4), 5, {"b": 6}, "mine"))
    if in_place:
        assert handle(f2)[0][-1] == "other"
    assert entry.hits >= 2


def test_methods_with_super_and_names():
    class Base:
        def who(self, x):
            return ("base", x)

    class C(Base):
        def who(self, x):
            return super().who(x)

        def compiled(self, x):
            return ("compiled", *super().who(x))

    entry = hook.Entry(code=C.compiled.__code__)
    on_frame, _ = frame_sites({C.who.__code__: site_of(C.who, entry)})
    assert compiled(lambda c: c.who(1), on_frame=on_frame)(C()) == ("compiled", "base", 1)


def test_generators_coroutines_and_class_bodies_are_untouched():
    def generator(n):
        got = yield n
        yield got

    async def coroutine(n):
        await asyncio.sleep(0)
        return n

    async def asynchronous():
        yield 1

    def body():
        class Inner:
            x = [i for i in range(3)]

        g = generator(1)
        values = next(g), g.send(2)
        with pytest.raises(KeyError):
            g.throw(KeyError)

        async def main():
            return [i async for i in asynchronous()] + [await coroutine(5)]

        return Inner.x, values, asyncio.run(main()), list(generator(3))

    seen = []
    handle = compiled(body, on_frame=lambda handle, code, function: seen.append(code))
    assert handle() == body()
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    assert seen and not [code for code in seen if code.co_flags & flags or not code.co_flags & inspect.CO_OPTIMIZED]


def test_the_root_code_met_again_uses_the_root_site():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    handle = compiled(fib)
    assert handle(10) == 55
    assert handle.root.misses == 177
    assert handle.sites() == [(fib.__code__, handle.root)]


def test_exceptions_and_tracebacks_show_no_frames_of_ours():
    def fails(x):
        raise ValueError(x)

    def nested(x):
        return fails(x)

    site = site_of(fails, hook.Entry(code=fails.__code__))
    handle = compiled(nested, on_frame=frame_sites({fails.__code__: site})[0])
    for target in (handle, compiled(nested, hook.Entry(None, nested, needs_hook=True))):
        with pytest.raises(ValueError) as caught:
            target(1)
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names == ["test_exceptions_and_tracebacks_show_no_frames_of_ours", "nested", "fails"]
        assert not hook.installed()


def stack_names():
    frame, names = sys._getframe(1), []
    while frame is not None and len(names) < 4:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def test_f_back_and_frame_objects():
    def rebuilt(x):
        local = x + 1
        return stack_names(), sys._getframe(), local

    def nested(x):
        return inner(x)

    entry = hook.Entry(code=rebuilt.__code__)
    handle = compiled(nested, on_frame=hooked(nested, entry)[0].on_frame)
    names, frame, _ = handle(4)
    assert names[:3] == ["rebuilt", "nested", "test_f_back_and_frame_objects"]
    assert frame.f_locals == {"x": 4, "local": 5} and frame.f_code is rebuilt.__code__
    assert inspect.getframeinfo(frame).function == "rebuilt"


@pytest.mark.parametrize("needs_hook, expected", [(True, "compiled"), (False, "eager")])
def test_needs_hook_decides_whether_nested_frames_are_met(needs_hook, expected):
    on_frame, _ = frame_sites({inner.__code__: site_of(inner, hook.Entry(code=inner_compiled.__code__))})
    seen = []

    def body(x):
        seen.append((hook.installed(), hook.current_handle()))
        return inner(x)

    handle = compiled(calls_inner, hook.Entry(None, body, needs_hook=needs_hook), on_frame=on_frame)
    assert handle(1) == (expected, 1)
    assert seen == [(needs_hook, handle if needs_hook else None)]


@pytest.mark.parametrize("needs_hook", [True, False])
def test_frame_entries_decide_too(needs_hook):
    code = (lambda x: (hook.current_handle() is not None, x)).__code__
    entry = hook.Entry(code=code, needs_hook=needs_hook)
    handle, _ = hooked(lambda x: (inner(x), hook.current_handle() is not None), entry)
    assert handle(1) == ((needs_hook, 1), True)


def test_nested_handles_and_restoring():
    seen = []

    def low(x):
        seen.append(hook.current_handle())
        if x:
            raise KeyError(x)

    lower = compiled(low)

    def high(x):
        try:
            lower(x)
        except KeyError:
            pass
        seen.append(hook.current_handle())

    higher = compiled(high)
    higher(0), higher(1)
    assert seen == [lower, higher] * 2


def test_disable_call_and_quiet_put_the_hook_to_sleep():
    entry = hook.Entry(code=inner_compiled.__code__)
    site = site_of(inner, entry)
    graph = hook.Quiet(lambda x: (hook.installed(), hook.is_quiet(), inner(x)), rng="r")

    def body(x):
        return inner(x), hook.disable_call(inner, (x,), {}), hook.quiet_call(inner, x), graph(x), inner(x)

    handle = compiled(body, on_frame=frame_sites({inner.__code__: site})[0])
    e, c = ("eager", 1), ("compiled", 1)
    assert handle(1) == (c, e, e, (False, True, e), c)
    assert graph.rng == "r" and graph.wrapped(1)[1] is False

    def fails():
        raise KeyError

    for call in (hook.Quiet(fails), lambda: hook.quiet_call(fails), lambda: hook.disable_call(fails, ())):
        with pytest.raises(KeyError):
            compiled(lambda call: call())(call)


def test_installed_only_while_on():
    assert not hook.installed()
    assert compiled(lambda: hook.installed())() is True
    assert compiled(inner, hook.Entry(None, lambda x: hook.installed()))(1) is False


def test_dropped_while_running():
    site = hook.Site(inner, 1)

    def suicidal(x):
        site.clear()
        gc.collect()
        return ("compiled", x)

    site.add(hook.Entry(None, suicidal))
    assert hook.Handle(inner, site)(1) == ("compiled", 1)
    assert site.entries == ()


def test_growing_frames_survive_the_end_of_a_chunk():
    """Frames grow in place where the data stack has room and are replaced by a call where it has none."""

    def down(n):
        return n and down(n - 1) + 1

    def rebuilt(n):
        a = b = c = d = e = f = g = h = i = j = k = m = o = p = q = r = n
        big = [a, b, c, d, e, f, g, h, i, j, k, m, o, p, q, r, *[n] * 2]
        return n and down(n - 1) + 1 + len(big) - 18

    cell = down.__closure__
    rebuilt = types.FunctionType(rebuilt.__code__, globals(), closure=cell)
    entry = hook.Entry(code=rebuilt.__code__, needs_hook=True)
    handle = compiled(lambda n: down(n), on_frame=frame_sites({down.__code__: site_of(down, entry)})[0])
    for n in (*range(0, 400, 3), 700):
        assert handle(n) == n
    assert entry.hits > 700


# ---- continuations ----


def counting_site(limit):
    """A loop of pieces: state (i, total) -> the next piece, or the total."""

    def piece(state):
        i, total = state
        return total if i == limit else again((i + 1, total + i))

    site = hook.Site(piece, 1)
    again = hook.ContinuationMaker(site)
    return site, again


@pytest.mark.parametrize("eager", [True, False])
def test_a_million_continuations(eager):
    site, again = counting_site(1_000_000)
    first = hook.ContinuationMaker(site, eager=eager)
    if not eager:
        site.add(hook.Entry(None, site.function))
    handle = compiled(inner, hook.Entry(None, lambda x: first((0, 0))))
    before = resident()
    assert handle(1) == sum(range(1_000_000))
    assert resident() - before < 4_000_000


def test_continuations_out_of_frames():
    site, again = counting_site(1000)
    handle, _ = hooked(calls_inner, hook.Entry(None, lambda x: again((0, x))))
    assert handle(5) == 5 + sum(range(1000))
    in_place = hook.Entry(code=with_constant("def rebuilt(x): again = 'K'; return again((0, x))", again))
    handle, _ = hooked(calls_inner, in_place)
    assert handle(5) == 5 + sum(range(1000)) and in_place.hits == 1


def with_constant(source, value):
    """The code of the function in `source`, with `value` for its constant 'K'."""
    namespace = {}
    exec(source, namespace)
    (function,) = (v for k, v in namespace.items() if isinstance(v, types.FunctionType))
    code = function.__code__
    return code.replace(co_consts=tuple(value if c == "K" else c for c in code.co_consts))


def test_continuations_miss_and_compile():
    def on_miss(site, function, slots):
        return hook.Entry(None, lambda state: ("compiled", state))

    site = hook.Site(lambda state: ("eager", state), 1, on_miss)
    lazy, eager = hook.ContinuationMaker(site), hook.ContinuationMaker(site, eager=True)
    assert compiled(inner, hook.Entry(None, lambda x: eager((x,))))(1) == ("eager", (1,)) and site.misses == 0
    assert compiled(inner, hook.Entry(None, lambda x: lazy((x,))))(1) == ("compiled", (1,)) and site.misses == 1
    site.on_miss, _ = None, site.clear()
    assert compiled(inner, hook.Entry(None, lambda x: lazy((x,))))(1) == ("eager", (1,))
    site.on_miss = lambda *a: 1 / 0
    with pytest.raises(ZeroDivisionError):
        compiled(inner, hook.Entry(None, lambda x: lazy((x,))))(1)


def test_continuations_run_at_the_callers_depth():
    def last(state):
        return stack_names()

    def fails(state):
        raise ValueError(state)

    names = hook.ContinuationMaker(hook.Site(last, 1), eager=True)
    error = hook.ContinuationMaker(hook.Site(fails, 1))
    assert compiled(inner, hook.Entry(None, lambda x: names(x)))(1)[:2] == ["last", stack_names()[0]]
    rebuilt = with_constant("def rebuilt(x): names = 'K'; return names(x)", names)
    nested, _ = hooked(calls_inner, hook.Entry(code=rebuilt))
    assert nested(1)[:3] == ["last", "calls_inner", stack_names()[0]]
    with pytest.raises(ValueError) as caught:
        compiled(inner, hook.Entry(None, lambda x: error(x)))(1)
    assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][1:] == ["fails"]


def test_continuations_keep_the_hook_on():
    def last(state):
        return inner(state)

    maker = hook.ContinuationMaker(hook.Site(last, 1))
    on_frame, _ = frame_sites({inner.__code__: site_of(inner, hook.Entry(code=inner_compiled.__code__))})
    handle = compiled(calls_inner, hook.Entry(None, lambda x: maker(x)), on_frame=on_frame)
    assert handle(1) == ("compiled", 1)


def test_a_frames_variables_go_before_its_continuation_runs():
    class Big:
        pass

    alive = []

    def last(state):
        return [ref() for ref in alive]

    source = "def rebuilt(x):\n    tools = 'K'\n    big = tools[0]()\n    tools[1](big)\n    return tools[2](None)"
    tools = (Big, lambda big: alive.append(weakref.ref(big)), hook.ContinuationMaker(hook.Site(last, 1)))
    handle, _ = hooked(calls_inner, hook.Entry(code=with_constant(source, tools)))
    assert handle(1) == [None]


@pytest.mark.parametrize("eager", [True, False])
def test_a_piece_may_let_its_state_go(eager):
    class Big:
        pass

    def last(state):
        (big,) = state
        gone = weakref.ref(big)
        del state, big
        return gone()

    site = hook.Site(last, 1)
    if not eager:
        site.add(hook.Entry(None, last, needs_hook=True))
    maker = hook.ContinuationMaker(site)
    handle = compiled(inner, hook.Entry(None, lambda x: maker((Big(),))))
    assert handle(1) is None
    nested, _ = hooked(calls_inner, hook.Entry(None, lambda x: maker((Big(),))))
    assert nested(1) is None


def test_continuation_makers_take_the_state_only():
    maker = hook.ContinuationMaker(hook.Site(inner, 1))
    made = maker((1,))
    assert type(made) is hook.Continuation and made.state == (1,) and made.site is maker.site and not made.eager
    for args, kwargs in (((), {}), ((1, 2), {}), ((), {"state": 1})):
        with pytest.raises(TypeError):
            maker(*args, **kwargs)


# ---- recursion ----


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


def test_recursion_is_as_deep_as_pythons():
    plain_depth = depth_reached(descend)
    assert depth_reached(compiled(descend)) > plain_depth - 20
    entry = hook.Entry(code=descend.__code__, needs_hook=True)
    assert depth_reached(compiled(descend, entry)) > plain_depth - 20

    def through_handle(note, n):
        note(n)
        return handle(note, n + 1)

    for entry in (hook.Entry(None, through_handle), hook.Entry(None, through_handle, needs_hook=True), hook.Entry()):
        handle = compiled(through_handle, entry)
        assert depth_reached(handle) > plain_depth - 20


# ---- life and death ----


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
        if code.co_name != "fresh":  # an audit hook that hears of exec, as the filelock library's does
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
        nested, _ = hooked(lambda a, n: [inner(a) for _ in range(n)] and None, hook.Entry(code=inner_compiled.__code__))
        nested(marker, hits)
        bound = compiled(everything, hook.Entry(None, flat(everything)))
        direct = compiled(inner, hook.Entry(None, inner_compiled, needs_hook=True))
        for _ in range(hits):
            direct(marker)
            bound(marker, other, other, marker, k=other, z=marker)
        for _ in range(compiles):
            fresh = compiled(inner, on_miss=lambda *a: hook.Entry(None, inner_compiled, inner_compiled.__code__))
            assert fresh(marker) == ("compiled", marker)
            nested, _ = hooked(calls_inner, hook.Entry(code=inner_compiled.__code__))
            assert nested(other) == ("compiled", other)

    rounds(1_000, 200)
    before, memory = counts(), resident()
    rounds(100_000, 2_000)
    assert counts() == before
    assert resident() - memory < 4_000_000


# ---- threads ----


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


# ---- checks in a process of their own ----


def check_deep_recursion_is_pythons():
    """Plain Python needs no C stack to recurse, so the recursion limit has to stay what ends it, whatever the stack."""
    limit = 150_000
    sys.setrecursionlimit(limit)

    def through_handles(note, n):
        note(n)
        return handle(note, n + 1)

    handle = compiled(through_handles)
    for size in (0, 2**20, 2**24):
        threading.stack_size(size)
        for function, enough in ((compiled(descend), limit - 100), (handle, 300)):
            results = []
            thread = threading.Thread(target=lambda f=function, r=results: r.append(depth_reached(f)))
            thread.start()
            thread.join()
            assert results[0] > enough, (size, results)
    threading.stack_size(0)

    def down(n):
        return n and down(n - 1) + 1

    assert compiled(down)(100_000) == compiled(lambda n: down(n))(100_000) == 100_000
    entry = hook.Entry(code=down.__code__, needs_hook=True)
    assert compiled(down, entry)(100_000) == 100_000 and entry.hits > 1000
    assert not hook.installed()


def check_another_evaluator_is_chained(folder):
    """An evaluator that was there before us goes on seeing frames; one that comes over us and goes is survived."""
    other = build_evaluator(folder)
    other.put()
    handle, _ = hooked(calls_inner, hook.Entry(code=inner_compiled.__code__))
    before = other.seen()
    assert handle(1) == ("compiled", 1) and other.seen() >= before + 2
    assert not hook.installed()
    before = other.seen()
    inner(1)
    assert other.seen() > before
    other.take()

    def body(x):
        other.put()
        return inner(x), inner(x)

    over = compiled(body, on_frame=handle.on_frame)
    assert over(1) == (("compiled", 1),) * 2 and not hook.installed()
    assert handle(1) == ("compiled", 1) and over(1) == (("compiled", 1),) * 2
    other.take()


EVALUATOR = """
#include <Python.h>
struct _PyInterpreterFrame;
static long count;
static _PyFrameEvalFunction below;
static PyObject *evaluate(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag) {
    count++;
    return below(tstate, frame, throwflag);
}
void put(void) {
    PyInterpreterState *interp = PyInterpreterState_Main();
    _PyFrameEvalFunction there = _PyInterpreterState_GetEvalFrameFunc(interp);
    if (there != evaluate) below = there;
    _PyInterpreterState_SetEvalFrameFunc(interp, evaluate);
}
void take(void) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Main(), _PyEval_EvalFrameDefault); }
long seen(void) { return count; }
"""


def build_evaluator(folder):
    """A shared object with an evaluator that counts frames."""
    source, library = f"{folder}/evaluator.c", f"{folder}/evaluator.so"
    with open(source, "w") as file:
        file.write(EVALUATOR)
    include = sysconfig.get_path("include")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", f"-I{include}", source, "-o", library], check=True)
    loaded = ctypes.PyDLL(library)
    loaded.seen.restype = ctypes.c_long
    return loaded


class Program:
    """Stands for a guard program: `check(slots, function)` says whether it holds, `lifted` is what it lifts."""

    def __init__(self, check, lifted=None):
        self.check, self.lifted = check, lifted


class GuardApi(ctypes.Structure):
    _fields_ = [("program_type", ctypes.py_object), ("run", ctypes.c_void_p)]


def run_program(program, slots, nslots, function, lifted):
    if not program.check([slots[i] for i in range(nslots)], function):
        return 0
    if program.lifted is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(program.lifted))
        lifted[0] = id(program.lifted)
    return 1


def install_guards():
    """A capsule like the guard evaluator's, made of Python."""
    signature = ctypes.PYFUNCTYPE(
        ctypes.c_int,
        ctypes.py_object,
        ctypes.POINTER(ctypes.py_object),
        ctypes.c_ssize_t,
        ctypes.py_object,
        ctypes.POINTER(ctypes.c_void_p),
    )
    callback = signature(run_program)
    api = GuardApi(Program, ctypes.cast(callback, ctypes.c_void_p))
    name = b"framejit.guards.native._guards.api"
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    module = types.ModuleType("framejit.guards.native._guards")
    module.api, module.keep = new(ctypes.addressof(api), name, None), (api, callback, name)
    sys.modules["framejit.guards.native._guards"] = module
    parent = sys.modules["framejit"]
    for part in ("guards", "native"):
        child = getattr(parent, part, None) or types.ModuleType(part)
        setattr(parent, part, child)
        parent = child
    parent._guards = module


def check_guards_choose_the_entry():
    install_guards()
    numbers = [hook.Entry(Program(lambda s, f, n=n: s[0] == n), lambda x, n=n: ("compiled for", n)) for n in range(4)]
    handle = compiled(inner, *numbers)
    assert [handle(n) for n in (2, 2, 0, 3, 9)] == [("compiled for", n) for n in (2, 2, 0, 3)] + [("eager", 9)]
    assert [entry.hits for entry in numbers] == [1, 0, 2, 1] and handle.root.misses == 1
    assert handle.root.entries == tuple(numbers[i] for i in (3, 0, 2, 1))


def check_guards_see_the_function_and_lift():
    install_guards()
    seen = []

    def check(slots, function):
        seen.append((slots, function))
        return True

    lifted = ("lifted",)
    program = Program(check, lifted)
    references = sys.getrefcount(lifted)
    entry = hook.Entry(program, lambda x, extra: (x, extra))
    assert compiled(inner, entry)(1) == (1, lifted) and seen == [([1], inner)]
    wide = hook.Entry(program, lambda *a: a)
    assert compiled(many, wide)(*range(20)) == (*range(20), lifted)
    in_place = hook.Entry(program, code=(lambda x, extra: (x, extra, [x, x, extra, extra, x])[:2]).__code__)
    handle, _ = hooked(calls_inner, in_place)
    assert handle(5) == (5, lifted) and seen[-1] == ([5], inner)
    by_call, _ = hooked(calls_inner, entry)
    assert by_call(6) == (6, lifted)
    eager = compiled(inner, hook.Entry(program))
    assert eager(7) == ("eager", 7)
    gc.collect()
    assert sys.getrefcount(lifted) == references


def check_new_entries_are_checked_too():
    install_guards()
    handle = compiled(inner, on_miss=lambda *a: hook.Entry(Program(lambda s, f: False), inner_compiled))
    assert handle(1) == ("eager", 1) and handle.root.rejected == 1 and len(handle.root.entries) == 1


def check_guards_may_drop_and_reorder_entries():
    install_guards()

    def clears(slots, function):
        site.clear()
        gc.collect()
        return slots[0] == 1

    site = hook.Site(inner, 1)
    handle = hook.Handle(inner, site)
    for x, expected in ((1, "compiled"), (2, "eager")):
        for _ in range(3):
            site.add(hook.Entry(Program(clears), inner_compiled))
        assert handle(x) == (expected, x) and site.entries == ()


def check_forked_children_start_with_the_hook_off():
    site = site_of(inner, hook.Entry(code=inner_compiled.__code__))

    def body():
        child = os.fork()
        if child == 0:
            wrong = hook.installed() or hook.current_handle() is not None or inner(1) != ("eager", 1)
            os._exit(wrong or handle_of_inner() != ("compiled", 1))
        return os.waitpid(child, 0)[1], inner(1)

    def calls():
        return inner(1)

    on_frame, _ = frame_sites({inner.__code__: site})
    handle_of_inner = compiled(calls, on_frame=on_frame)
    assert compiled(body, on_frame=on_frame)() == (0, ("compiled", 1))


def check_the_standard_librarys_tests_pass_when_every_frame_is_swapped():
    """Each code object met is "compiled" to a copy of itself that needs a larger frame."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # one of them sends it; background jobs start without
    names = [f"test.test_{name}" for name in ("scope", "generators", "contextlib", "call", "raise", "with", "json")]
    swapped = 0

    def on_miss(site, function, slots):
        nonlocal swapped
        swapped += 1
        code = site.data
        return hook.Entry(code=code.replace(co_stacksize=code.co_stacksize + 7), needs_hook=True)

    def on_frame(handle, code, function):
        arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        return hook.Site(None, arguments, on_miss, code.replace())

    def run():
        suite = unittest.defaultTestLoader.loadTestsFromNames(names)
        return unittest.TextTestRunner(verbosity=0).run(suite)

    handle = compiled(run, on_frame=on_frame)
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_scope") is None:
        return  # a Python without its tests
    result = handle()
    assert result.wasSuccessful() and result.testsRun > 400, result
    assert swapped > 500 and sum(entry.hits for _, site in handle.sites() for entry in site.entries) > 100_000


def check_a_failing_on_frame_is_reported_with_the_hook_off():
    """In a child: an audit hook stays for good. It hears of sys.unraisablehook, and its frame is new to the handle too."""
    heard = []

    def audit(event, arguments):
        if event == "sys.unraisablehook":
            heard.append(event)

    sys.addaudithook(audit)
    sys.unraisablehook = lambda unraisable: heard.append("reported")
    assert compiled(calls_inner, on_frame=lambda *a: 1 / 0)(1) == ("eager", 1)
    assert heard == ["sys.unraisablehook", "reported"]


def check_sub_interpreters_are_refused():
    """In a child: once another interpreter was made, PyGILState_Check is off, which torch's autograd engine takes for a bug."""
    interpreters = importlib.import_module("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
    script = f"""if True:
        from importlib.machinery import ExtensionFileLoader
        from importlib.util import module_from_spec, spec_from_loader
        loader = ExtensionFileLoader({hook.__name__!r}, {hook.__file__!r})  # without the package: torch dies in such interpreters
        try:
            loader.exec_module(module_from_spec(spec_from_loader(loader.name, loader)))
        except ImportError:
            pass
        else:
            raise AssertionError("imported")
    """
    interpreter = interpreters.create()
    try:
        assert interpreters.run_string(interpreter, script) is None
    finally:
        interpreters.destroy(interpreter)


CHILD_CHECKS = [name for name in dict(globals()) if name.startswith("check_")]


@pytest.mark.parametrize("name", CHILD_CHECKS)
def test_in_child(name, tmp_path):
    command = [sys.executable, "-X", "faulthandler", __file__, name, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    check = globals()[sys.argv[1]]
    check(*sys.argv[2:][: check.__code__.co_argcount])
