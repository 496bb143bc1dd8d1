"""framejit.compile as a decorator, on methods; handles and their independence; nesting, recursion,
threads, leaks."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import threading
import warnings
import weakref

import framejit
import pytest
import torch

from .harness import capture_events, check, strict_compile, vec


def test_decorator_without_and_with_arguments():
    @framejit.compile
    def plain(x):
        """Doc."""
        return x + 1

    @framejit.compile(backend="eager", fullgraph=True)
    def given(x, *, k=2):
        return x * k

    x = vec(2)
    assert torch.equal(plain(x), x + 1) and torch.equal(given(x, k=5), x * 5)
    assert (
        plain.__name__ == "plain"
        and plain.__doc__ == "Doc."
        and inspect.signature(given).parameters["k"].default == 2
    )
    assert plain.__wrapped__(x).equal(x + 1)
    assert plain.framejit.compiles == given.framejit.compiles == 1


def test_methods():
    class Thing:
        def __init__(self, k):
            self.k = k

        @framejit.compile
        def go(self, x):
            return x * self.k

        @classmethod
        @framejit.compile
        def of_class(cls, x):
            return x + 1, cls

        @staticmethod
        @framejit.compile
        def static(x):
            return x - 1

    x = vec(2)
    one, two = Thing(2), Thing(3)
    assert (
        torch.equal(one.go(x), x * 2)
        and torch.equal(two.go(x), x * 3)
        and torch.equal(Thing.go(one, x), x * 2)
    )
    assert Thing.of_class(x)[1] is Thing and torch.equal(Thing.static(x), x - 1)
    bound = framejit.compile(two.go)
    assert torch.equal(bound(x), x * 3) and bound.__self__ is two


def test_wrong_uses():
    with pytest.raises(ValueError, match="eager"):
        framejit.compile(lambda x: x, backend="no such backend")
    with pytest.raises(ValueError, match="max-autotune"):
        framejit.compile(lambda x: x, mode="fast")
    with pytest.raises(ValueError):
        framejit.compile(lambda x: x, options={"zz": 1})
    with pytest.raises(TypeError):
        framejit.compile(3)
    with pytest.raises(TypeError):
        framejit.compile(torch.nn.Linear)


def test_disable_argument():
    def f(x):
        return x + 1

    assert framejit.compile(f, disable=True) is f
    with framejit.config.patch(disable=True):
        assert framejit.compile(f) is f


def test_two_handles_are_independent():
    def f(x):
        return x + 1

    counts = [0, 0]

    def counting(which):
        def backend(gm, example_inputs):
            counts[which] += 1
            return gm.forward

        return backend

    a, b = framejit.compile(f, backend=counting(0)), framejit.compile(f, backend=counting(1))
    x = vec(2)
    a(x), a(x), b(x), b(x)
    assert counts == [1, 1] and a.framejit.compiles == b.framejit.compiles == 1
    a.framejit.reset()
    a(x), b(x)
    assert counts == [2, 1]
    assert not isinstance(f, type(a)) and torch.equal(f(x), x + 1)


def test_nested_handles_are_inlined():
    @framejit.compile
    def inner(x):
        return x * 2

    class Thing:
        @framejit.compile
        def go(self, x):
            return x - 1

    def f(x, t):
        return inner(x + 1) + t.go(x)

    check(f, vec(2), Thing())
    g, before = strict_compile(f), inner.framejit.compiles
    g(vec(2), Thing())
    assert inner.framejit.compiles == before and g.framejit.compiles == 1


def test_handle_of_a_handle():
    def f(x):
        return x + 1

    g = framejit.compile(framejit.compile(f))
    assert g.__wrapped__ is f and torch.equal(g(vec(2)), vec(2) + 1)


def test_nested_handle_with_a_break():
    @framejit.compile
    def inner(x):
        y = x * 2
        print("inner")
        return y + 1

    def f(x):
        return inner(x + 1) * 3

    check(f, vec(2), graphs=None, breaks=None)


def test_handle_passed_and_returned_and_stored():
    @framejit.compile
    def inner(x):
        return x * 2

    def f(x, g, items):
        items.append(g)
        return g(x), g, [inner], functools.partial(inner, x)

    h, items = strict_compile(f), []
    y, g, (i,), p = h(vec(2), inner, items)
    assert (
        torch.equal(y, vec(2) * 2)
        and g is inner
        and i is inner
        and items == [inner]
        and torch.equal(p(), vec(2) * 2)
    )


def test_recursion():
    @framejit.compile
    def f(x, n):
        return x if n == 0 else f(x + 1, n - 1) * 2

    def eager(x, n):
        return x if n == 0 else eager(x + 1, n - 1) * 2

    for n in (0, 1, 5):
        assert torch.equal(f(vec(2), n), eager(vec(2), n))


def test_recursion_with_a_break():
    @framejit.compile
    def f(x, n, log):
        y = x + 1
        log.append(n)
        framejit.graph_break()
        if n:
            y = f(y, n - 1, log) * 2
        log.append(-n)
        return y - 1

    def eager(x, n, log):
        y = x + 1
        log.append(n)
        if n:
            y = eager(y, n - 1, log) * 2
        log.append(-n)
        return y - 1

    mine, theirs = [], []
    assert torch.equal(f(vec(2), 4, mine), eager(vec(2), 4, theirs)) and mine == theirs


def test_is_compiling():
    def f(x):
        return x + 1 if framejit.is_compiling() else x - 1

    def g(x):
        return x + 1 if torch.compiler.is_compiling() else x - 1

    for function in (f, g):
        handle = strict_compile(function)
        assert torch.equal(handle(vec(2)), vec(2) + 1)
        assert torch.equal(function(vec(2)), vec(2) - 1)


def test_allow_in_graph():
    calls = []

    @framejit.allow_in_graph
    def opaque(x, k):
        calls.append(k)
        return x * k

    def f(x):
        return opaque(x + 1, 3) - 1

    for backend, again in (
        ("eager", 1),
        ("aot_eager", 0),
    ):  # a node of the graph; what goes on to ATen looks through it
        g = strict_compile(f, fullgraph=True, backend=backend)
        assert torch.equal(g(vec(2)), (vec(2) + 1) * 3 - 1)
        n = len(calls)
        assert torch.equal(g(vec(2)), (vec(2) + 1) * 3 - 1)
        assert len(calls) == n + again and g.framejit.compiles == 1


def test_reset():
    g = strict_compile(lambda x: x + 1)
    g(vec(2))
    framejit.reset()
    g(vec(2))
    assert g.framejit.compiles == 2


def test_threads():
    def f(x, log):
        y = x * 2
        log.append(1)
        framejit.graph_break()
        z = y + threading.get_ident() * 0
        log.append(2)
        return z.amax()  # which no order of the elements changes

    g, errors, results = strict_compile(f), [], []
    start = threading.Barrier(8)

    def work(n):
        try:
            start.wait()
            for k in range(30):
                log = []
                value = g(vec(n + 1), log)
                results.append(torch.equal(value, f(vec(n + 1), [])) and log == [1, 2])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n % 4,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(results) == 240 and all(results)


def test_dropped_handle_frees_all():
    class Marker:
        pass

    marker = Marker()
    weight = torch.ones(3)
    refs = [weakref.ref(marker), weakref.ref(weight)]

    def make(marker, weight):
        def f(x):
            y = x + 1
            framejit.graph_break()
            return y * weight, marker

        g = framejit.compile(f)
        g(vec(3))
        return g

    g = make(marker, weight)
    refs += [weakref.ref(g.framejit.cache), weakref.ref(g.function)]
    del marker, weight, g
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


def test_arguments_are_not_kept():
    class Box:
        def __init__(self, t):
            self.t = t

    def f(box, items):
        y = box.t + 1
        items.append(y)
        framejit.graph_break()
        return y * 2

    g = strict_compile(f)
    box, items = Box(vec(3)), [vec(2)]
    refs = [weakref.ref(box), weakref.ref(box.t), weakref.ref(items[0])]
    out = g(box, items)
    refs.append(weakref.ref(out))
    refs.append(weakref.ref(items[1]))
    del box, items, out
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


def test_dropped_module_is_freed():
    m = framejit.compile(torch.nn.Linear(2, 2))
    m(vec(2))
    refs = [weakref.ref(m), weakref.ref(m.weight)]
    del m
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_recompile_limit():
    def f(x, n):
        return x + n

    with framejit.config.patch(recompile_limit=2, specialize_int=True):
        g = strict_compile(f)
    for n in range(5):
        assert torch.equal(g(vec(2), n), vec(2) + n)
    assert g.framejit.compiles == 2
    with framejit.config.patch(
        recompile_limit=2, specialize_int=True, fail_on_recompile_limit_hit=True
    ):
        h = strict_compile(f)
    h(vec(2), 0), h(vec(2), 1)
    with pytest.raises(framejit.RecompileLimitError):
        h(vec(2), 2)


def test_function_without_tensors_makes_no_graph():
    def f(a, b):
        return [a + b, {"k": a}]

    check(f, 1, 2, graphs=0)


def test_internal_failure_falls_back_once(monkeypatch):
    from framejit.frontend.runtime import pipeline

    monkeypatch.setattr(pipeline.Compilation, "run", lambda self: 1 / 0)

    def f(x, log):
        log.append(1)
        return x + 1

    with framejit.config.patch(strict=False):
        g, log = framejit.compile(f), []
    with pytest.warns(UserWarning, match="framejit: internal failure.*FRAMEJIT_STRICT"):
        assert torch.equal(g(vec(2), log), vec(2) + 1)
    assert torch.equal(g(vec(2), log), vec(2) + 1) and log == [1, 1]
    with pytest.raises(framejit.InternalError):
        strict_compile(f)(vec(2), [])


def test_an_internal_failure_warns_once_a_cause(monkeypatch):
    from framejit.frontend.runtime import pipeline

    def fails(*args):
        raise LookupError("planted")

    monkeypatch.setattr(pipeline.Compilation, "run", fails)
    monkeypatch.setattr(framejit.errors, "_warned", set())
    with framejit.config.patch(strict=False), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):  # functions of their own

            def step(x):
                return x + 1

            assert torch.equal(framejit.compile(step)(vec(2)), vec(2) + 1)
        monkeypatch.setattr(pipeline.Compilation, "run", lambda self: 1 / 0)
        framejit.compile(lambda x: x * 2)(vec(2))
    told = [str(one.message) for one in caught if "internal failure" in str(one.message)]
    assert (
        len(told) == 2
        and "LookupError: planted" in told[0]
        and "framejit.disable" in told[0]
        and "ZeroDivisionError" in told[1]
    )


def test_failing_backend():
    def bad(gm, example_inputs):
        raise KeyError("bad backend")

    def f(x, log):
        log.append(1)
        return x + 1

    log = []
    with pytest.raises(framejit.BackendError, match="bad") as caught:
        framejit.compile(f, backend=bad)(vec(2), log)
    assert isinstance(caught.value.__cause__, KeyError) and log == []
    with framejit.config.patch(suppress_errors=True):
        g = framejit.compile(f, backend=bad)
    with pytest.warns(UserWarning):
        assert torch.equal(g(vec(2), log), vec(2) + 1)
    assert log == [1]


def test_copy_and_weakref_of_a_handle():
    @framejit.compile
    def f(x):
        return x + 1

    assert copy.copy(f)(vec(2)).equal(vec(2) + 1)
    assert copy.deepcopy({"f": f})["f"](vec(2)).equal(vec(2) + 1)
    assert weakref.ref(f)() is f


def test_events_say_what_happened():
    def f(x):
        y = x + 1
        print("x")
        return y * 2

    g = strict_compile(f)
    events = capture_events(g)
    g(vec(2))
    kinds = [type(event).__name__ for event in events]
    assert kinds.count("Break") == 1 and kinds.count("Captured") == 2
    broken = next(event for event in events if type(event).__name__ == "Break")
    assert broken.where == f"{__file__}:{f.__code__.co_firstlineno + 2}" and broken.hint


def test_tracing_tools_see_a_plain_program():
    import sys

    lines = []

    def f(x):
        y = x + 1
        return y

    def tracer(frame, event, arg):
        if frame.f_code is f.__code__:
            lines.append((event, frame.f_lineno - f.__code__.co_firstlineno))
        return tracer

    g = strict_compile(f)
    sys.settrace(tracer)
    try:
        g(vec(2))
    finally:
        sys.settrace(None)
    assert ("line", 1) in lines and ("return", 2) in lines


def test_an_unknown_option_is_refused():
    for change in (
        lambda: setattr(framejit.config, "unrolling", 3),
        lambda: framejit.config.patch(unrolling=3),
    ):
        with pytest.raises(AttributeError, match="no option 'unrolling'; it has: backend, "):
            change()
