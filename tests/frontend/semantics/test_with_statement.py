"""`with` asks a manager's class for its methods, and refuses what has none."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from .harness import check, vec


class Entered:
    def __enter__(self):
        return 2


class Left:
    def __exit__(self, *error):
        return True


class Asked:
    """Answers for any attribute, which `with` does not ask it for."""

    def __getattr__(self, name):
        return lambda *args: 2


class Whole(Entered, Left):
    pass


@pytest.mark.parametrize("make", [Entered, Left, Asked, lambda: 5, dict, lambda: Whole])
def test_what_is_no_manager(make):
    def f(x, log):
        try:
            with make() as n:
                log.append(n)
        except TypeError as error:
            log.append((str(error), error.__context__))
        return x + 1

    check(f, vec(3), [])


def test_a_tensor_is_no_manager():
    def f(x, log):
        try:
            with x:
                log.append(1)
        except TypeError as error:
            log.append(str(error))
        return x + 1

    check(f, vec(3), [])


def test_methods_of_the_object_itself():
    def f(x, log):
        made = Whole()
        made.__enter__ = made.__exit__ = lambda *args: log.append("its own")
        with made as n:
            x = x + n
            raise ValueError
        return x

    check(f, vec(3), [])


def test_methods_that_take_no_object():
    class Odd:
        @staticmethod
        def __enter__():
            return 2

        @classmethod
        def __exit__(cls, *error):
            kept.append((cls.__name__, len(error)))

    kept = []

    def f(x):
        with Odd() as n:
            x = x + n
        return x

    check(f, vec(3))


def test_methods_that_the_class_gets_on_the_way():
    def f(x, log):
        class Late:
            def __exit__(self, *error):
                log.append(error)

        try:
            with Late():
                log.append("entered")
        except TypeError as error:
            log.append(str(error))
        Late.__enter__ = lambda self: 2
        with Late() as n:
            x = x + n
        return x

    check(f, vec(3), [], graphs=None, breaks=None, again=False)


def test_an_exit_stack_refuses():
    def f(x, log):
        try:
            with ExitStack() as stack:
                stack.enter_context(Entered())
        except TypeError as error:
            log.append(str(error))
        return x + 1

    check(f, vec(3), [])
