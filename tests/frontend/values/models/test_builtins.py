"""min() and max() of numbers that vary; iter() of what is not iterable."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch import nn


def warm_up(x, step):
    return x * min(1.0, (step + 1) / 5), max(0.0, 1.0 - step * 0.125)


def of_three(x, step):
    return x * max(step / 4, 0.5, 1.5 - step / 8)


def mixed_types(x, step):
    return x, min(1, step / 4), max(step, 2.5), min(step, 3)


CASES = {warm_up: 2, of_three: 2, mixed_types: None}


@pytest.mark.parametrize("backend", ["eager", "native", "autotune"])
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_the_extreme_of_floats_needs_no_branch(f, backend):
    handle = framejit.compile(f, backend=backend)
    for step in range(16):
        for x in (torch.arange(4.0), torch.arange(4.0, dtype=torch.float64)):
            assert repr(handle(x, step)) == repr(f(x, step))
    assert CASES[f] is None or handle.framejit.compiles <= 2 * CASES[f]


def test_a_schedule_with_warm_up_in_a_training_step():
    def parts():
        torch.manual_seed(0)
        net = nn.Linear(4, 4)
        optimizer = torch.optim.AdamW(net.parameters(), 0.1)
        factor = lambda step: min(1.0, (step + 1) / 5) * max(0.1, 1.0 - step / 20)
        return net, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)

    def step(net, optimizer, schedule, x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    handle, mine, its = framejit.compile(step, backend="eager"), parts(), parts()
    for number in range(30):
        x = torch.full((2, 4), 1.0 + number)
        assert torch.equal(handle(*mine, x), step(*its, x))
        assert mine[2].get_last_lr() == its[2].get_last_lr()
    assert handle.framejit.compiles <= 5


class Plain:
    pass


def is_iterable(x, obj):
    try:
        iter(obj)
    except TypeError as error:
        return x + 1, str(error)
    return x, "yes"


def test_iter_of_what_is_not_iterable():
    x = torch.ones(1)
    for obj in (1e-7, 3, None, Plain(), Plain, [1], "ab"):
        handle = framejit.compile(is_iterable, backend="eager", fullgraph=True)
        assert repr(handle(x, obj)) == repr(is_iterable(x, obj))
    handle = framejit.compile(is_iterable, backend="eager", fullgraph=True)
    for tolerance in (1.5, 2.5, 3.5, 4.5):
        assert repr(handle(x, tolerance)) == repr(is_iterable(x, tolerance))
    assert handle.framejit.compiles <= 2


def unpacked(x, obj):
    try:
        first, second = obj
    except TypeError as error:
        return x + 1, str(error)


def spread(x, obj):
    try:
        return [*obj]
    except TypeError as error:
        return x + 1, str(error)


@pytest.mark.parametrize("f", [unpacked, spread], ids=lambda f: f.__name__)
def test_the_message_where_an_object_is_not_iterable(f):
    x = torch.ones(1)
    for obj in (3, None, Plain()):
        assert repr(framejit.compile(f, backend="eager")(x, obj)) == repr(f(x, obj))
