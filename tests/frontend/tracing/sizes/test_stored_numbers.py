"""Numbers that a call stores in objects, and that the next one finds there."""

from __future__ import annotations

import framejit
import pytest
import torch

LOSSES = (1.0, 0.9, 0.8, 0.85, 0.7, 0.75, 0.72, 0.6, 0.65, 0.66, 0.67, 0.68)


class Stopper:
    """Early stopping, as users write it."""

    def __init__(self, patience=3):
        self.best, self.bad, self.patience, self.stop = float("inf"), 0, patience, False

    def step(self, loss):
        if loss < self.best:
            self.best = loss
            self.bad = 0
        else:
            self.bad += 1
            if self.bad >= self.patience:
                self.stop = True
        return self.stop


def with_a_number(x, stopper, loss):
    return x * 2, stopper.step(loss)


def with_item(x, stopper, loss):
    return stopper.step((x * loss).mean().item())


def with_a_tensor(x, stopper, loss):
    return stopper.step((x * loss).mean()), stopper.bad


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(
    ("f", "compiles"), [(with_a_number, 4), (with_item, 5), (with_a_tensor, 5)]
)
def test_early_stopping(f, compiles, backend):
    handle, mine, its = framejit.compile(f, backend=backend), Stopper(), Stopper()
    for loss in LOSSES:
        assert repr(handle(torch.ones(2), mine, loss)) == repr(f(torch.ones(2), its, loss))
        assert repr(vars(mine)) == repr(vars(its))
    assert handle.framejit.compiles <= compiles, handle.framejit.explain()


class Counts:
    def __init__(self):
        self.calls, self.by_name = 0, {"first": 0, "second": 0.5}


def attribute(x, counts, second):
    if second:
        counts.calls += 1
        return x + counts.calls
    counts.calls = 3
    return x


def item_of_a_dictionary(x, counts, second):
    if second:
        counts.by_name["first"] += 2
        return x * counts.by_name["first"]
    counts.by_name["first"] = 1
    return x


@pytest.mark.parametrize("f", [attribute, item_of_a_dictionary], ids=lambda f: f.__name__)
def test_what_was_stored_varies_where_it_is_read_first(f):
    handle, mine, its = framejit.compile(f, backend="eager"), Counts(), Counts()
    for second in (False, True, True, True, True):
        x = torch.ones(2)
        assert handle(x, mine, second).equal(f(x, its, second))
        assert vars(mine) == vars(its)
    assert handle.framejit.compiles == 2


def test_what_a_closure_keeps_varies():
    def make():
        count = 0

        def f(x, second):
            nonlocal count
            if second:
                count += 1
                return x + count
            count = 7
            return x

        return f

    f, other = make(), make()
    handle = framejit.compile(f, backend="eager")
    for second in (False, True, True, True, False, True):
        assert handle(torch.ones(2), second).equal(other(torch.ones(2), second))
    assert handle.framejit.compiles == 2


def test_a_number_that_is_stored_back_stays_one_number():
    class Steps:
        count = None

    def f(x, steps, more):
        steps.count = steps.count or 3
        for _ in range(steps.count):
            x = x + more
        return x

    handle, steps = framejit.compile(f, backend="eager"), Steps()
    for more in (1, 2.5, 3.5, 4.5, 5.5):
        assert handle(torch.ones(2), steps, more).equal(torch.ones(2) + 3 * more)
    report = handle.framejit.explain()
    assert not report.breaks and report.graphs[-1].ops >= 3
