"""framejit.debug(): tracers, profilers, debuggers and coverage see what they see without framejit;
and generated text is found."""

from __future__ import annotations

import ast
import cProfile
import gc
import io
import linecache
import pdb
import pstats
import sys

import framejit
import pytest
import torch

X = torch.ones(2)


def inner(x):
    return x.sin()


def outer(x):
    y = x + 1
    y = inner(y)
    return y * 2


LINES = [outer.__code__.co_firstlineno + number for number in (1, 2, 3)] + [
    inner.__code__.co_firstlineno + 1
]


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    framejit.set_stance("default")


def warmed():
    handle = framejit.compile(outer)
    handle(X)
    return handle


def traced_lines(call):
    seen = []

    def trace(frame, event, argument):
        if event == "line" and frame.f_code in (inner.__code__, outer.__code__):
            seen.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return sorted(seen)


def monitored_lines(call):
    tool, seen = 4, []
    sys.monitoring.use_tool_id(tool, "test")
    sys.monitoring.register_callback(
        tool, sys.monitoring.events.LINE, lambda code, line: seen.append((code, line))
    )
    sys.monitoring.set_events(tool, sys.monitoring.events.LINE)
    try:
        call()
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    return sorted(line for code, line in seen if code in (inner.__code__, outer.__code__))


def profiled_functions(call):
    profile = cProfile.Profile()
    profile.runcall(call)
    return sorted(
        name
        for file, _, name in pstats.Stats(profile).stats
        if name in ("inner", "outer") and file == __file__
    )


WATCHERS = [(traced_lines, sorted(LINES)), (profiled_functions, ["inner", "outer"])]
if hasattr(sys, "monitoring"):
    WATCHERS.append((monitored_lines, sorted(LINES)))


@pytest.mark.parametrize("watch, whole", WATCHERS)
def test_watchers_see_everything(watch, whole):
    handle = warmed()
    with framejit.debug():
        assert watch(lambda: handle(X)) == whole


def test_a_debugger_stops_in_an_inlined_function(capsys):
    handle = warmed()
    line = inner.__code__.co_firstlineno + 1
    commands = io.StringIO(
        f"break {__file__}:{line}\ncontinue\nprint('x is', x.tolist())\nclear 1\ncontinue\n"
    )
    told = io.StringIO()
    debugger = pdb.Pdb(stdin=commands, stdout=told, nosigint=True, readrc=False)
    before = sys.gettrace()
    try:
        with framejit.debug():
            debugger.runcall(handle, X)
    finally:
        sys.settrace(before)
    assert "x is [2.0, 2.0]" in told.getvalue() + capsys.readouterr().out


def test_it_is_a_stance():
    handle = warmed()
    entry = handle.framejit.cache.root.entries[0]

    def is_compiled():
        before = entry.hits
        handle(X)
        return entry.hits > before

    @framejit.debug()
    def decorated():
        return is_compiled()

    assert is_compiled() and not decorated() and is_compiled()
    framejit.debug()
    assert not is_compiled()
    framejit.set_stance("default")
    assert is_compiled()


def step(x, items):
    y = x.sin()
    items.append(y)
    print("a break")
    return y * 2


def test_live_entries_read_as_python():
    handle = framejit.compile(step)
    handle(X, [])
    first, second = handle.framejit.generated_code()
    for one in (first, second):
        ast.parse(one.text)
        assert "".join(linecache.getlines(one.file)) == one.text
    assert (
        first.text.startswith("def may_run(x, items):")
        and "type(items) is list and  # " in first.text
    )
    assert (
        "list.extend(items, [" in first.text
        and "print('a break')" in first.text
        and "return rest(" in first.text
    )
    assert second.text.startswith("def may_run(state):") and "graph(" in second.text
    assert [one.file for one in handle.framejit.generated_code()] == [first.file, second.file]
    linecache.checkcache()
    assert linecache.getlines(first.file)


def test_text_goes_with_its_entry():
    handle = framejit.compile(step)
    handle(X, [])
    name = handle.framejit.generated_code()[0].file
    handle.framejit.reset()
    gc.collect()
    assert linecache.getlines(name) == []


def test_a_traceback_shows_the_line_of_a_host_program():
    handle = framejit.compile(lambda x, y: (x @ y).sin() + 1, backend="native")
    with torch.no_grad():
        handle(torch.ones(2, 2), torch.ones(2, 2))
    texts = [
        "".join(linecache.getlines(name))
        for name in list(linecache.cache)
        if name.startswith("<framejit native")
    ]
    assert any("def call(" in text and "mm" in text for text in texts)
