"""Behind the recompile limit a call runs in eager with all that it calls: inner frames do not start
to compile one by one."""

from __future__ import annotations

import framejit
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:framejit")


def inner(x):
    return x * 2


def by_text(x, text):
    return inner(x) + len(text) if text[:1] == "a" else inner(x)


def with_a_break(x, text):
    print(end="")
    return inner(x) + len(text) if text[:1] == "a" else inner(x)


@pytest.mark.parametrize("f", [by_text, with_a_break])
def test_inner_frames_stay_in_python(f):
    handle = framejit.compile(f, backend="eager")
    limit = framejit.config.recompile_limit
    for k in range(limit + 12):
        x, text = torch.ones(2) * k, f"a{k}"
        assert handle(x, text).equal(f(x, text))
        if k == limit:
            made = handle.framejit.compiles
    assert handle.framejit.compiles == made
    assert not any(capture.function == "inner" for capture in handle.framejit.explain().captures)


def test_the_user_is_told_once_and_what_to_do():
    handle = framejit.compile(by_text, backend="eager")
    with pytest.warns(
        framejit.errors.FramejitWarning, match="by_text .* was compiled 8 times"
    ) as told:
        for k in range(framejit.config.recompile_limit + 12):
            handle(torch.ones(2), f"a{k}")
    (warning,) = told
    text = str(warning.message)
    assert (
        "`text` differed (last 'a8', compiled for 'a7') at " in text
        and "test_recompile_policy_gives_up.py:" in text
    )
    assert "raise config.recompile_limit" in text


def test_earlier_entries_still_serve():
    handle = framejit.compile(by_text, backend="eager")
    for k in range(framejit.config.recompile_limit + 4):
        handle(torch.ones(2), f"a{k}")
    made = handle.framejit.compiles
    served = sum(entry.hits for entry in handle.root.entries)
    for k in range(3):
        assert handle(torch.ones(2), f"a{k}").equal(by_text(torch.ones(2), f"a{k}"))
    assert handle.framejit.compiles == made
    assert sum(entry.hits for entry in handle.root.entries) == served + 3


def test_what_the_program_compiles_inside_stays_compiled():
    own = framejit.compile(inner, backend="eager")

    def f(x, text):
        return own(x) + len(text)

    handle = framejit.compile(f, backend="eager")
    for k in range(framejit.config.recompile_limit + 4):
        assert handle(torch.ones(2), "a" * k).equal(torch.ones(2) * 2 + k)
    assert own.framejit.compiles == 1  # made when the outer function gave up


def test_the_hook_comes_back_behind_it():
    def outer(x, text):
        print(end="")
        return by_text(x, text)

    handle, other = (
        framejit.compile(by_text, backend="eager"),
        framejit.compile(outer, backend="eager"),
    )
    for k in range(framejit.config.recompile_limit + 4):
        handle(torch.ones(2), f"a{k}")
    assert other(torch.ones(2), "ab").equal(by_text(torch.ones(2), "ab"))
    assert other.framejit.compiles > 1
