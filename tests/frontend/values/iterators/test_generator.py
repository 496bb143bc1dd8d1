"""Generators that live across a break, and breaks in what consumes or feeds them."""

from __future__ import annotations

import contextlib
import inspect

import framejit
import pytest
import torch

from ...semantics.harness import check, vec


@framejit.disable
def outside(x=0):
    return x


def numbers(x, log):
    try:
        for i in range(3):
            log.append(("before", i))
            got = yield x + i
            log.append(("got", got))
    except ValueError as error:
        log.append(error.args)
        yield x - 1
    finally:
        log.append("finally")
    return 5


def delegating(x, log):
    result = yield from numbers(x, log)
    log.append(result)
    yield x * 2


def test_sent_to_and_drained_after_breaks():
    def f(x, log):
        g = numbers(x, log)
        a = next(g)
        outside()
        b = g.send("hi")
        outside()
        return a + b, list(g)

    check(f, vec(2), [], graphs=None, breaks=None)


def test_thrown_into_and_closed_after_breaks():
    def f(x, log):
        g, h = numbers(x, log), numbers(x, log)
        a = next(g), next(h)
        outside()
        b = g.throw(ValueError("z"))
        h.close()
        return a, b, list(g), list(h)

    check(f, vec(2), [], graphs=None, breaks=None)


def test_one_that_delegates():
    def f(x, log):
        g, h = delegating(x, log), delegating(x, log)
        a = next(g), next(h)
        outside()
        b = g.send("hi"), h.throw(ValueError("z"))
        return a, b, list(g), list(h)

    check(f, vec(2), [], graphs=None, breaks=None)


def test_one_that_has_not_started_and_one_that_has_ended():
    def f(x, log):
        g, h = numbers(x, log), numbers(x, log)
        items = list(h)
        outside()
        return items, list(h), inspect.getgeneratorstate(g), list(g)

    check(f, vec(2), [], graphs=None, breaks=None)


def test_it_shares_cells_and_objects_with_the_frame():
    def f(x):
        n, seen = 0, []

        def count():
            nonlocal n
            while True:
                n += 1
                seen.append(n)
                yield seen

        g = count()
        first = next(g)
        outside()
        n += 10
        second = next(g)
        return first is second, second is seen, seen, n, x + n

    check(f, vec(2), graphs=None, breaks=None)


def test_generator_expressions_over_live_iterators():
    def f(x, items):
        it = iter(items)
        g = (v * 2 for v in it if v != 2)
        a = next(g)
        outside()
        return a, next(it), list(g), list(it), x + 1

    check(f, vec(2), [1, 2, 3, 4, 5], graphs=None, breaks=None)


def test_a_generator_goes_out():
    def f(x, log):
        y = x + 1
        g = numbers(y, log)
        next(g)
        return g, numbers(y, log)

    g = framejit.compile(f)
    log, expected = [], []
    assert torch.equal(
        torch.stack(list(g(vec(2), log)[0])), torch.stack(list(f(vec(2), expected)[0]))
    )
    assert log == expected


def test_names_and_states_are_the_functions():
    def f(x, log):
        g = numbers(x, log)
        next(g)
        outside()
        return g.__name__, g.__qualname__, inspect.getgeneratorstate(g), g.gi_yieldfrom, x + 1

    check(f, vec(2), [], graphs=None, breaks=None)


def test_a_generator_based_manager_stays_entered_at_a_break():
    @contextlib.contextmanager
    def scope(log):
        log.append("in")
        try:
            yield 3
        except KeyError:
            log.append("swallowed")
        finally:
            log.append("out")

    def f(x, log):
        with scope(log) as n:
            y = x + n
            print("inside", log)
            y = y * 2
        with scope(log):
            print("again")
            raise KeyError("k")
        return y + 1

    check(f, vec(2), [], graphs=None, breaks=None, ran=3)


def test_a_break_in_the_generators_own_body():
    def feed(x):
        for i in range(3):
            y = x + i
            print("yielding", i)
            yield y * 2

    def f(x):
        total = x - 1
        for v in feed(x):
            total = total + v * 2
        return total

    check(f, vec(2), graphs=None, breaks=None)


def test_a_break_between_the_items():
    def feed(x):
        for i in range(3):
            yield x + i

    def f(x):
        total = x - 1
        for v in feed(x):
            print("got one")
            total = total + v * 2
        return total

    check(f, vec(2), graphs=None, breaks=None)


def test_what_is_sent_to_a_generator_that_has_not_started():
    def walk(tensor):
        while True:
            received = yield tensor
            tensor = tensor + received

    def f(x):
        made, told = walk(x), []
        for sent in (x, 1, None, x):
            try:
                told.append(made.send(sent))
            except TypeError as error:
                told.append(str(error))
        return told

    check(f, vec(2))


def over_a_list(x, log):
    try:
        yield from [x, x + 1]
    except ValueError as error:
        log.append(("outer", error.args))
        yield x * 3


def twice(x, log):
    try:
        log.append((yield from delegating(x, log)))
    except KeyError as error:
        log.append(("twice", error.args))
        yield x * 4
    finally:
        log.append("left")


