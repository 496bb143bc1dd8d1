"""Continuations: the code after a break, how often it is compiled, and its guards."""

import gc
import weakref

import framejit
import pytest
import torch
from framejit import events


def compiled(f):
    """A handle, the list of its events, and the list of its graphs."""
    seen, graphs = [], []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    with framejit.config.patch(strict=True):
        handle = framejit.compile(f, backend=backend)
    handle.framejit.cache.sinks.append(seen.append)
    return handle, seen, graphs


def branches(x):
    for _ in range(4):
        x = torch.relu(x + 1)
        x = x * 2 if x.sum().item() > 10 else x * 3
    return x


def test_a_branch_on_a_number_depends_on_the_way_taken_not_on_the_number():
    handle, seen, graphs = compiled(branches)
    for _ in range(5):  # other numbers, the same ways
        x = torch.rand(4)
        assert torch.equal(handle(x), branches(x))
    after = handle.framejit.compiles
    for _ in range(20):
        x = torch.rand(4)
        assert torch.equal(handle(x), branches(x))
    assert handle.framejit.compiles == after and len(graphs) <= 6
    assert not any(isinstance(event, events.Skipped) for event in seen)


@pytest.mark.parametrize(
    "iterable", [range(3), [5, 6, 7], (1.5, 2.5)], ids=["range", "list", "tuple"]
)
def test_a_break_in_a_loop_keeps_every_op(iterable, capsys):
    def f(x, items):
        for item in items:
            x = torch.sin(x) + 1
            print("at", item)
            x = torch.cos(x) * 2
        return x

    handle, seen, graphs = compiled(f)
    x = torch.randn(3)
    assert torch.equal(handle(x, iterable), f(x, iterable))
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"at {item}" for item in iterable] * 2
    ops = sum(event.ops for event in seen if isinstance(event, events.Captured))
    assert ops >= 4 * 2  # the first body, and one that serves the others


def test_a_loop_body_is_compiled_once_when_the_item_is_not_used():
    def f(x, n):
        for _ in range(n):
            print(end="")
            x = x + 1
        return x

    handle, _, graphs = compiled(f)
    handle(torch.zeros(2), 3)
    few = handle.framejit.compiles
    for n in (3, 3, 3):
        assert handle(torch.zeros(2), n)[0] == n
    assert handle.framejit.compiles == few


def test_a_list_that_its_loop_changes(capsys):
    def f(x, items):
        for item in items:
            print(item)
            if item < 3:
                items.append(item + 2)
            x = x + item
        return x

    handle, *_ = compiled(f)
    ours, theirs = [1, 2], [1, 2]
    assert torch.equal(handle(torch.zeros(2), ours), f(torch.zeros(2), theirs))
    assert ours == theirs == [1, 2, 3, 4]


def test_vmap_is_one_graph():
    def f(x, y):
        return torch.vmap(lambda a, b: (a * b).sum() + a)(x, y)

    handle, seen, graphs = compiled(f)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert torch.equal(handle(x, y), f(x, y))
    assert len(graphs) == 1 and not any(isinstance(event, events.Break) for event in seen)


def test_a_deque_made_inside():
    def f(x):
        from_left, queue = [], __import__("collections").deque([x], maxlen=3)
        for i in range(5):
            queue.append(x + i)
        queue.rotate(1)
        while queue:
            from_left.append(queue.popleft())
        return from_left

    handle, *_ = compiled(f)
    x = torch.randn(2)
    assert all(map(torch.equal, handle(x), f(x)))


@pytest.mark.parametrize("deep", [False, True])
def test_a_dropped_handle_frees_what_it_made_for_loops_with_breaks(deep):
    def turn(x):
        return x * 2 if x.sum().item() > 0 else x + 1

    def f(x):
        for _ in range(3):
            x = turn(x) if deep else x * 2 if x.sum().item() > 0 else x + 1
        return x

    handle, _, _ = compiled(f)
    handle(torch.ones(2))
    sites = [weakref.ref(site.data) for site in handle.framejit.cache.sites()[1:]]
    assert sites
    del handle
    gc.collect()
    assert [site() for site in sites] == [None] * len(sites)
