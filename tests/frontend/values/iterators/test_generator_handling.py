"""A generator that waits inside an exception handler: what it handles is its own, not the exception
of those who resume it."""

from __future__ import annotations

import sys

import framejit
import pytest

from ...semantics.harness import check, vec


@framejit.disable
def outside():
    pass


def names(error):
    """The classes of an exception and of its contexts."""
    found = []
    while error is not None:
        found.append(type(error).__name__)
        error = error.__context__
    return found


def handling(x, log):
    try:
        raise ValueError("its own")
    except ValueError:
        yield x + 1
        log.append(sys.exc_info()[0])
        yield x + 2
    log.append(sys.exc_info()[0])
    yield x + 3


def caught(x, log):
    try:
        yield x + 1
    except ValueError:
        yield x + 2
        raise KeyError("in the handler")


def again(x, log):
    try:
        raise ValueError("its own")
    except ValueError:
        yield x + 1
        raise


def outer(x, log):
    try:
        raise IndexError("of the outer one")
    except IndexError:
        yield from handling(x, log)
        log.append(sys.exc_info()[0])


def thrown_into(x, log):
    made = caught(x, log)
    next(made)
    y = made.throw(ValueError)
    log.append(sys.exc_info()[0])
    try:
        next(made)
    except KeyError as error:
        log.append(names(error))
    return y


def resumed_in_a_handler(x, log):
    made = handling(x, log)
    y = next(made)
    try:
        raise KeyError("here")
    except KeyError:
        y = y + next(made)
        log.append(sys.exc_info()[0])
        y = y * next(made)
        log.append(sys.exc_info()[0])
    log.append(sys.exc_info()[0])
    return y


def started_in_a_handler(x, log):
    try:
        raise KeyError("here")
    except KeyError:
        made = handling(x, log)
        y = next(made)
    log.append(sys.exc_info()[0])
    y = y + next(made) + next(made)
    log.append(sys.exc_info()[0])
    return y


def raised_again(x, log):
    made = again(x, log)
    y = next(made)
    try:
        raise KeyError("here")
    except KeyError:
        try:
            next(made)
        except ValueError as error:
            log.append((error.args, names(error)))
    return y


def thrown_while_it_handles(x, log):
    made = handling(x, log)
    y = next(made)
    try:
        made.throw(IndexError("thrown"))
    except IndexError as error:
        log.append(names(error))
    return y, sys.exc_info()[0]


def delegated(x, log):
    y = x
    for each in outer(x, log):
        y = y + each
        log.append(sys.exc_info()[0])
        try:
            raise KeyError("here")
        except KeyError as error:
            log.append(names(error))
    return y


def thrown_by_who_handles(x, log):
    made = caught(x, log)
    next(made)
    try:
        raise KeyError("here")
    except KeyError:
        try:
            made.throw(IndexError("thrown"))
        except IndexError as error:
            log.append(names(error))
    return x + 1


ALL = [
    thrown_into,
    resumed_in_a_handler,
    started_in_a_handler,
    raised_again,
    thrown_while_it_handles,
    thrown_by_who_handles,
    delegated,
]


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_what_a_waiting_generator_handles_is_its_own(f):
    check(f, vec(3), [])


def test_it_still_waits_when_the_frame_ends():
    def f(x, log):
        made = handling(x, [])
        y = next(made)
        try:
            raise KeyError("here")
        except KeyError as error:
            log.append(names(error))
        log.append(made)
        return y

    check(f, vec(3), [], graphs=None, breaks=None)


def test_thrown_through_one_that_handles():
    def f(x, log):
        made = outer(x, log)
        next(made)
        try:
            made.throw(KeyError("thrown"))
        except KeyError as error:
            log.append(names(error))
        return x + 1

    check(f, vec(3), [], graphs=None, breaks=None)


def test_a_break_while_it_waits():
    def f(x, log):
        made = handling(x, log)
        y = next(made)
        outside()
        try:
            raise KeyError("here")
        except KeyError as error:
            log.append(names(error))
            y = y + next(made)
        outside()
        return y + next(made), sys.exc_info()[0]

    check(f, vec(3), [], graphs=None, breaks=None)
