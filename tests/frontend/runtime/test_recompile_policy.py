"""Misses: what they record, what happens at the limit, and that nothing compiles for ever."""

from __future__ import annotations

import types

import framejit
import pytest
import torch
from framejit.events import CompileStarted
from framejit.frontend.runtime.recompile_policy import EARLY_ENTRIES, has_room

X = torch.ones(2)


@pytest.fixture(autouse=True)
def _all_calls_compiled():
    """With default settings some calls run in eager, to compare them."""
    with framejit.config.patch(compare_calls=False):
        yield


def compiled(function, **knobs):
    with framejit.config.patch(**knobs):
        return framejit.compile(function)


def named(text, x=None):
    """Compiles again for each text: nothing stands for a string."""
    return X * len(text) if x is None else x * len(text)


def texts(count):
    return ["t" * (number + 1) for number in range(count)]


def test_a_miss_tells_guard_old_value_new_value_and_line():
    handle = compiled(named)
    handle("a")
    handle("bb")
    (miss,) = handle.framejit.cache.misses
    (change,) = miss.changes
    assert (change.what, change.old, change.new) == (
        "text",
        "'a'",
        "'bb'",
    ) and change.guard == "text == 'a'"
    name, _, line = change.line.rpartition(":")
    assert name == __file__ and int(line) in range(
        named.__code__.co_firstlineno, named.__code__.co_firstlineno + 3
    )
    assert (
        miss.failures == (change.sentence,)
        and "text is 'bb', was 'a' when compiled" in change.sentence
    )
    assert change.sentence in str(handle.framejit.explain()) and change.sentence in str(
        framejit.stats()
    )


def test_a_miss_of_a_specialised_number_tells_the_line():
    table = [1, 2, 3, 4, 5, 6]

    def f(x, n):
        return x + table[n]

    handle = compiled(f)
    for n in range(1, 5):
        handle(X, n)
    changes = [change for miss in handle.framejit.cache.misses for change in miss.changes]
    line = f"{__file__}:{f.__code__.co_firstlineno + 1}"
    assert len(changes) >= 3 and all(change.line == line for change in changes), changes


def test_eager_after_the_limit_and_counted():
    handle = compiled(named, recompile_limit=3)
    for text in texts(10):
        assert torch.equal(handle(text), named(text))
    assert handle.framejit.compiles == 3
    (stats,) = [one for one in framejit.stats().functions if one.full and one.function == "named"]
    assert (
        stats.entries == 3
        and stats.left_to_eager == 6
        and stats.compiles == 3
        and len(stats.misses) == 3
    )
    for text in texts(3):  # what was compiled is still used
        handle(text)
    assert (
        handle.framejit.compiles == 3
        and sum(entry.hits for entry in handle.framejit.cache.root.entries) == 6
    )
    assert "run in eager" in str(handle.framejit.explain())
    handle.framejit.reset()
    handle("a")
    assert handle.framejit.compiles == 4


def test_raise_at_the_limit():
    for knobs in ({"fail_on_recompile_limit_hit": True}, {}):
        with framejit.config.patch(recompile_limit=2, **knobs):
            handle = framejit.compile(named, fullgraph=not knobs)
        handle("a")
        handle("bb")
        for _ in range(2):
            with pytest.raises(
                framejit.RecompileLimitError,
                match="more than 2 entries.*last miss: text is 'ccc', was 'bb'",
            ):
                handle("ccc")
        handle("a")


def test_error_on_recompile():
    handle = compiled(named, error_on_recompile=True)
    handle("a")
    with pytest.raises(framejit.RecompileError, match="text is 'bb', was 'a'"):
        handle("bb")
    assert torch.equal(handle("a"), named("a"))


def test_suppressed_errors_of_a_backend():
    def backend(gm, inputs):
        raise RuntimeError("no")

    handle = compiled(named)
    handle = framejit.compile(named, backend=backend)
    with pytest.raises(framejit.BackendError):
        handle("a")
    with framejit.config.patch(suppress_errors=True):
        handle = framejit.compile(named, backend=backend)
    with pytest.warns(UserWarning, match="runs in eager"):
        assert torch.equal(handle("a"), named("a"))


MODULE = """
step = {first}
def f(x):
    return x * {read}
"""


@pytest.mark.parametrize(
    "first, read, values",
    [
        ("0", "step", range(40)),
        ("0.5", "step", [number / 2 for number in range(40)]),
        ("''", "len(step)", texts(40)),
        ("[0]", "step[0]", [[number] for number in range(40)]),
        ("(0,)", "step[0]", [(number,) for number in range(40)]),
        ("{'n': 0}", "step['n']", [{"n": number} for number in range(40)]),
    ],
    ids=["int", "float", "str", "list", "tuple", "dict"],
)
def test_a_module_level_variable_that_changes_in_every_iteration(first, read, values):
    module = types.ModuleType("module_of_test_recompiles")
    exec(MODULE.format(first=first, read=read), vars(module))
    handle = compiled(module.f, strict=True)
    for value in values:
        module.step = value
        assert torch.equal(handle(X), module.f(X)), value
    assert handle.framejit.compiles <= 8
    compiles = handle.framejit.compiles
    for value in values:
        module.step = value
        assert torch.equal(handle(X), module.f(X)), value
    assert handle.framejit.compiles == compiles


def test_a_counter_of_a_module():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x):
            self.n += 1
            return x * self.n

    mine, reference = Counting(), Counting()
    with framejit.config.patch(strict=True):
        framejit.compile(mine)
    for _ in range(40):
        assert torch.equal(mine(X), reference(X)) and mine.n == reference.n
    assert mine.framejit.compiles <= 2


class UsedEntry:
    def __init__(self, hits):
        self.hits = hits


def test_iterations_get_code_as_long_as_that_serves_again():
    assert has_room([UsedEntry(1)] * (EARLY_ENTRIES - 1))
    assert not has_room([UsedEntry(1)] * EARLY_ENTRIES)
    assert has_room([UsedEntry(5)] * EARLY_ENTRIES)


def test_a_stack_of_layers_around_breaks_settles():
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(20))

    def f(x):
        for layer in layers:
            print(end="")
            x = layer(x)
        return x

    events = []
    with framejit.config.patch(sinks=(events.append,), compile_share=float("inf")):
        handle = framejit.compile(f, backend="eager")
    x = torch.ones(2, 4)
    for _ in range(6):
        torch.testing.assert_close(handle(x), f(x))
    settled = sum(isinstance(event, CompileStarted) for event in events)
    handle(x)
    assert sum(isinstance(event, CompileStarted) for event in events) == settled
