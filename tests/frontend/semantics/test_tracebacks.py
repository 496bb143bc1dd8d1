"""Exceptions raised by Python behind a break: on their way out of inlined functions, each adds its
entry to the traceback."""

from __future__ import annotations

import contextlib
import traceback

import pytest

from .harness import check, vec


class Manager:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


@contextlib.contextmanager
def noted():
    try:
        yield
    finally:
        print("left")


def leaves_a_with(x):
    with Manager():
        print("break")
        raise RuntimeError("x")


def leaves_a_generators_with(x):
    with noted():
        print("break")
        raise RuntimeError("x")


def leaves_a_finally(x):
    try:
        print("break")
        raise RuntimeError("x")
    finally:
        x = x + 1


def is_not_caught(x):
    try:
        print("break")
        raise RuntimeError("x")
    except ValueError:
        return x


def is_raised_again(x):
    try:
        print("break")
        raise RuntimeError("x")
    except RuntimeError:
        x = x + 2
        raise


def generated(x):
    yield x
    try:
        print("break")
        raise RuntimeError("x")
    finally:
        x = x + 1


def leaves_a_generator(x):
    for y in generated(x):
        x = x + y
    return x


def within(x, step):
    with Manager():
        return step(x) * 2


def again():
    raise  # noqa: PLE0704 - what the caller handles


class Made:
    def __init__(self, x, step):
        self.made = step(x)


def entries(error):
    return [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]


def caught(x, step):
    try:
        return step(x)
    except RuntimeError as error:
        return x.sin(), entries(error)


def caught_and_kept(x, step):
    try:
        return within(x, step)
    except RuntimeError as error:
        kept = error
    x = x.sin()
    return x, entries(kept)


def passed_on(x, step):
    with Manager():
        return within(x, step)


def passed_on_by_a_generators_manager(x, step):
    with noted():
        return step(x) * 2


def not_caught(x, step):
    try:
        return step(x) * 2
    except ValueError:
        return x


def behind_a_builtin(x, step):
    try:
        return list(map(lambda y: step(y), [x, x]))
    except RuntimeError as error:
        return x.cos(), entries(error)


def while_an_object_is_made(x, step):
    try:
        return Made(x, step).made
    except RuntimeError as error:
        y = x + 1
        return y, entries(error)


def raised_again_elsewhere(x, step):
    try:
        try:
            return step(x)
        except RuntimeError:
            x = x + 1
            again()
    except RuntimeError as error:
        return x.cos(), entries(error)


def in_a_comprehension(x, step):
    try:
        return [step(y) for y in (x,)]
    finally:
        x = x.cos()


STEPS = (
    leaves_a_with,
    leaves_a_generators_with,
    leaves_a_finally,
    is_not_caught,
    is_raised_again,
    leaves_a_generator,
)
CALLERS = (caught, caught_and_kept, passed_on, passed_on_by_a_generators_manager, not_caught, behind_a_builtin, while_an_object_is_made,
           raised_again_elsewhere, in_a_comprehension)  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.__name__)
def test_every_frame_it_leaves_is_in_the_traceback(caller, step):
    check(caller, vec(2), step, graphs=None, breaks=None)


def test_what_the_handlers_compute_is_still_compiled():
    def f(x):
        try:
            is_raised_again(x)
        except RuntimeError:
            x = x.sin() + 1
        return x.cos()

    check(f, vec(2), graphs=1, breaks=None)