def stopping(x, log):
    try:
        yield x
    except ValueError:
        log.append("stops")
    return 7


def keeping_what_it_got(x, log):
    log.append((yield from stopping(x, log)))
    yield x * 5


def unwilling(x, log):
    try:
        yield from numbers(x, log)
    except GeneratorExit as error:
        log.append(type(error).__name__)
        raise


def raising_when_closed(x, log):
    try:
        yield x + 0.5
    finally:
        log.append("closing")
        raise KeyError("closed")


def told_of_that(x, log):
    try:
        yield from raising_when_closed(x, log)
    except KeyError as error:
        log.append(error.args)


THROWN = {
    "the inner one goes on": (delegating, ValueError("z")),
    "no inner generator": (over_a_list, ValueError("z")),
    "two deep": (twice, ValueError("z")),
    "two deep, the outermost one takes it": (twice, KeyError("z")),
    "the inner one returns": (keeping_what_it_got, ValueError("z")),
    "nobody takes it": (delegating, KeyError("z")),
    "to leave": (unwilling, GeneratorExit()),
    "to leave, and it raises": (told_of_that, GeneratorExit()),
}


@pytest.mark.parametrize("case", THROWN)
def test_thrown_through_one_that_delegates(case):
    maker, error = THROWN[case]

    def f(x, log):
        g = maker(x, log)
        a = next(g)
        try:
            b = g.throw(type(error)(*error.args))
        except (KeyError, GeneratorExit, StopIteration) as stop:
            log.append(type(stop).__name__)
            b = None
        return a, b, list(g)

    check(f, vec(2), [])


@pytest.mark.parametrize("maker", [delegating, over_a_list, twice, unwilling, told_of_that])
def test_closed_while_it_delegates(maker):
    def f(x, log):
        g = maker(x, log)
        a = next(g)
        g.close()
        return a, list(g)

    check(f, vec(2), [])


def answering(x, log):
    try:
        yield x * 2
    except ValueError as error:
        log.append(error.args)
    return 4


def with_many_constants(x, log):
    a, b, c, d, e, f = 1.5, "x", 3.25, 4.125, "y", "zz"
    log.append((a, b, c, d))
    last = yield from answering(x, log)
    if log:
        log.append((e, f, last))
    yield x * 3
    return last


def far_behind(x, log):
    log.append([{(n, n + 1): [n, str(n), n + 2, n + 3, n + 4]} for n in (1, 2)])
    log.append(
        (
            1.5,
            2.5,
            x.shape,
            x.dtype,
            x.ndim,
            x.device,
            x.layout,
            x.shape,
            x.dtype,
            x.ndim,
            x.device,
            x.layout,
            x.shape,
            x.dtype,
            x.ndim,
        )
    )
    log.append(
        (
            x.shape,
            x.dtype,
            x.ndim,
            x.device,
            x.layout,
            x.shape,
            x.dtype,
            x.ndim,
            x.device,
            x.layout,
            x.shape,
            x.dtype,
            x.ndim,
            x.is_leaf,
        )
    )
    try:
        last = yield from answering(x, log)
    except KeyError as error:
        last = error.args
    yield x * 3
    log.append(last)


@pytest.mark.parametrize("maker", [with_many_constants, far_behind])
@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_thrown_after_a_break_where_the_inner_one_returns_or_raises(maker, kind):
    def f(x, log):
        g = maker(x, log)
        a = next(g)
        outside()
        b = g.throw(kind("z"))
        return a + b, list(g)

    check(f, vec(2), [], graphs=None, breaks=None)


class Sendable:
    """An iterator with a send() of its own."""

    def __init__(self, log):
        self.log = log

    def __iter__(self):
        return self

    def __next__(self):
        return "next"

    def send(self, value):
        self.log.append(value)
        if value == 3:
            raise StopIteration("sent")
        return value


class Unsendable(Sendable):
    @property
    def send(self):
        raise AttributeError("no send here")


WITHOUT_SEND = {
    "list": lambda x, log: [x, x + 1, x + 2], "tuple": lambda x, log: (x, 2, 3), "range": lambda x, log: range(5), "dict": lambda x, log: {1: x, 2: x},
    "zip": lambda x, log: zip([1, 2], [x, x], strict=True), "map": lambda x, log: map(len, ["a", "bc"]), "tensor": lambda x, log: x,
    "unsendable": lambda x, log: Unsendable(log), "sendable": lambda x, log: Sendable(log), "generator": numbers,
}  # fmt: skip


@pytest.mark.parametrize("sent", [2, None, 3], ids=repr)
@pytest.mark.parametrize("inner", WITHOUT_SEND)
def test_what_is_sent_to_an_iterator_that_is_delegated_to(inner, sent):
    make = WITHOUT_SEND[inner]

    def delegating(x, log):
        result = yield from make(x, log)
        log.append(("result", result))
        yield x * 5

    def f(x, log):
        made = delegating(x * 2, log)
        given = [next(made)]
        try:
            given += [made.send(sent), made.send(sent)]
        except AttributeError as error:
            log.append(str(error))
        made.close()
        return given, x + 1

    check(f, vec(2), [], breaks=None, graphs=None)
