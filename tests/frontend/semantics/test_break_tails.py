"""Statements that stay in Python run together with the breaking call before them, and code without
tensor operations is not compiled."""

from __future__ import annotations

import io
import traceback
from contextlib import redirect_stdout

import framejit
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

X = torch.arange(4.0)
CALLS = 4


def parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    data = TensorDataset(torch.arange(32.0).reshape(8, 4) / 32, torch.ones(8, 1))
    return (
        model,
        torch.optim.SGD(model.parameters(), lr=0.05),
        DataLoader(data, batch_size=2),
        tqdm(total=1000, file=io.StringIO()),
    )


def loss_of(model, x, y):
    return (model(x) - y).pow(2).mean()


def step_with_a_bar(model, optimizer, loader, bar):
    loss = loss_of(model, X[None], 1.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    bar.set_postfix(loss=f"{loss.item():.3f}")
    bar.update()
    return loss


def evaluation_step_with_a_bar(model, optimizer, loader, bar):
    loss = loss_of(model, X[None], 1.0)
    bar.set_postfix(loss=f"{loss.item():.3f}")
    bar.update(1)
    bar.refresh()
    return loss


def epoch(model, optimizer, loader, bar):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def epoch_with_a_bar(model, optimizer, loader, bar):
    for x, y in tqdm(loader, file=bar.fp):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        bar.set_postfix(loss=f"{loss.item():.3f}")
        bar.update()
    return loss


def evaluation_epoch(model, optimizer, loader, bar):
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += loss_of(model, x, y).item()
            bar.update()
    return total


def gradient_accumulation(model, optimizer, loader, bar):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(loader):
        loss = loss_of(model, x, y) / 2
        loss.backward()
        if (number + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return loss


@pytest.mark.parametrize(
    "program, most",
    [
        (step_with_a_bar, 3),
        (evaluation_step_with_a_bar, 1),
        (epoch, 4),
        (epoch_with_a_bar, 5),
        (evaluation_epoch, 4),
        (gradient_accumulation, 4),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_loops_of_training_compile_little(program, most):
    handle, mine, its = framejit.compile(program, backend="eager"), parts(), parts()
    compiles = []
    for _ in range(CALLS):
        assert float(handle(*mine)) == pytest.approx(float(program(*its)), rel=1e-5)
        compiles.append(handle.framejit.compiles)
    assert compiles[1] == compiles[-1] <= most, compiles
    assert mine[-1].n == its[-1].n and mine[-1].postfix == its[-1].postfix


# A class whose methods stay in Python, by the module that defines them.
NAMESPACE = {"__name__": "tqdm.made_for_tests", "__builtins__": __builtins__}
exec(
    """
class Bar:
    def __init__(self, fails_at=-1):
        self.calls, self.fails_at = [], fails_at
    def note(self, what=None):
        self.calls.append(what)
        if len(self.calls) == self.fails_at:
            raise ValueError(str(what))
    def __iter__(self):
        for k in range(3):
            self.note(k)
            yield k
    def leave(self):
        self.__class__ = Other

class Other(Bar):
    def note(self, what=None):
        self.calls.append(("other", what))
""",
    NAMESPACE,
)
Bar = NAMESPACE["Bar"]


def statements(x, bar):
    y = x + 1
    bar.note(1)
    bar.note("two")
    bar.note()
    return y


def a_caught_error(x, bar):
    y = x + 1
    try:
        bar.note(1)
        bar.note(2)
        bar.note(3)
        y = y * 2
    except ValueError as error:
        y = y - len(bar.calls)
        bar.note(str(error))
    return y


def a_loop(x, bar):
    y = x
    for k in bar:
        y = y * (k + 1)
        bar.note("body")
    else:
        y = y + 1
        bar.note("else")
    return y


def a_loop_with_break_and_continue(x, bar):
    y = x
    for k in bar:
        if k == 0:
            bar.note("skip")
            continue
        y = y + k
        bar.note("body")
        if k == 1:
            break
    return y


def a_loop_in_a_with(x, bar):
    y = x
    with torch.no_grad():
        for k in bar:
            y = y + k
            bar.note("body")
    return y


def a_loop_in_a_try(x, bar):
    y = x
    try:
        for k in bar:
            y = y + k
            bar.note("body")
    except ValueError:
        y = y * 7
    finally:
        bar.note("finally")
    return y


def an_enumerated_loop(x, bar):
    y = x
    for number, k in enumerate(bar, 1):
        y = y + k * number
        bar.note(number)
    return y, number


def nested_loops(x, bar):
    y = x
    for k in bar:
        for other in bar:
            y = y + k * other
            bar.note(other)
    return y


def another_class(x, bar):
    y = x + 1
    bar.leave()
    bar.note(1)
    return y


def an_unbound_variable(x, bar):
    y = x + 1
    if len(bar.calls) > 100:
        z = y
    bar.note(1)
    return z


def a_constant(x, bar):
    x.add_(1)
    bar.note(1)
    return 5


def an_argument(x, bar):
    x = x + 1
    bar.note(1)
    return x


def a_variable_in_a_cell(x, bar):
    y = x + 1

    def change():
        nonlocal y
        y = y + 1

    bar.note(change())
    return y


PROGRAMS = [
    statements, a_caught_error, a_loop, a_loop_with_break_and_continue, a_loop_in_a_with,
    a_loop_in_a_try, an_enumerated_loop, nested_loops, another_class, an_unbound_variable,
    a_constant, an_argument, a_variable_in_a_cell,
]  # fmt: skip


def outcome(f, bar):
    x = X.clone()
    try:
        result = f(x, bar)
    except (ValueError, UnboundLocalError) as error:
        here = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == __file__ and frame.name != "outcome"
        ]
        result = type(error), str(error), here
    return result, x, bar.calls, type(bar)


@pytest.mark.parametrize("fails_at", [-1, 1, 2, 3, 4])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_results_effects_and_errors_are_eagers(program, fails_at):
    handle = framejit.compile(program, backend="eager")
    for _ in range(3):
        got, expected = outcome(handle, Bar(fails_at)), outcome(program, Bar(fails_at))
        torch.testing.assert_close(got[1], expected[1])
        assert got[2:] == expected[2:]
        if isinstance(expected[0], torch.Tensor):
            torch.testing.assert_close(got[0], expected[0])
        elif isinstance(expected[0], tuple) and isinstance(expected[0][0], torch.Tensor):
            torch.testing.assert_close(got[0][0], expected[0][0])
            assert got[0][1:] == expected[0][1:]
        else:
            assert got[0] == expected[0]


def test_a_return_after_a_print_is_not_compiled():
    def f(x):
        y = x.sin()
        print("done")
        return y

    handle = framejit.compile(f, backend="eager")
    with redirect_stdout(io.StringIO()) as printed:
        for _ in range(3):
            assert torch.equal(handle(X), X.sin())
    assert handle.framejit.compiles == 1 and printed.getvalue() == "done\n" * 3


def test_tensor_work_after_a_call_in_python_is_captured():
    def f(x, bar):
        y = x.sin()
        bar.note()
        y = y.cos()
        bar.note()
        return y.exp()

    handle = framejit.compile(f, backend="eager")
    torch.testing.assert_close(handle(X, Bar()), X.sin().cos().exp())
    assert [unit.ops for unit in handle.framejit.explain().graphs] == [1, 1, 1]
