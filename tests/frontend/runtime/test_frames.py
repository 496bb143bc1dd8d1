"""Frames met while the hook is on."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import traceback
import types

import framejit
import pytest
import torch
from framejit.frontend.runtime import _hook as hook

from .handles import (
    calls_inner,
    compiled,
    frame_sites,
    hooked,
    inner,
    inner_compiled,
    site_of,
    stack_names,
)

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


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
    assert (
        handle(0) == ("eager", 0) and handle(1) == ("compiled", 1) and handle(2) == ("compiled", 2)
    )
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
            return (
                ("compiled", (lambda: x)(), rest, a, kw, k) if big and one + two == three else None
            )

        return f, g

    f, _ = outer("mine")
    f2, _ = outer("other")
    flat_code = outer(0)[1].__code__
    flat_code = flat_code.replace(
        co_argcount=4, co_kwonlyargcount=0, co_flags=flat_code.co_flags & ~12
    )
    function = types.FunctionType(flat_code, globals(), closure=outer("mine")[1].__closure__)
    entry = hook.Entry(code=outer(0)[1].__code__) if in_place else hook.Entry(None, function)
    on_frame, _ = frame_sites({f.__code__: site_of(f, entry)})

    def nested(h):
        return h(1), h(2, 3, 4, a=5, b=6)

    handle = compiled(nested, on_frame=on_frame)
    assert handle(f) == (
        ("compiled", 1, (), 1, {}, "mine"),
        ("compiled", 2, (3, 4), 5, {"b": 6}, "mine"),
    )
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
    assert seen and not [
        code for code in seen if code.co_flags & flags or not code.co_flags & inspect.CO_OPTIMIZED
    ]


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
    on_frame, _ = frame_sites(
        {inner.__code__: site_of(inner, hook.Entry(code=inner_compiled.__code__))}
    )
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
    graph = hook.Quiet(lambda x: (hook.installed(), hook.is_quiet(), inner(x)))

    def body(x):
        return (
            inner(x),
            hook.disable_call(inner, (x,), {}),
            hook.Quiet(inner)(x),
            graph(x),
            inner(x),
        )

    handle = compiled(body, on_frame=frame_sites({inner.__code__: site})[0])
    e, c = ("eager", 1), ("compiled", 1)
    assert handle(1) == (c, e, e, (False, True, e), c)
    assert graph.wrapped(1)[1] is False

    def fails():
        raise KeyError

    for call in (
        hook.Quiet(fails),
        lambda: hook.disable_call(fails, ()),
    ):
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
    """Frames grow in place where the data stack has room and are replaced by a call where it has
    none."""

    def down(n):
        return n and down(n - 1) + 1

    def rebuilt(n):
        a = b = c = d = e = f = g = h = i = j = k = m = o = p = q = r = n
        big = [a, b, c, d, e, f, g, h, i, j, k, m, o, p, q, r, *[n] * 2]
        return n and down(n - 1) + 1 + len(big) - 18

    cell = down.__closure__
    rebuilt = types.FunctionType(rebuilt.__code__, globals(), closure=cell)
    entry = hook.Entry(code=rebuilt.__code__, needs_hook=True)
    handle = compiled(
        lambda n: down(n), on_frame=frame_sites({down.__code__: site_of(down, entry)})[0]
    )
    for n in (*range(0, 400, 3), 700):
        assert handle(n) == n
    assert entry.hits > 700


def test_callbacks_of_the_garbage_collector_stay_in_python():
    """They interrupt a function between any two instructions, and are no part of it."""
    seen, events = [], []

    def callback(phase, info):
        seen.append(torch.ones(2) + 1)

    def collects(x):
        gc.collect()
        return x * 2

    with framejit.config.patch(sinks=(events.append,)):
        handle = framejit.compile(collects, backend="eager")
    gc.callbacks.append(callback)
    try:
        for _ in range(3):
            torch.testing.assert_close(handle(torch.ones(2)), torch.full((2,), 2.0))
    finally:
        gc.callbacks.remove(callback)
    assert len(seen) >= 6
    functions = {
        event.function.rpartition(".")[2] for event in events if hasattr(event, "function")
    }
    assert functions == {"collects"}, functions


async def waits(x):
    await asyncio.sleep(0)
    return x.sin()


def gives(x):
    yield x.sin()


async def gives_later(x):
    yield x.sin()


@pytest.mark.parametrize(
    ("fn", "kind"),
    [(waits, "an async function"), (gives, "a generator"), (gives_later, "an async generator")],
)
def test_functions_whose_frames_stay_in_python_say_so(fn, kind):
    handle = framejit.compile(fn, backend="eager")
    assert type(handle(torch.ones(2))) is type(fn(torch.ones(2)))
    (left,) = handle.framejit.explain().skipped
    assert left.reason.startswith(f"{kind} runs in Python")
    whole = framejit.compile(fn, backend="eager", fullgraph=True)
    with pytest.raises(framejit.GraphBreakError, match=kind):
        whole(torch.ones(2))


class Tee:
    """A standard output that keeps what is printed, with a method of its own for that."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.keep(text)
        return len(text)

    def keep(self, text):
        self.text += text

    def flush(self):
        pass


def test_a_standard_output_in_python_stays_in_python(monkeypatch):
    """As in a notebook: all that print() calls there was compiled."""

    @framejit.compile(backend="eager")
    def step(x):
        y = x + 1
        print("half")
        return y * 2

    monkeypatch.setattr("sys.stdout", tee := Tee())
    for _ in range(3):
        assert torch.equal(step(torch.ones(2)), torch.full((2,), 4.0))
    assert tee.text == "half\n" * 3
    assert step.framejit.compiles == 2
