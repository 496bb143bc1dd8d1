"""Graphs whose sizes vary: one compile, and one decision for each scale of sizes."""

import gc
import time
import weakref

import framejit
import pytest
import torch


def work(x, w):
    return torch.tanh(x @ w) + x.sum(), x.sin()


def inputs(rows):
    return torch.linspace(-1, 1, rows * 32).reshape(rows, 32), torch.linspace(-1, 1, 1024).reshape(
        32, 32
    )


@pytest.fixture
def builds():
    """Backends that count how often they are asked, and give what their functions make of the
    graph."""
    counted = []

    def register(name, run):
        def build(gm, example_inputs):
            counted.append([tuple(item.shape) for item in example_inputs])
            return lambda *args: run(gm, *args)

        framejit.register_backend(name, build)
        return counted

    return register


def test_one_decision_for_a_scale(tuned, builds):
    counted = builds("scaled-right", lambda gm, *args: gm.forward(*args))
    compiled, choices = tuned(work, "scaled-right", isolate=False)
    for rows in (8, 9, 10, 11, 12, 13, 14, 15):
        for mine, yours in zip(work(*inputs(rows)), compiled(*inputs(rows)), strict=True):
            torch.testing.assert_close(yours, mine)
    assert compiled.framejit.compiles == 2 and len(counted) == 2
    assert len(choices()) == 2  # of the first call, and of the graph for all sizes


def test_two_equal_decisions_stand_for_all_sizes(tuned, builds):
    builds(
        "scaled-slow", lambda gm, *args: [torch.stack([item] * 50)[0] for item in gm.forward(*args)]
    )
    compiled, choices = tuned(work, "scaled-slow", isolate=False)
    for rows in (8, 9, 64, 512, 4096, 20, 2000):
        compiled(*inputs(rows))
    assert compiled.framejit.compiles == 2
    assert [choice.backend for choice in choices()] == ["eager"] * 3


def test_what_is_wrong_for_one_scale_is_not_built_again(tuned, builds):
    """Guards on sizes that a compile adds can only be read while the graph is compiled."""
    counted = builds(
        "scaled-wrong",
        lambda gm, *args: [item + (len(args[0]) > 100) for item in gm.forward(*args)],
    )
    compiled, choices = tuned(work, "scaled-wrong", isolate=False)
    for rows in (8, 9, 4096, 10, 8192, 70000):
        for mine, yours in zip(work(*inputs(rows)), compiled(*inputs(rows)), strict=True):
            torch.testing.assert_close(yours, mine)
    assert len(counted) == 2
    assert "is wrong" in dict(choices()[2].struck)["scaled-wrong"]


def test_a_decision_is_remembered_for_other_sizes_of_its_scale(tuned, builds):
    builds("scaled-once", lambda gm, *args: gm.forward(*args))
    for rows in ((8, 9, 10), (8, 11)):
        compiled, choices = tuned(work, "scaled-once", isolate=False)
        for number in rows:
            compiled(*inputs(number))
    assert [choice.why for choice in choices()] == ["remembered", "remembered"]


def test_a_counter_is_no_scale(tuned, builds):
    """A number that no size follows from does not change what is fastest."""
    builds("scaled-counter", lambda gm, *args: gm.forward(*args))
    compiled, choices = tuned(
        lambda x, n: (x.sin() * n).cos() + (x * n).tanh(), "scaled-counter", isolate=False
    )
    for number in range(1, 2000, 97):
        compiled(inputs(8)[0], number)
    assert compiled.framejit.compiles == 2 and len(choices()) == 2


@framejit.opaque(like=lambda x: torch.empty_like(x))
def between(x):
    return x + 1


def test_losers_of_a_part_of_a_graph_are_freed(tuned):
    """The parts have no real examples, so that each decides at its first call; its sizes do not
    vary, so that no other decision follows."""
    made = []

    def slow(gm, example_inputs):
        def run(*args):
            time.sleep(0.002)
            return gm.forward(*args)

        made.append(weakref.ref(run))
        return run

    framejit.register_backend("slow-part", slow)
    compiled, choices = tuned(
        lambda x: between((x * 2).cos()).sin(), "slow-part", isolate=False, remember=False
    )
    x = torch.ones(300, 300)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), ((x * 2).cos() + 1).sin())
    gc.collect()
    assert [choice.backend for choice in choices()] == ["eager"] * 2
    assert [loser() for loser in made] == [None, None]
