"""Continuations: what runs after a frame has returned one."""

from __future__ import annotations

import traceback
import types
import weakref

import framejit
import pytest
import torch
from framejit.frontend.runtime import _hook as hook
from framejit.frontend.runtime.account import Account

from .handles import (
    calls_inner,
    compiled,
    frame_sites,
    hooked,
    inner,
    inner_compiled,
    resident,
    site_of,
    stack_names,
)

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


def counting_site(limit):
    """A loop of pieces: state (i, total) -> the next piece, or the total."""

    def piece(state):
        i, total = state
        return total if i == limit else again((i + 1, total + i))

    site = hook.Site(piece, 1)
    again = hook.ContinuationMaker(site)
    return site, again


@pytest.mark.parametrize("eager", [True, False])
def test_a_million_continuations(eager):
    site, again = counting_site(1_000_000)
    first = hook.ContinuationMaker(site, eager=eager)
    if not eager:
        site.add(hook.Entry(None, site.function))
    handle = compiled(inner, hook.Entry(None, lambda x: first((0, 0))))
    before = resident()
    assert handle(1) == sum(range(1_000_000))
    assert resident() - before < 4_000_000


def test_continuations_out_of_frames():
    site, again = counting_site(1000)
    handle, _ = hooked(calls_inner, hook.Entry(None, lambda x: again((0, x))))
    assert handle(5) == 5 + sum(range(1000))
    in_place = hook.Entry(
        code=with_constant("def rebuilt(x): again = 'K'; return again((0, x))", again)
    )
    handle, _ = hooked(calls_inner, in_place)
    assert handle(5) == 5 + sum(range(1000)) and in_place.hits == 1


def with_constant(source, value):
    """The code of the function in `source`, with `value` for its constant 'K'."""
    namespace = {}
    exec(source, namespace)
    (function,) = (v for k, v in namespace.items() if isinstance(v, types.FunctionType))
    code = function.__code__
    return code.replace(co_consts=tuple(value if c == "K" else c for c in code.co_consts))


def test_continuations_miss_and_compile():
    def on_miss(site, function, slots):
        return hook.Entry(None, lambda state: ("compiled", state))

    site = hook.Site(lambda state: ("eager", state), 1, on_miss)
    lazy, eager = hook.ContinuationMaker(site), hook.ContinuationMaker(site, eager=True)
    assert (
        compiled(inner, hook.Entry(None, lambda x: eager((x,))))(1) == ("eager", (1,))
        and site.misses == 0
    )
    assert (
        compiled(inner, hook.Entry(None, lambda x: lazy((x,))))(1) == ("compiled", (1,))
        and site.misses == 1
    )
    site.on_miss, _ = None, site.clear()
    assert compiled(inner, hook.Entry(None, lambda x: lazy((x,))))(1) == ("eager", (1,))
    site.on_miss = lambda *a: 1 / 0
    with pytest.raises(ZeroDivisionError):
        compiled(inner, hook.Entry(None, lambda x: lazy((x,))))(1)


def test_continuations_run_at_the_callers_depth():
    def last(state):
        return stack_names()

    def fails(state):
        raise ValueError(state)

    names = hook.ContinuationMaker(hook.Site(last, 1), eager=True)
    error = hook.ContinuationMaker(hook.Site(fails, 1))
    assert compiled(inner, hook.Entry(None, lambda x: names(x)))(1)[:2] == [
        "last",
        stack_names()[0],
    ]
    rebuilt = with_constant("def rebuilt(x): names = 'K'; return names(x)", names)
    nested, _ = hooked(calls_inner, hook.Entry(code=rebuilt))
    assert nested(1)[:3] == ["last", "calls_inner", stack_names()[0]]
    with pytest.raises(ValueError) as caught:
        compiled(inner, hook.Entry(None, lambda x: error(x)))(1)
    assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][1:] == ["fails"]


def test_continuations_keep_the_hook_on():
    def last(state):
        return inner(state)

    maker = hook.ContinuationMaker(hook.Site(last, 1))
    on_frame, _ = frame_sites(
        {inner.__code__: site_of(inner, hook.Entry(code=inner_compiled.__code__))}
    )
    handle = compiled(calls_inner, hook.Entry(None, lambda x: maker(x)), on_frame=on_frame)
    assert handle(1) == ("compiled", 1)


def test_a_frames_variables_go_before_its_continuation_runs():
    class Big:
        pass

    alive = []

    def last(state):
        return [ref() for ref in alive]

    source = "def rebuilt(x):\n    tools = 'K'\n    big = tools[0]()\n    tools[1](big)\n    return tools[2](None)"
    tools = (
        Big,
        lambda big: alive.append(weakref.ref(big)),
        hook.ContinuationMaker(hook.Site(last, 1)),
    )
    handle, _ = hooked(calls_inner, hook.Entry(code=with_constant(source, tools)))
    assert handle(1) == [None]


@pytest.mark.parametrize("eager", [True, False])
def test_a_piece_may_let_its_state_go(eager):
    class Big:
        pass

    def last(state):
        (big,) = state
        gone = weakref.ref(big)
        del state, big
        return gone()

    site = hook.Site(last, 1)
    if not eager:
        site.add(hook.Entry(None, last, needs_hook=True))
    maker = hook.ContinuationMaker(site)
    handle = compiled(inner, hook.Entry(None, lambda x: maker((Big(),))))
    assert handle(1) is None
    nested, _ = hooked(calls_inner, hook.Entry(None, lambda x: maker((Big(),))))
    assert nested(1) is None


def test_continuation_makers_take_the_state_only():
    maker = hook.ContinuationMaker(hook.Site(inner, 1))
    made = maker((1,))
    assert (
        type(made) is hook.Continuation
        and made.state == (1,)
        and made.site is maker.site
        and not made.eager
    )
    for args, kwargs in (((), {}), ((1, 2), {}), ((), {"state": 1})):
        with pytest.raises(TypeError):
            maker(*args, **kwargs)


class Remembering:
    """Leaves in the way in which it was entered, as libraries do that ask for a compiler."""

    def __init__(self, agreed):
        self.agreed = agreed

    def __enter__(self):
        self.compiled = torch.compiler.is_compiling()

    def __exit__(self, *error):
        self.agreed.append(self.compiled == torch.compiler.is_compiling())


def remembered(x, agreed):
    with Remembering(agreed):
        x = x.sin() + 1
        print(end="")
        x = x.exp() - x
        print(end="")
        x = x.cos() * 2
    print(end="")
    return x * 2


def test_what_compiled_code_enters_compiled_code_leaves(monkeypatch):
    """Also where no further graph should be compiled; what follows the block runs in eager."""
    monkeypatch.setattr(Account, "may_begin", lambda self, versions, calls: self._graphs == 0)
    agreed = []
    handle = framejit.compile(remembered)
    for _ in range(3):
        x = torch.rand(3)
        torch.testing.assert_close(handle(x, agreed), remembered(x, []))
    assert agreed == [True] * 3
    assert len(handle.framejit.explain().captures) == 3
