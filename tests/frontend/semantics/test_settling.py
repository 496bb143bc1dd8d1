"""Programs as people write them settle: after the first few calls nothing is compiled any more."""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stdout

import framejit
import pytest
import torch
from torch import nn
from tqdm import tqdm

BATCHES = [torch.arange(8.0).reshape(2, 4) / 8 * k for k in range(1, 6)]
CALLS, SETTLED = 8, 3  # calls of each program, and after how many of them no compile may follow


def parts(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train_step(model, optimizer, x):
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def with_a_progress_bar(model, optimizer):
    total = 0.0
    for x in tqdm(BATCHES, file=io.StringIO()):
        total += train_step(model, optimizer, x).item()
    return total


def with_a_logger(model, optimizer):
    log, total = logging.getLogger("tests.settling"), 0.0
    for number, x in enumerate(BATCHES):
        loss = train_step(model, optimizer, x).item()
        log.info("batch %d: loss %.4f", number, loss)
        total += loss
    return total


def with_prints(model, optimizer):
    total = 0.0
    for number, x in enumerate(BATCHES):
        loss = train_step(model, optimizer, x).item()
        print(f"[{number + 1}/{len(BATCHES)}] loss={loss:.4f}")
        total += loss
    return total


class Meter:
    def __init__(self):
        self.count, self.mean = 0, 0.0

    def update(self, value):
        self.count += 1
        self.mean += (value - self.mean) / self.count


def with_a_meter(model, optimizer):
    meter = Meter()
    for x in BATCHES:
        meter.update(train_step(model, optimizer, x).item())
    return round(meter.mean, 5)


@pytest.mark.parametrize(
    "epoch",
    [with_a_progress_bar, with_a_logger, with_prints, with_a_meter],
    ids=lambda f: f.__name__,
)
def test_an_epoch_settles(epoch):
    handle, mine, its = framejit.compile(epoch, backend="eager"), parts(), parts()
    compiles, printed, expected = [], io.StringIO(), io.StringIO()
    for _ in range(CALLS):
        with redirect_stdout(printed):
            got = handle(*mine)
        with redirect_stdout(expected):
            assert got == pytest.approx(epoch(*its), rel=1e-5)
        compiles.append(handle.framejit.compiles)
    assert printed.getvalue() == expected.getvalue()
    assert compiles[SETTLED] == compiles[-1] <= 40, compiles


def test_packed_batches_of_varying_lengths():
    """Packing, the layer and unpacking are a call of Python each; what is between is compiled for
    any length."""
    torch.manual_seed(0)
    table, layer, head = nn.Embedding(20, 8), nn.LSTM(8, 8, bidirectional=True), nn.Linear(16, 3)

    def program(x, lengths):
        given = nn.utils.rnn.pack_padded_sequence(table(x) * 2, lengths, enforce_sorted=False)
        result, (state, _) = layer(given)
        padded, _ = nn.utils.rnn.pad_packed_sequence(result)
        return head(padded).sum(0) / lengths[:, None], state.tanh()

    handle = framejit.compile(program, backend="eager")
    compiles = []
    for lengths in ([5, 4, 2], [6, 1, 3], [7, 5, 1], [4, 4, 4], [3, 2, 8], [2, 9, 2]):
        x = torch.arange(max(lengths) * 3).reshape(-1, 3) % 20
        for mine, yours in zip(
            handle(x, torch.tensor(lengths)), program(x, torch.tensor(lengths)), strict=True
        ):
            assert torch.equal(mine, yours)
        compiles.append(handle.framejit.compiles)
    assert compiles[-1] == compiles[2] <= 7
    assert len(handle.framejit.explain().breaks) == 3


def test_a_progress_bar_is_left_to_python():
    def step(model, bar, x):
        with torch.no_grad():
            mean = model(x).mean()
        bar.set_postfix(mean=f"{mean.item():.3f}")
        bar.update()
        return mean * 2

    model, _ = parts()
    compiled = framejit.compile(step, backend="eager")
    with tqdm(total=100, file=io.StringIO(), mininterval=0) as bar:
        for x in BATCHES:
            assert torch.equal(compiled(model, bar, x), model(x).mean().detach() * 2)
    assert compiled.framejit.compiles <= 3
