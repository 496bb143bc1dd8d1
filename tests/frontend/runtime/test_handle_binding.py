"""Arguments are bound as Python binds them."""

from __future__ import annotations

import traceback

import pytest
from framejit.frontend.runtime import _hook as hook

from .handles import compiled, everything, flat, many, plain

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


def defaults(a, b=2, c=3):
    return ("defaults", a, b, c)


def keyword_only(a, *, k, m=5):
    return ("keyword only", a, k, m)


def only_rest(*rest):
    return ("only rest", rest)


def only_kw(**kw):
    return ("only kw", kw)


def nothing():
    tag = "nothing"
    return [tag]


CALLS = {
    plain: [
        ((1, 2), {}), ((1,), {"b": 2}), ((), {"b": 2, "a": 1}),
        ((1,), {}), ((1, 2, 3), {}), ((1, 2), {"a": 1}), ((1, 2), {"z": 1}),
    ],
    defaults: [
        ((1,), {}), ((1, 5), {}), ((1, 5, 6), {}), ((1,), {"c": 9}), ((), {"a": 0}), ((), {}), ((1, 2, 3, 4), {}),
    ],
    keyword_only: [
        ((1,), {"k": 2}), ((1,), {"k": 2, "m": 3}), ((), {"a": 1, "k": 2}), ((1,), {}), ((1, 2), {"k": 1}),
    ],
    everything: [
        ((1, 2), {"k": 3}), ((1, 2, 3, 4, 5), {"k": 3, "z": 1}), ((1,), {"a": 2, "k": 3, "p": 9}),
        ((1, 2), {}), ((), {"p": 1, "a": 2, "k": 3}), ((1, 2), {"a": 3, "k": 1}),
    ],
    only_rest: [((), {}), ((1, 2), {}), ((), {"a": 1})],
    only_kw: [((), {}), ((), {"a": 1}), ((1,), {})],
    nothing: [((), {}), ((1,), {}), ((), {"a": 1})],
    many: [*((tuple(range(n)), {}) for n in (18, 19, 20, 21)), (tuple(range(18)), {"b8": 1, "b9": 5})],
}  # fmt: skip
BINDINGS = [(function, *call) for function, calls in CALLS.items() for call in calls]


def outcome(function, args, kwargs):
    try:
        return tuple(function(*args, **kwargs))
    except TypeError as error:
        return str(error), len(traceback.extract_tb(error.__traceback__))


@pytest.mark.parametrize("function, args, kwargs", BINDINGS)
@pytest.mark.parametrize("needs_hook", [False, True])
def test_binding_is_pythons(function, args, kwargs, needs_hook):
    handle = compiled(function, hook.Entry(None, flat(function), needs_hook=needs_hook))
    expected = outcome(function, args, kwargs)
    if isinstance(expected[-1], int) and isinstance(expected[0], str) and "()" in expected[0]:
        assert outcome(handle, args, kwargs) == expected
    else:
        name, *values = expected
        assert outcome(handle, args, kwargs) == (f"compiled {name}", *values)


@pytest.mark.parametrize("function, args, kwargs", BINDINGS)
def test_eager_gets_the_call_as_it_came(function, args, kwargs):
    assert outcome(compiled(function), args, kwargs) == outcome(function, args, kwargs)


def test_defaults_are_read_at_the_call():
    def f(a, b=1, *, k=2):
        return (a, b, k)

    handle = compiled(f, hook.Entry(None, lambda a, b, k: ("compiled", a, b, k)))
    assert handle(0) == ("compiled", 0, 1, 2)
    f.__defaults__, f.__kwdefaults__ = (10,), {"k": 20}
    assert handle(0) == ("compiled", 0, 10, 20)
    f.__defaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        handle(0)
    f.__kwdefaults__ = None
    with pytest.raises(TypeError, match="keyword-only"):
        handle(0, 1)


def test_keywords_of_a_str_subclass_are_left_to_python():
    class Name(str):
        pass

    handle = compiled(plain, hook.Entry(None, flat(plain)))
    assert handle(1, **{Name("b"): 2}) == ("a b", 1, 2)
