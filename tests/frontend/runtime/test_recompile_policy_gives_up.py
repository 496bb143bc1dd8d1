"""Beyond the recompile limit a call runs in eager with all its callees: inner frames are not
compiled one by one."""

from __future__ import annotations

import collections
import dataclasses

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


def test_one_warning_says_what_to_do():
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


def class_statement(x):
    y = x.sin()

    class Scale:
        factor = 2

    return y * Scale.factor


def class_of_a_call(x):
    return x * type("Scale", (), {"factor": 2}).factor


def named_tuple(x):
    pair = collections.namedtuple("Pair", "a b")(x, x + 1)
    return pair.a * pair.b


def nested_instance(x):
    class Layer(torch.nn.Module):
        def forward(self, x):
            return x * 2

    return Layer()(x.sin()).cos()


@pytest.mark.parametrize("f", [class_statement, class_of_a_call, named_tuple, nested_instance])
def test_code_for_a_class_of_each_call_is_compiled_twice(f):
    handle = framejit.compile(f, backend="eager")
    for k in range(12):
        x = torch.ones(2) * k
        assert handle(x).equal(f(x))
    report = handle.framejit.explain()
    assert len(report.breaks) == 1 and len(report.captures) == 3


def test_the_methods_of_a_dataclass_are_made_in_python():
    def f(x):
        @dataclasses.dataclass
        class Pair:
            factor: int
            tensor: torch.Tensor

        pair = Pair(3, x * 2)
        return pair.tensor + pair.factor

    handle = framejit.compile(f, backend="eager")
    for k in range(8):
        x = torch.ones(2) * k
        assert handle(x).equal(f(x))
    captures = handle.framejit.explain().captures
    assert all(capture.function != "__create_fn__" for capture in captures)
    assert len(captures) <= 4


def test_classes_that_repeat_have_entries_each():
    def of_class(x, cls):
        return x * cls.factor

    classes = [type("Scale", (), {"factor": n}) for n in range(4)]
    handle = framejit.compile(of_class, backend="eager")
    for _ in range(3):
        for cls in classes:
            assert handle(torch.ones(2), cls).equal(of_class(torch.ones(2), cls))
