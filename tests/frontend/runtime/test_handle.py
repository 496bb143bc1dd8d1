"""The handle as an object: as a method, its name, and when it runs the plain function."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref

import pytest
from framejit.frontend.runtime import _hook as hook

from .handles import calls_inner, compiled, hooked, inner, inner_compiled, watched

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


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
    assert "anything" in handle.__dict__ and repr(handle).startswith(
        "<framejit handle of test_handle"
    )
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


def test_plain_while_quiet():
    handle = compiled(inner, hook.Entry(None, inner_compiled))
    quiet = hook.Quiet(handle)
    assert quiet(1) == ("eager", 1) == quiet(x=1)
    assert handle(1) == ("compiled", 1)


@pytest.mark.parametrize("by", [sys.settrace, sys.setprofile])
def test_steps_aside_for_tracers(by):
    handle = compiled(inner, hook.Entry(None, inner_compiled))
    result, events = watched(handle, 1, by=by)
    assert result == ("eager", 1) and "inner" in events
    assert handle(1) == ("compiled", 1)
    nested, _ = hooked(calls_inner, hook.Entry(None, inner_compiled))

    def outer():
        return watched(calls_inner, 1, by=by)

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
