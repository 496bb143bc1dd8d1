"""The first step of an optimizer, which creates its state."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
from framejit import events
from framejit.frontend.tracing.interpreter.interpreter import Interpreter
from framejit.frontend.values.models.optimizers import FIRST_STEP
from torch import nn
from torch.nn import functional as F


def noting(function, ran):
    def run(*args):
        ran.append(args)
        return function(*args)

    return run


STATEFUL = ("AdamW", "Adam", "RMSprop", "NAdam", "Adadelta")


def training(name, net, **settings):
    optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.01, **settings)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, optimizer


def run(name, steps=4, settings=None, backend="autotune", **options):
    """Trains compiled and in eager; the events of the compiled steps, one list a step."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    twin = copy.deepcopy(net)
    step, optimizer = training(name, net, **(settings or {}))
    eager, its = training(name, twin, **(settings or {}))
    happened, record = [], events.Recorder()
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(step, backend=backend, **options)
    compiled.framejit.cache.sinks.append(record)
    for number in range(steps):
        x, y = torch.randn(3, 4), torch.randn(3, 2)
        before = len(record.events)
        torch.testing.assert_close(compiled(x, y), eager(x, y), msg=f"step {number}")
        happened.append(list(record.events)[before:])
    for one, other in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other)
        torch.testing.assert_close(optimizer.state[one], its.state[other])
    return happened


def postponed(happened):
    return [isinstance(event, events.Skipped) and event.reason == FIRST_STEP for event in happened]


def operations(happened):
    """How many operations the captures of a step have, together."""
    return sum(event.ops for event in happened if isinstance(event, events.Captured))


@pytest.mark.parametrize("name", STATEFUL)
def test_the_first_step_runs_in_eager(name):
    first, second, *rest = run(name)
    assert sum(postponed(first)) == 1
    assert operations(first) < 8  # what comes before backward()
    assert operations(second) > 20
    assert not any(map(any, map(postponed, (second, *rest))))


def test_what_is_said_of_it():
    torch.manual_seed(0)
    step, _ = training("Adam", nn.Linear(4, 2))
    compiled = framejit.compile(step, backend="autotune")
    compiled(torch.randn(3, 4), torch.randn(3, 2))
    assert FIRST_STEP in str(compiled.framejit.explain())


@pytest.mark.parametrize(
    "options",
    [{"backend": "eager"}, {"options": {"patience": 0, "candidates": ["eager"]}}],
    ids=["another backend", "at once"],
)
def test_a_first_step_is_compiled_where_graphs_are_compiled_at_once(options):
    first, *_ = run("AdamW", steps=2, **options)
    assert not any(postponed(first))
    assert operations(first) > 20


def test_a_step_without_state_is_compiled():
    first, *_ = run("SGD", steps=2, settings={"momentum": 0.9})
    assert not any(postponed(first))


def test_state_that_is_loaded_is_found():
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    step, optimizer = training("AdamW", net)
    step(torch.randn(3, 4), torch.randn(3, 2))
    compiled, record = framejit.compile(step, backend="autotune"), events.Recorder()
    compiled.framejit.cache.sinks.append(record)
    compiled(torch.randn(3, 4), torch.randn(3, 2))
    assert not any(postponed(record.events))
    assert operations(record.events) > 20


def test_an_optimizer_that_never_gets_state_is_compiled_in_the_third_step():
    optimizer = torch.optim.Adam([torch.ones(2, requires_grad=True)])

    def step(x):
        y = x.sin()
        optimizer.step()  # of parameters without gradients
        return y + 1

    compiled, record = framejit.compile(step, backend="autotune"), events.Recorder()
    compiled.framejit.cache.sinks.append(record)
    for _ in range(4):
        compiled(torch.ones(2))
    assert sum(postponed(record.events)) == 2
    assert operations(record.events) > 0


class Owner:
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer

    def learn(self, x):
        loss = self.net(x).sum()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@pytest.mark.parametrize("how", ["closure", "argument", "attribute", "global"])
def test_nothing_is_captured_for_a_call_that_comes_to_a_first_step(how, monkeypatch):
    """That runs in eager: what was captured before the step would be thrown away."""
    ran = []
    monkeypatch.setattr(Interpreter, "start_group", noting(Interpreter.start_group, ran))
    net = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters())
    monkeypatch.setitem(globals(), "trained", optimizer)

    def learn(x, closed_over=None):
        loss = net(x).sum()
        loss.backward()
        (closed_over or trained).step()  # noqa: F821
        return loss.detach()

    def learn_by_closure(x):
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step, arguments = {
        "closure": (learn_by_closure, ()), "argument": (learn, (optimizer,)),
        "attribute": (Owner(net, optimizer).learn, ()), "global": (learn, ()),
    }[how]  # fmt: skip
    compiled = framejit.compile(step, backend="autotune")
    compiled(torch.ones(3, 4), *arguments)
    assert not ran
    compiled(torch.ones(3, 4), *arguments)
    assert ran


def test_accumulated_gradients():
    """A step in every other call: the first call is left to Python as it may come to the step, and
    the one that does."""
    net = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters())

    def learn(x, steps):
        loss = net(x).sum()
        loss.backward()
        if steps:
            optimizer.step()
        return loss.detach()

    compiled, record = framejit.compile(learn, backend="autotune"), events.Recorder()
    compiled.framejit.cache.sinks.append(record)
    counts = []
    for number in range(6):
        compiled(torch.ones(3, 4), number % 2 == 1)
        counts.append(sum(postponed(record.events)))
    assert counts == [1, 2, 2, 2, 2, 2]
