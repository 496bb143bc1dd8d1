"""Which code an exception runs before it leaves a frame, compared with a generator that is
closed at each of its `yield`s."""

from __future__ import annotations

import pytest
from framejit.frontend.pycode.decode import decode
from framejit.frontend.pycode.instr import Op
from framejit.frontend.pycode.unwinding import passes_handlers


def plain():
    yield 1


def delegating(items):
    yield from items
    yield 1


def catches_others(items, index):
    try:
        yield items[index]
    except IndexError:
        index = 0
    except KeyError as error:
        yield error


def catches_it():
    try:
        yield 1
    except GeneratorExit:
        raise


def catches_a_base():
    try:
        yield 1
    except BaseException:
        raise


def catches_any():
    try:
        yield 1
    except:
        raise


def catches_a_variable(error):
    try:
        yield 1
    except error:
        pass


def at_last(log):
    try:
        yield 1
    finally:
        log.append(1)


def within(manager):
    with manager:
        yield 1


def outer_at_last(items, log):
    try:
        try:
            yield from items
        except ValueError:
            log.append(1)
    finally:
        log.append(2)


def leaves(function, variables=()):
    """Whether GeneratorExit leaves the generator without running code of it, for each `yield`."""
    decoded = decode(function.__code__)
    at = [index for index, instr in enumerate(decoded.instrs) if instr.op is Op.YIELD_VALUE]
    return [passes_handlers(decoded, index, GeneratorExit, variables) for index in at]


@pytest.mark.parametrize("function", [plain, delegating])
def test_it_leaves_what_has_no_handlers(function):
    assert all(leaves(function))


def test_it_leaves_by_handlers_of_other_exceptions():
    assert leaves(catches_others)[0]
    assert not leaves(catches_others, {"IndexError"})[0], "a global may be any class"


@pytest.mark.parametrize(
    "function",
    [catches_it, catches_a_base, catches_any, catches_a_variable, at_last, within, outer_at_last],
)
def test_code_runs(function):
    assert leaves(function) and not any(leaves(function))
