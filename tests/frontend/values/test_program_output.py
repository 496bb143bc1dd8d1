"""Warnings and what loggers write: kept in order without a break where nobody can tell; else one
break."""

from __future__ import annotations

import functools
import io
import logging
import warnings

import pytest
import torch

from ..semantics.harness import capture_events, expect, strict_compile, vec

LOGGER = logging.getLogger("framejit-tests-output")


@pytest.fixture
def written():
    """What LOGGER writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        logging.Formatter("%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s %(message)s")
    )
    LOGGER.addHandler(handler)
    LOGGER.propagate, before = False, LOGGER.level
    LOGGER.setLevel(logging.INFO)
    yield stream
    LOGGER.removeHandler(handler)
    LOGGER.propagate = True
    LOGGER.setLevel(before)


def taken(stream):
    text = stream.getvalue()
    stream.truncate(0)
    stream.seek(0)
    return text


def test_loggers_write_in_order_without_a_break(written):
    def inner(x, n):
        LOGGER.warning("inner %d of %s", n, [n, "a"])
        return x * 2

    def f(x, log):
        LOGGER.info("start %s", x.shape)
        LOGGER.debug("never %s", x)
        y = inner(x + 1, len(log))
        log.append("a")
        LOGGER.error("end %r %s", "q", {"n": len(log)})
        LOGGER.log(logging.CRITICAL, "percent % sign")
        return y - 1

    handle = strict_compile(f)
    seen = capture_events(handle)
    for _ in range(2):
        expected = f(vec(2), [])
        text = taken(written)
        assert torch.equal(handle(vec(2), []), expected)
        assert taken(written) == text and text.count("\n") == 4 and "inner 0 of [0, 'a']" in text
    expect(seen, 1, (), False)
    LOGGER.setLevel(logging.ERROR)
    expected, text = f(vec(2), []), taken(written)
    assert (
        torch.equal(handle(vec(2), []), expected)
        and taken(written) == text
        and text.count("\n") == 2
    )


def test_what_is_written_before_an_exception_leaves_or_a_break_comes(written):
    def f(x, table):
        y = x + 1
        LOGGER.info("first")
        print("between")
        LOGGER.info("second")
        return y * table["missing"]

    handle = strict_compile(f)
    for call in (f, handle, handle):
        with pytest.raises(KeyError):
            call(vec(2), {})
        assert [line.split()[-1] for line in taken(written).splitlines()] == ["first", "second"]


def test_other_handlers_and_arguments_are_a_break(written):
    class Own(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    def f(x, told):
        y = x + 1
        LOGGER.info("value %s", y)
        told.append(len(told))
        LOGGER.info("plain")
        return y * 2

    records: list = []
    handle = strict_compile(f)
    seen = capture_events(handle)
    assert torch.equal(handle(vec(2), []), f(vec(2), []))
    lines = taken(written).splitlines()
    assert lines[:2] == lines[2:] and "tensor(" in lines[0]
    expect(seen, 2, ("output",), False)
    own = Own()
    LOGGER.addHandler(own)
    try:
        for call in (f, handle):
            records.clear()
            told: list = records
            call(vec(2), told)
            assert told == [f"value {vec(2) + 1}", 1, "plain"]
    finally:
        LOGGER.removeHandler(own)


def test_a_function_that_keeps_its_results_tells_once(written):
    @functools.lru_cache(None)
    def once(text):
        LOGGER.info(text)

    def f(x):
        once("told")
        return x + 1

    handle = strict_compile(f)
    for _ in range(3):
        handle(vec(2))
    assert taken(written).count("told") == 1


def test_warnings_are_shown_in_order_without_a_break():
    def inner(x):
        warnings.warn("inner", DeprecationWarning)
        return x * 2

    def f(x):
        warnings.warn("first")
        y = inner(x + 1)
        warnings.warn(f"second {x.shape[0]}", RuntimeWarning, stacklevel=1)
        return y - 1

    handle = strict_compile(f)
    seen = capture_events(handle)
    for action in ("always", "default", "ignore", "default"):
        shown = []
        for call in (f, handle):
            with warnings.catch_warnings(record=True) as recorded:
                warnings.simplefilter(action)
                globals().pop("__warningregistry__", None)
                call(vec(2))
                call(vec(2))
            shown.append([(str(w.message), w.category, w.filename, w.lineno) for w in recorded])
        assert (
            shown[0] == shown[1]
            and len(shown[0]) == {"always": 6, "default": 3, "ignore": 0}[action]
        )
    expect(seen, 1, (), False)


def test_a_warning_that_is_an_error_is_raised_where_it_is_made():
    def f(x, log):
        log.append(1)
        y = x + 1
        try:
            warnings.warn("bad")
            log.append(2)
        except UserWarning as error:
            y = y * 2
            log.append(str(error))
        return y

    handle = strict_compile(f)
    for action in ("ignore", "error", "ignore"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            for call in (f, handle):
                log: list = []
                y = call(vec(2), log)
                assert log == ([1, "bad"] if action == "error" else [1, 2])
                assert torch.equal(y, (vec(2) + 1) * (2 if action == "error" else 1))


def test_a_list_of_recorded_warnings_that_the_program_reads():
    def f(x):
        with warnings.catch_warnings(record=True) as recorded:
            warnings.simplefilter("always")
            y = x + 1
            warnings.warn("one")
            z = y * len(recorded)
            recorded.append("mine")
            warnings.warn("two")
        return z, [str(getattr(w, "message", w)) for w in recorded]

    expected, got = f(vec(2)), strict_compile(f)(vec(2))
    assert torch.equal(expected[0], got[0]) and expected[1] == got[1] == ["one", "mine", "two"]
