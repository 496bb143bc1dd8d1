"""Code after a break that cannot be compiled: the error is raised at the break, inside the
program's handlers."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref

import framejit
import pytest
import torch


class Stop(BaseException):
    """Passes through a backend's callers as it is."""


class Noted:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("entered")

    def __exit__(self, *error):
        self.log.append(("left", error[0], modes()))


def modes():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
    )


def pause(log):
    log.append("break")
    sys._getframe()


def in_modes(x, step, log):
    with torch.no_grad(), torch.autocast("cpu", torch.float16), Noted(log):
        x = x.sin()
        pause(log)
        x = step(x)
        log.append("not reached")
    return x


def in_inference_mode(x, step, log):
    with torch.no_grad(), torch.inference_mode():
        x = x.sin()
        pause(log)
        x = step(x)
    return x


def with_a_finally(x, step, log):
    with torch.inference_mode():
        try:
            x = x.sin()
            pause(log)
            x = step(x)
        except ValueError:
            log.append("not reached")
        finally:
            log.append(("finally", modes()))
    return x


def in_a_called_frame(x, step, log):
    def inner(x):
        with torch.no_grad():
            try:
                pause(log)
                return step(x)
            finally:
                log.append(("inner", modes()))

    with Noted(log):
        return inner(x.sin()) + 1


def in_a_loop(x, step, log):
    for turn in range(2):
        with Noted(log):
            try:
                pause(log)
                x = step(x) if turn else x.sin()
            except BaseException as error:
                log.append((turn, type(error), sys.exception() is error))
                raise
    return x


def in_a_handler(x, step, log):
    try:
        raise KeyError("first")
    except KeyError:
        with Noted(log):
            pause(log)
            return step(x)


class Slotted:
    __slots__ = ()


def where_a_handler_begins(x, step, log):
    y = x.sin()
    try:
        Slotted().text = log
    except AttributeError:
        return step(y)


def where_an_inner_handler_begins(x, step, log):
    y = x.sin()
    try:
        raise KeyError("first")
    except KeyError:
        try:
            Slotted().text = log
        except AttributeError:
            return step(y)


def caught(x, step, log):
    x = x.sin()
    try:
        with torch.no_grad():
            pause(log)
            x = step(x)
    except Stop:
        log.append(("caught", modes()))
    return x * 2


def with_cells(x, step, log):
    def later():
        return x

    with Noted(log):
        pause(log)
        x = step(x)
    return later


PROGRAMS = [in_modes, in_inference_mode, with_a_finally, in_a_called_frame, in_a_loop, in_a_handler, where_a_handler_begins,
            where_an_inner_handler_begins, caught, with_cells]  # fmt: skip


def outcome(fn, step):
    """What the program notes, the modes behind it, and what it gives or raises: functions of this
    file that were left, and what was handled."""
    log, x = [], torch.ones(2, requires_grad=True)
    try:
        fn(x, step, log)
    except Stop as error:
        here = [
            frame.name
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == __file__
        ]
        log += [name for name in here if name not in ("refuse", "backend", "pause")]
        log.append(type(error.__context__))
    return log, modes()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_error_at_a_continuation_unwinds_the_program(program):
    def refuse(x):
        raise Stop

    def backend(gm, inputs):
        if any(node.target is torch.cos for node in gm.graph.nodes):
            raise Stop
        return gm.forward

    before = modes()
    wanted, got = (
        outcome(program, refuse),
        outcome(framejit.compile(program, backend=backend), torch.cos),
    )
    assert got == wanted and modes() == before


def test_the_same_call_can_be_compiled_afterwards():
    fails, log = [True], []

    def backend(gm, inputs):
        if fails and any(node.target is torch.cos for node in gm.graph.nodes):
            fails.clear()
            raise Stop
        return gm.forward

    handle = framejit.compile(in_modes, backend=backend)
    with pytest.raises(Stop):
        handle(torch.ones(2), torch.cos, log)
    assert torch.equal(handle(torch.ones(2), torch.cos, log), torch.ones(2).sin().cos())
    assert not fails and log[-2:] == [
        "not reached",
        ("left", None, (False, False, True, torch.float16)),
    ]


def test_a_forbidden_recompile_unwinds_the_program():
    def fn(x, number, log):
        with torch.inference_mode(), Noted(log):
            x = x.sin()
            pause(log)
            return x * number

    handle, log = framejit.compile(fn, backend="eager"), []
    handle(torch.ones(2), 2, log)
    with framejit.set_stance("fail_on_recompile"), pytest.raises(framejit.RecompileError):
        handle(torch.ones(2), 2.5j, log)
    assert log[-1][:2] == ("left", framejit.RecompileError) and modes()[:3] == (True, False, False)


def test_what_failed_is_not_kept_alive():
    class StoredAmount:
        pass

    def fn(x, held):
        with torch.no_grad():
            sys._getframe()
            return x.cos()

    def backend(gm, inputs):
        raise Stop

    held = StoredAmount()
    gone = weakref.ref(held)
    with pytest.raises(Stop):
        framejit.compile(fn, backend=backend)(torch.ones(2), held)
    del held
    gc.collect()
    assert gone() is None
