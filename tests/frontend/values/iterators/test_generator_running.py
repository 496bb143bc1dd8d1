"""A generator that is running: what its own body asks of it raises, and it goes on."""

from __future__ import annotations

import sys

import framejit
import pytest

from ...semantics.harness import check, vec

ASKED = [
    next,
    list,
    lambda made: made.send(None),
    lambda made: made.send(3),
    # not throw(): CPython 3.12 itself may crash there, as it reads the cache of a running call
]
NAMES = ["next", "list", "send", "send_3"]
if sys.version_info[:2] != (3, 12):  # where close() may crash for the same reason
    ASKED.append(lambda made: made.close())
    NAMES.append("close")


def names(error):
    """An exception and its context, as text."""
    return repr(error), repr(error.__context__)


@pytest.mark.parametrize("ask", ASKED, ids=NAMES)
def test_asked_by_its_body(ask):
    def f(x, log):
        def body():
            for n in range(2):
                try:
                    ask(made)
                except ValueError as error:
                    log.append(names(error))
                yield x + n

        made = body()
        return next(made) + next(made), next(made, None)

    check(f, vec(3), [])


@pytest.mark.parametrize("ask", ASKED, ids=NAMES)
def test_it_does_not_catch_that(ask):
    def f(x, log):
        def body():
            yield x
            ask(made)
            yield x + 1

        made = body()
        y = next(made)
        try:
            next(made)
        except ValueError as error:
            log.append(names(error))
        return y + 1, next(made, None)

    check(f, vec(3), [])


def test_delegating_to_itself():
    def f(x, log):
        def body():
            yield from made

        made = body()
        try:
            next(made)
        except ValueError as error:
            log.append(names(error))
        return x + 1

    check(f, vec(3), [])


def test_two_that_ask_each_other():
    def f(x, log):
        def body(number):
            try:
                yield next(made[1 - number])
            except ValueError as error:
                log.append((number, names(error)))
                yield x

        made = [body(0), body(1)]
        return next(made[0]) + 1, list(made[0])

    check(
        f, vec(3), [], graphs=None, breaks=None, skipped=True
    )  # the other one is dropped in its handler


def test_a_break_before():
    def f(x, log):
        def body():
            yield x
            try:
                next(made)
            except ValueError as error:
                log.append(names(error))
            yield x + 1

        made = body()
        y = next(made)
        framejit.graph_break()
        return y + next(made)

    check(f, vec(3), [], graphs=None, breaks=None)


def test_a_break_while_it_runs():
    def f(x, log):
        def body():
            framejit.graph_break()
            try:
                next(made)
            except ValueError as error:
                log.append(names(error))
            yield x

        made = body()
        return next(made) + 1

    check(f, vec(3), [], graphs=None, breaks=None)
