"""Numbers and texts that vary and do not decide which operations run: formatted, rounded, printed,
compared with None. Two compiles are enough for any number of values: the first is made for the
first value, the second for all."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import framejit
import pytest
import torch

FLOATS = [0.5 + k / 7 for k in range(8)]
INTS = list(range(2, 10))


def fixed_point(x, v):
    return x + 1, f"{v:.3f}"


def surrounded(x, v):
    return x + 1, f"<{v!r:>12}|{v}>" + f"{v:e}"


def percent(x, v):
    return x + 1, "loss %.3f of %s" % (v, "all")  # noqa: UP031


def percent_of_one(x, v):
    return x + 1, "%g" % v  # noqa: UP031


def text_and_repr(x, v):
    return x + 1, str(v) + repr(v)


def rounded(x, v):
    return x + 1, round(v, 3)


def truncated(x, v):
    return x + 1, int(v)


def kept_in_containers(x, v):
    return x + 1, [f"{v:.1f}", {"text": f"{v:.2f}"}]


def not_none(x, v):
    return x * 2 if v is not None else x


def none_in_a_name(x, v):
    missing = v is None
    return (x, missing)


def default_for_none(x, v=None):
    v = 1.0 if v is None else v
    return x + v


def handed_on(x, v):
    def inner(y, value):
        return y + 1, f"{value:.4f}"

    return inner(x, v)


FORMATTED = (
    fixed_point, surrounded, percent, percent_of_one, text_and_repr, rounded, truncated, kept_in_containers, not_none, none_in_a_name,
    default_for_none, handed_on,
)  # fmt: skip


def test_deferred_texts_take_two_compiles_at_most():
    for f in FORMATTED:
        handle = framejit.compile(f, backend="eager")
        for v in FLOATS:
            x = torch.ones(3)
            expected, got = f(x, v), handle(x, v)
            assert str(expected) == str(got), f.__name__
        assert handle.framejit.compiles <= 2, (f.__name__, handle.framejit.explain())


@pytest.mark.parametrize("spec", ["d", "x", ">6", ",", "b", ".2f", "e"])
def test_ints_that_vary_are_formatted_as_python_does(spec):
    def f(x, n):
        return x + 1, format(n, spec)

    handle = framejit.compile(f, backend="eager")
    assert [handle(torch.ones(2), n)[1] for n in INTS] == [format(n, spec) for n in INTS]
    assert handle.framejit.compiles <= 2


@pytest.mark.parametrize(("spec", "error"), [("d", "f"), ("q", "q")])
def test_a_wrong_format_raises_as_in_eager(spec, error):
    def f(x, v):
        return x + 1, format(v, spec)

    handle = framejit.compile(f, backend="eager")
    for v in FLOATS[:3]:
        with pytest.raises(ValueError) as expected:
            f(torch.ones(2), v)
        with pytest.raises(ValueError) as got:
            handle(torch.ones(2), v)
        assert str(got.value) == str(expected.value)


def test_code_points_are_those_of_each_call():
    def f(x, n):
        return x, f"{n:c}"

    handle = framejit.compile(f, backend="eager")
    assert [handle(torch.ones(2), n)[1] for n in (65, 66, 67)] == ["A", "B", "C"]


def test_a_text_that_decides_is_compared_with_that_of_each_call():
    def f(x, v):
        return x + 1 if f"{v:.0f}" == "2" else x - 1

    handle = framejit.compile(f, backend="eager")
    for v in (1.0, 2.0, 3.0, 2.2, 1.9):
        assert handle(torch.ones(2), v).equal(f(torch.ones(2), v))


def test_a_text_is_a_key_as_in_eager():
    def f(x, v, counts):
        name = f"{v:.1f}"
        counts[name] = counts.get(name, 0) + 1
        return x + counts[name]

    handle = framejit.compile(f, backend="eager")
    mine, its = {}, {}
    for v in (0.5, 0.6, 0.5, 0.7, 0.6):
        assert handle(torch.ones(2), v, mine).equal(f(torch.ones(2), v, its))
    assert mine == its


def test_the_size_of_a_batch_is_compared_with_none():
    def f(x):
        n = x.size(0)
        return x + n if n is not None else x

    handle = framejit.compile(f, backend="eager")
    for n in range(2, 12):
        assert handle(torch.ones(n, 3)).equal(f(torch.ones(n, 3)))
    assert handle.framejit.compiles <= 2


def test_a_counter_that_begins_as_none():
    class State:
        i = None

    def f(x, state):
        if state.i is None:
            state.i = 0
        state.i += 1
        return x * state.i

    handle, state = framejit.compile(f, backend="eager"), State()
    assert [handle(torch.ones(1), state).item() for _ in range(10)] == list(range(1, 11))
    assert handle.framejit.compiles <= 3


def test_what_only_a_print_uses_is_not_guarded():
    def f(x, name, v):
        print(name, v)
        return x + 1

    handle, out = framejit.compile(f, backend="eager"), io.StringIO()
    with redirect_stdout(out):
        for k in range(8):
            handle(torch.ones(2), f"n{k}", k / 2)
    assert out.getvalue() == "".join(f"n{k} {k / 2}\n" for k in range(8))
    assert handle.framejit.compiles == 2  # before the print and behind it


def test_a_number_taken_from_a_tensor_is_formatted():
    def f(x):
        return x + 1, f"{x.sum().item():.4f}"

    handle = framejit.compile(f, backend="eager")
    for k in range(1, 8):
        assert handle(torch.ones(3) * k)[1] == f"{3 * k:.4f}"
    assert handle.framejit.compiles <= 3


@pytest.mark.parametrize("v", [float("inf"), float("nan"), -0.0, 0.0, 1e300])
@pytest.mark.parametrize("function", [int, round, str, "{:.2f}".format])
def test_odd_floats_after_common_ones(function, v):
    def f(x, v):
        return x + 1, function(v)

    handle = framejit.compile(f, backend="eager")
    for common in FLOATS[:3]:
        handle(torch.ones(2), common)
    try:
        expected = f(torch.ones(2), v)[1]
    except (OverflowError, ValueError) as error:
        with pytest.raises(type(error)):
            handle(torch.ones(2), v)
    else:
        assert repr(handle(torch.ones(2), v)[1]) == repr(expected)
