"""Graphs whose sizes vary: one compile, and one decision for each scale of sizes."""

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
