"""Checks that need a process of their own (see `test_in_child`)."""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import types
import unittest
from pathlib import Path

import pytest
from framejit.frontend.runtime import _hook as hook

from ...fork_server import ForkServer
from .handles import (
    calls_inner,
    compiled,
    depth_reached,
    descend,
    frame_sites,
    hooked,
    inner,
    inner_compiled,
    many,
    site_of,
)

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


def check_deep_recursion_is_pythons():
    """Plain Python needs no C stack to recurse, so the recursion limit has to stay what ends it,
    whatever the stack."""
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
            thread = threading.Thread(
                target=lambda f=function, r=results: r.append(depth_reached(f))
            )
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
    """An evaluator that was there before us goes on seeing frames; one that comes over us and goes
    is survived."""
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


def check_evaluators_that_go_out_of_turn_are_not_left_behind(folder):
    """As torch.compile's in one thread and ours in another: each goes while the other is there."""
    other = build_evaluator(folder)

    def frames_seen():
        before = other.seen()
        inner(1)
        return other.seen() - before

    def leave_alone(handle, code, function):
        return None

    def over(x):
        other.put()  # over ours
        hook.disable_call(inner, (x,))  # ours off and on again
        inner(x)
        other.leave()

    handle = compiled(over, on_frame=leave_alone)
    handle(1)
    assert not frames_seen() and not hook.installed()

    def stays(x):
        other.put()
        hook.disable_call(inner, (x,))

    handle = compiled(stays, on_frame=leave_alone)
    handle(1)
    assert frames_seen()
    other.leave()
    inner(1)
    assert not frames_seen() and not hook.installed()

    def comes_again(x):
        other.put()

    handle = compiled(comes_again, on_frame=leave_alone)
    other.put()
    handle(1)
    other.leave()
    inner(1)
    assert not frames_seen() and not hook.installed()


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
void leave(void) {
    PyInterpreterState *interp = PyInterpreterState_Main();
    if (_PyInterpreterState_GetEvalFrameFunc(interp) != below) _PyInterpreterState_SetEvalFrameFunc(interp, below);
}
long seen(void) { return count; }
"""


def build_evaluator(folder):
    """A shared object with an evaluator that counts frames."""
    source, library = f"{folder}/evaluator.c", f"{folder}/evaluator.so"
    with open(source, "w") as file:
        file.write(EVALUATOR)
    include = sysconfig.get_path("include")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", f"-I{include}", source, "-o", library], check=True
    )
    loaded = ctypes.PyDLL(library)
    loaded.seen.restype = ctypes.c_long
    return loaded


class Program:
    """Stands for a guard program: `check(slots, function)` says whether it holds, `lifted` is what
    it lifts."""

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
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
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
    numbers = [
        hook.Entry(Program(lambda s, f, n=n: s[0] == n), lambda x, n=n: ("compiled for", n))
        for n in range(4)
    ]
    handle = compiled(inner, *numbers)
    assert [handle(n) for n in (2, 2, 0, 3, 9)] == [("compiled for", n) for n in (2, 2, 0, 3)] + [
        ("eager", 9)
    ]
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
    in_place = hook.Entry(
        program, code=(lambda x, extra: (x, extra, [x, x, extra, extra, x])[:2]).__code__
    )
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
    handle = compiled(
        inner, on_miss=lambda *a: hook.Entry(Program(lambda s, f: False), inner_compiled)
    )
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
            wrong = (
                hook.installed() or hook.current_handle() is not None or inner(1) != ("eager", 1)
            )
            os._exit(wrong or handle_of_inner() != ("compiled", 1))
        return os.waitpid(child, 0)[1], inner(1)

    def calls():
        return inner(1)

    on_frame, _ = frame_sites({inner.__code__: site})
    handle_of_inner = compiled(calls, on_frame=on_frame)
    assert compiled(body, on_frame=on_frame)() == (0, ("compiled", 1))


def check_the_standard_librarys_tests_pass_when_every_frame_is_swapped():
    """Each code object met is "compiled" to a copy of itself that needs a larger frame."""
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # one of them sends it; background jobs start without
    names = [
        f"test.test_{name}"
        for name in ("scope", "generators", "contextlib", "call", "raise", "with", "json")
    ]
    swapped = 0

    def on_miss(site, function, slots):
        nonlocal swapped
        swapped += 1
        code = site.data
        return hook.Entry(code=code.replace(co_stacksize=code.co_stacksize + 7), needs_hook=True)

    def on_frame(handle, code, function):
        arguments = (
            code.co_argcount
            + code.co_kwonlyargcount
            + bool(code.co_flags & 4)
            + bool(code.co_flags & 8)
        )
        return hook.Site(None, arguments, on_miss, code.replace())

    def run():
        suite = unittest.defaultTestLoader.loadTestsFromNames(names)
        return unittest.TextTestRunner(verbosity=0).run(suite)

    handle = compiled(run, on_frame=on_frame)
    if (
        importlib.util.find_spec("test") is None
        or importlib.util.find_spec("test.test_scope") is None
    ):
        return  # a Python without its tests
    result = handle()
    assert result.wasSuccessful() and result.testsRun > 400, result
    assert (
        swapped > 500
        and sum(entry.hits for _, site in handle.sites() for entry in site.entries) > 100_000
    )


def check_a_failing_on_frame_is_reported_with_the_hook_off():
    """In a child: an audit hook stays for good. It hears of sys.unraisablehook, and its frame is
    new to the handle too."""
    heard = []

    def audit(event, arguments):
        if event == "sys.unraisablehook":
            heard.append(event)

    sys.addaudithook(audit)
    sys.unraisablehook = lambda unraisable: heard.append("reported")
    assert compiled(calls_inner, on_frame=lambda *a: 1 / 0)(1) == ("eager", 1)
    assert heard == ["sys.unraisablehook", "reported"]


def check_sub_interpreters_are_refused():
    """In a child: once another interpreter was made, PyGILState_Check is off, which torch's
    autograd engine takes for a bug."""
    interpreters = importlib.import_module(
        "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    )
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
MODULE = "tests.frontend.runtime.test_eval_hook_in_child"


@pytest.fixture(scope="module")
def server():
    with ForkServer(MODULE, path=Path(__file__).parents[3]) as server:
        yield server


@pytest.mark.parametrize("name", CHILD_CHECKS)
def test_in_child(name, server, tmp_path):
    folder = repr(str(tmp_path)) if globals()[name].__code__.co_argcount else ""
    done = server.run(f"import {MODULE} as checks\nchecks.{name}({folder})", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
