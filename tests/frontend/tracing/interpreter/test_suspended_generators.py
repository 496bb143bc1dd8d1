"""A generator that is dropped inside `try` or `with` is closed there and then, by Python: a capture
does not count references, so the frame is left to Python. Where no such generator is dropped, the
frame is captured."""

from __future__ import annotations

import collections.abc
import contextlib
import itertools

import framejit
import pytest

from ...semantics.harness import check, vec


class Noting:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, cls, error, traceback):
        self.log.append(cls and cls.__name__)


def tried(x, log):
    try:
        yield x + 1
        yield x + 2
    finally:
        log.append("closed")


def within(x, log):
    with Noting(log):
        yield x + 1
        yield x + 2


def leaving(x, log):
    try:
        yield x + 1
    except GeneratorExit:
        log.append("leaves")
        raise


def failing(x, log):
    try:
        yield x + 1
    finally:
        raise ValueError("on the way out")


def nested(x, log):
    inner = tried(x, log)
    yield next(inner)
    log.append("not reached")


def delegating(x, log):
    try:
        yield from tried(x, log)
    finally:
        log.append("outer")


def writing(x, log):
    try:
        yield x
    finally:
        print("closed")


@contextlib.contextmanager
def managed(log):
    try:
        yield "inside"
    finally:
        log.append("left")


TABLE = """
local: it = made(x, log); y = next(it); return y + 1
loop: [log.append("turn") for _ in range(2)]; y = next(iter([v for v, _ in zip(made(x, log), [1])])); log.append("after"); return y
deleted: it = made(x, log); y = next(it); del it; log.append("after"); return y
overwritten: it = made(x, log); y = next(it); it = None; log.append("after"); return y
twice: it = made(x, log); y = next(it); it = made(x, log); y = y + next(it); log.append("after"); return y
at once: y = next(made(x, log)); log.append("after"); return y
any: return any(v is not None for v in made(x, log)), x + 1
expression: y = next(v for v in made(x, log)); log.append("after"); return y
listed: held = [made(x, log)]; y = next(held[0]); held.clear(); log.append("after"); return y
sliced: y = list(itertools.islice(made(x, log), 1)); log.append("after"); return y
not begun: it = made(x, log); return x + 1
to the end: y = list(tried(x, log)); log.append("after"); return y
managed:
    with managed(log):
        it = made(x, log)
        y = next(it)
        it = 3
        log.append("within")
    return y
broken off:
    for y in made(x, log):
        break
    log.append("after")
    return y
in a call:
    def first():
        for y in made(x, log):
            log.append("first")
            return y
    y = first()
    log.append("after")
    return y
in a variable of a call:
    def first():
        it = made(x, log)
        y = next(it)
        log.append("first")
        return y
    y = first()
    log.append("after")
    return y
in a cell:
    it = made(x, log)
    def first():
        nonlocal it
        y = next(it)
        it = None
        log.append("first")
        return y
    return first()
unpacked:
    try:
        y, = made(x, log), made(x, log)
    except ValueError:
        log.append("refused")
    try:
        y, = itertools.islice(tried(x, log), 2)
    except ValueError:
        log.append("refused")
    return x + 1
"""


def blocks():
    found: dict[str, list[str]] = {}
    for line in TABLE.strip().split("\n"):
        if line.startswith(" "):
            found[name].append(line)
        else:
            name, _, body = line.partition(":")
            found[name] = [f"    {body.strip()}"] if body.strip() else []
    return {name: "\n".join(lines) for name, lines in found.items()}


BLOCKS = blocks()


def program(body, made):
    space = {"made": made, "tried": tried, "managed": managed, "itertools": itertools}
    exec(compile(f"def f(x, log):\n{body}\n", "<program>", "exec"), space)
    return space["f"]


@pytest.mark.parametrize(
    "made", [tried, within, leaving, nested, delegating], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("name", BLOCKS)
def test_a_forgotten_generator_is_closed(name, made):
    dropped = name not in ("not begun", "to the end")
    check(
        program(BLOCKS[name], made),
        vec(2),
        [],
        graphs=None if dropped else 1,
        breaks=None if dropped else (),
        skipped=dropped,
    )


@pytest.mark.parametrize("made", [failing, writing])
@pytest.mark.parametrize("name", ["local", "deleted", "broken off"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_only_python_can_close(name, made):
    check(program(BLOCKS[name], made), vec(2), [], graphs=None, breaks=None, skipped=True)


def test_closed_before_a_break():
    def f(x, log):
        it = tried(x, log)
        y = next(it)
        it = None
        log.append("after")
        print("here")
        return y + 1

    check(f, vec(2), [], graphs=None, breaks=None, skipped=True)


def test_closed_behind_a_break_that_keeps_it():
    def f(x, log):
        it = tried(x, log)
        y = next(it)
        print("here")
        return y + next(it)

    check(f, vec(2), [], graphs=None, breaks=None)


def test_in_a_variable_that_nobody_reads_behind_a_break():
    def f(x, log):
        it = tried(x, log)
        y = next(it)
        print("here")
        log.append("after")
        return y + 1

    check(f, vec(2), [], graphs=0, breaks=None, skipped=True)


def test_a_traceback_keeps_it():
    def fail(x, log):
        it = tried(x, log)
        next(it)
        raise KeyError("k")

    def f(x, log):
        y = x + 1
        try:
            fail(x, log)
        except KeyError:
            log.append("caught")
        log.append("after")
        return y

    check(f, vec(2), [], graphs=None, breaks=None, skipped=True)


class Items(collections.abc.Sequence):
    """Iterated by Sequence.__iter__, a generator that waits inside of `try ... except
    IndexError`."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def test_one_whose_handlers_catch_other_exceptions_has_nothing_to_run():
    def f(x, items):
        for y, factor in zip([x], items):
            x = y * factor
        return x

    check(f, vec(2), Items([2, 3]), graphs=1, breaks=())


def test_one_that_waits_in_yield_from_has_nothing_to_run():
    def delegating(x, log):
        yield from [x + 1, x + 2]
        log.append("after")

    def f(x, log):
        return next(delegating(x, log)) * 2

    check(f, vec(2), [], graphs=1, breaks=())


def test_python_runs_the_function_that_made_it():
    def first(made, x, log):
        it = made(x, log)
        return next(it)

    def f(x, log):
        y = x * 2
        y = y + first(tried, x, log)
        log.append("after")
        return y + 1

    check(f, vec(2), [], graphs=None, breaks=None, skipped=True)
    handle = framejit.compile(f, backend="eager")
    handle(vec(2), [])
    assert [
        capture.ops
        for capture in handle.framejit.explain().captures
        if capture.function.endswith(".f")
    ] == [1, 2]
