"""Recorded graphs on a CUDA device: equal to eager in everything that a program can see; where a
graph is not recorded, the reason is reported."""

from __future__ import annotations

import gc
import threading
from types import FunctionType

import framejit
import pytest
import torch
from framejit.backends.cudagraphs import graphed as graphed_module
from framejit.backends.cudagraphs import pool
from framejit.events import Note, Recorded, Reporter
from torch import nn

from .shown_layers import ShownLayers

pytestmark = pytest.mark.gpu


def notes(compiled):
    return [
        event.text
        for event in compiled.framejit.history.events
        if isinstance(event, Note | Recorded)
    ]


def recorded(compiled):
    return any("recorded," in text for text in notes(compiled))


def record(function, **options):
    return framejit.compile(function, backend="cudagraphs", options=options or None)


def rand(*sizes, **more):
    return torch.randn(*sizes, device="cuda", **more)


def check(function, make, calls=6):
    """Calls both on inputs made anew; results and inputs must be the same, also those of earlier
    calls at the end."""
    compiled = record(function)
    kept = []
    for _ in range(calls):
        args = make()
        other = [arg.clone() for arg in args]
        kept.append((compiled(*args), function(*other), args, other))
    for got, wanted, args, other in kept:
        for one, two in zip(got, wanted, strict=True):
            assert torch.equal(one, two) and one.stride() == two.stride() and one.dtype == two.dtype
        assert all(map(torch.equal, args, other))
    assert recorded(compiled), notes(compiled)
    return compiled


def test_results_of_earlier_calls_stay():
    def f(x, y):
        return torch.tanh(x @ y), (x + y).t(), x.sum()

    check(f, lambda: [rand(32, 32), rand(32, 32)])


def test_views_and_inputs_among_the_results():
    def f(x, y):
        z = x * y
        return (
            x,
            x[2:],
            z,
            z[1:3],
            z.view(-1)[5:],
            y.t(),
            z.expand(3, 8, 8),
            torch.zeros(0, device="cuda"),
        )

    compiled = check(f, lambda: [rand(8, 8), rand(8, 8)])
    x, y = rand(8, 8), rand(8, 8)
    got = compiled(x, y)
    assert got[0] is x
    x.zero_()
    assert got[1].sum() == 0
    got[2].fill_(3)
    assert (got[3] == 3).all() and (got[4] == 3).all()


def test_a_detached_view_of_an_input_has_no_history():
    def f(x):
        return x.detach(), x.data[1:]

    compiled = record(f)
    for _ in range(4):
        x = rand(8, 8, requires_grad=True) * 1
        assert not any(one.requires_grad for one in compiled(x))
    assert recorded(compiled), notes(compiled)


def test_a_view_of_an_input_may_be_written_to():
    compiled, kept = record(lambda x: x[1:]), []
    for _ in range(4):
        x, weight = rand(8, 8).view(8, 8), rand(7, 8, requires_grad=True)
        compiled(x).mul_(weight)
        kept.append(x)
    assert all(x.requires_grad for x in kept)
    assert recorded(compiled), notes(compiled)


def test_inputs_that_are_written_to():
    def f(x, total):
        total.add_(x)
        total[:1].fill_(1)
        return total * 2, total

    check(f, lambda: [rand(8, 8), rand(8, 8)])
    compiled, total, other = record(f), torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    for _ in range(5):  # the same object: read and written in place
        x = rand(4)
        version = total._version
        assert torch.equal(compiled(x, total)[0], f(x, other)[0]) and torch.equal(total, other)
        assert total._version > version


def test_random_numbers_are_eagers():
    def f(x):
        return (torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x),)

    compiled, x = record(f), rand(1000)
    torch.manual_seed(7)
    wanted = [f(x)[0] for _ in range(6)] + [torch.rand(3, device="cuda")]
    torch.manual_seed(7)
    got = [compiled(x)[0] for _ in range(6)] + [torch.rand(3, device="cuda")]
    assert all(map(torch.equal, got, wanted)) and recorded(compiled)


def test_parameters_are_read_in_place_and_may_be_replaced():
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).cuda()
    compiled = framejit.compile(model, backend="cudagraphs")
    with torch.no_grad():
        for step in range(12):
            if step in (4, 7):
                model[0].weight.data = rand(16, 16)
            if step == 6:
                model[0].weight.mul_(2)
            if step == 9:
                model[2].weight = nn.Parameter(rand(4, 16))
            x = rand(5, 16)
            wanted = nn.functional.linear(
                model[1](nn.functional.linear(x, model[0].weight, model[0].bias)),
                model[2].weight,
                model[2].bias,
            )
            assert torch.equal(compiled(x), wanted)


def test_inputs_that_keep_moving_end_it(monkeypatch):
    monkeypatch.setattr(graphed_module, "MOST_REMADE", 2)
    model = nn.Linear(8, 8, bias=False).cuda()
    compiled = record(lambda x: model(x).relu())
    with torch.no_grad():
        for _ in range(8):
            model.weight.data = rand(8, 8)
            x = rand(3, 8)
            assert torch.equal(compiled(x), (x @ model.weight.t()).relu())
    assert any("keep moving" in text for text in notes(compiled))


def test_sizes_are_bounded(monkeypatch):
    monkeypatch.setattr(graphed_module, "MOST_SHAPES", 3)
    compiled = framejit.compile(lambda x: (x.sin() + 1).sum(0), backend="cudagraphs", dynamic=True)
    for size in (4, 5, 6, 7, 8, 9) * 3:
        x = rand(size, 3)
        assert torch.equal(compiled(x), (x.sin() + 1).sum(0))
    assert any("no room for more" in text for text in notes(compiled))


def test_recordings_share_their_memory():
    """Inputs that are copied in, intermediate values and results of one are free while the other
    runs."""
    compiled = framejit.compile(
        lambda x: (x.sin(), x.cos() + 1), backend="cudagraphs", dynamic=True
    )
    kept, before = [], pool.recorded_bytes()
    for _ in range(5):
        for size in range(1 << 20, (1 << 20) + 6):
            x = rand(size, 4)
            kept.append((compiled(x), (x.sin(), x.cos() + 1), x))
    for got, wanted, _ in kept:
        assert all(map(torch.equal, got, wanted))
    assert sum("recorded," in text for text in notes(compiled)) >= 6, notes(compiled)
    assert pool.recorded_bytes() - before < 2 * 5 * 16 << 20  # all six live at once: 6 * 3 * 16


def test_what_cannot_be_recorded_says_why():
    def on_the_cpu(x, y):
        return x * y

    compiled = record(on_the_cpu)
    x, y = rand(()), torch.ones(())
    for _ in range(3):
        assert torch.equal(compiled(x, y), x * y)
    (said,) = notes(compiled)
    assert "the input y is on the cpu" in said and "test_backend_on_device.py:" in said
    with pytest.raises(framejit.RequirementError, match="the input y is on the cpu"):
        record(on_the_cpu, cudagraphs="require")(x, y)


def test_as_strided_between_the_elements_of_an_input_is_not_recorded():
    compiled = record(lambda x: x.as_strided((4,), (1,)) * 2)
    for number in range(4):
        x = torch.full((8,), float(number), device="cuda")[::2]
        assert torch.equal(compiled(x), torch.full((4,), 2.0 * number, device="cuda"))
    assert "as_strided may read memory around an input" in str(notes(compiled))


def test_a_recording_that_fails_halfway():
    def hidden_wait(gm, example_inputs):
        def run(x):
            y = x * 2
            return (y * float(y.sum()),)  # the host waits, which nobody can see beforehand

        return graphed_module.GraphedCallable(
            graphed_module.RecordingRequest(run, 0),
            Reporter("f", "", lambda event: said.append(event.text)),
        )

    said = []
    compiled = framejit.compile(lambda x: x * 2 * (x * 2).sum(), backend=hidden_wait)
    other = record(lambda x: x.sin().cos())
    for _ in range(4):
        x = rand(5)
        y = x * 2
        assert torch.allclose(compiled(x), y * y.sum())
        assert torch.equal(other(x), x.sin().cos())
        torch.cuda.synchronize()
    assert any("not recorded" in text for text in said) and recorded(other)
    assert (
        torch.rand(3, device="cuda").max() < 1
    )  # the generator does not think that it is still being recorded


def test_other_streams_and_threads(monkeypatch):
    compiled = record(lambda x: (x @ x).tanh() + 1)
    wrong, failed = [], []
    monkeypatch.setattr(threading, "excepthook", failed.append)

    def work(number):
        with (
            torch.cuda.stream(torch.cuda.Stream())
            if number % 2
            else torch.cuda.stream(torch.cuda.default_stream())
        ):
            for _ in range(30):
                x = rand(64, 64)
                got = compiled(x)
                torch.cuda.current_stream().synchronize()
                if not torch.equal(got, (x @ x).tanh() + 1):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and failed == []
    for _ in range(3):
        x = rand(64, 64)
        assert torch.equal(compiled(x), (x @ x).tanh() + 1)
    assert recorded(compiled)


def test_precision_of_products_is_part_of_it():
    compiled = record(lambda x: x @ x)
    x = rand(256, 256)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "highest", "high", "high", "high", "highest"):
            torch.set_float32_matmul_precision(precision)
            assert torch.equal(compiled(x), x @ x)
    finally:
        torch.set_float32_matmul_precision(before)


def test_inference_mode_and_no_grad():
    compiled = record(lambda x: x.sin() * 2)
    for mode in (torch.inference_mode, torch.no_grad) * 3:
        with mode():
            x = rand(7)
            got = compiled(x)
            assert (
                torch.equal(got, x.sin() * 2)
                and got.is_inference() == torch.is_inference_mode_enabled()
            )


def model_for_training():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(16, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 4)
    ).cuda()


def steps(model, count, optimizer=True):
    """Losses and parameters after so many steps."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses = []
    for _ in range(count):
        x = rand(8, 16)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, [item.detach().clone() for item in (*model.parameters(), *model.buffers())]


@pytest.mark.parametrize("backend", ["cudagraphs", "native+cudagraphs"])
def test_training_is_eagers(backend):
    losses, parameters = steps(model_for_training(), 8)
    model = framejit.compile(model_for_training(), backend=backend)
    got_losses, got_parameters = steps(model, 8)
    for got, wanted in zip((*got_losses, *got_parameters), (*losses, *parameters), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    said = [
        event.text
        for event in model.framejit._controls[0].history.events
        if isinstance(event, Note | Recorded)
    ]
    assert sum("recorded," in text for text in said) == 2  # forward and backward


@pytest.mark.parametrize("backend", ["cudagraphs", "native+cudagraphs"])
def test_subgraphs_that_read_each_others_results_in_place(backend):
    torch.manual_seed(0)
    ours, theirs = ShownLayers(4, 32).cuda(), ShownLayers(4, 32).cuda()
    theirs.load_state_dict(ours.state_dict())
    compiled = framejit.compile(ours, backend=backend)
    kept = {True: [], False: []}
    for step in range(16):
        x, y = rand(64, 32), rand(64, 32)
        for one, call in ((ours, compiled), (theirs, theirs)):
            one.zero_grad()
            loss, shown = call(x)
            if step % 3 == 1:  # hooks, whose gradients are kept
                shown[1].register_hook(kept[one is ours].append)
            if step % 4 == 3:  # another forward pass before the backward pass
                loss = loss + call(y)[0]
            loss = loss + shown[0].mean()
            loss.backward(retain_graph=step % 5 == 4)
            if step % 5 == 4:
                loss.backward()
            kept[one is ours] += [shown[2].detach(), loss.detach()]
        for got, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(got.grad, wanted.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(kept[True], kept[False], rtol=1e-4, atol=1e-5)
    (control,) = ours.framejit._controls
    said = [event.text for event in control.history.events if isinstance(event, Recorded)]
    assert sum("recorded," in text for text in said) >= 8, said


def test_two_forward_passes_before_a_backward_one():
    weight = nn.Parameter(rand(8, 8))
    compiled = record(lambda x: (x @ weight).sin().exp())
    for step in range(8):
        x, y = rand(4, 8), rand(4, 8)
        first, second = compiled(x), compiled(y) if step % 2 else None
        loss = first.sum() if second is None else first.sum() + 2 * second.sum()
        (got,) = torch.autograd.grad(loss, weight, retain_graph=True)
        (again,) = torch.autograd.grad(loss, weight)
        wanted = (x @ weight).sin().exp().sum() + (
            0 if second is None else 2 * (y @ weight).sin().exp().sum()
        )
        torch.testing.assert_close(got, torch.autograd.grad(wanted, weight)[0])
        assert torch.equal(got, again)
    del loss, wanted, first, second
    assert sum("recorded," in text for text in notes(compiled)) == 2


@pytest.mark.parametrize("backend", ["cudagraphs", "native+cudagraphs"])
def test_a_graph_recorded_earlier_runs_between_forward_and_backward(backend):
    """It may use memory in which the other one's saved results lie."""

    def activations(x, weight):
        for _ in range(6):
            x = (x @ weight).sin().exp()
        return x

    weights = [nn.Parameter(rand(64, 64) / 8) for _ in range(2)]
    earlier, later = (framejit.compile(copy(activations), backend=backend) for _ in range(2))

    kept = []  # inputs move between calls, so they are copied in, and nothing is recorded again

    def fresh():
        kept.append(rand(4096, 64))
        return kept[-1]

    def gradient(function, between=None):
        x = fresh()
        made = function(x, weights[1])
        if between is not None:
            between(fresh(), weights[0]).sum().backward()
        made.sum().backward()
        got, weights[1].grad = weights[1].grad, None
        (wanted,) = torch.autograd.grad(activations(x, weights[1]).sum(), weights[1])
        return got, wanted

    for _ in range(6):
        earlier(fresh(), weights[0]).sum().backward()
    for _ in range(6):
        gradient(later)
    for _ in range(3):
        got, wanted = gradient(later, earlier)
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3 * wanted.abs().max().item())
    assert sum("recorded," in text for text in notes(earlier) + notes(later)) == 4


def copy(function):
    return FunctionType(function.__code__.replace(), function.__globals__)


def test_over_another_backend():
    made = []

    def parts(gm, example_inputs):
        made.append(gm)
        return gm.forward

    framejit.register_backend("parts_for_test", parts, wants="aten")
    weight = nn.Parameter(rand(8, 8))
    compiled = framejit.compile(lambda x: (x @ weight).sin(), backend="parts_for_test+cudagraphs")
    for _ in range(5):
        x = rand(4, 8)
        got = compiled(x)
        (gradient,) = torch.autograd.grad(got.sum(), weight)
        wanted = (x @ weight).sin()
        assert torch.equal(got, wanted) and torch.allclose(
            gradient, torch.autograd.grad(wanted.sum(), weight)[0]
        )
    assert len(made) == 2 and sum("recorded," in text for text in notes(compiled)) == 2


def test_nothing_stays_when_the_handle_goes():
    def build():
        model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))).cuda()
        compiled = framejit.compile(model, backend="cudagraphs")
        x = rand(2048, 512)
        with torch.no_grad():
            for _ in range(4):
                compiled(x)

    build()
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    build()
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() <= before[0] and torch.cuda.memory_reserved() <= before[1]


def test_inputs_that_move_and_have_gaps_or_repeat_are_copied_in():
    def f(x, y, z):
        x.add_(1)
        return x * 2, y + 1, z.amax()

    def make():
        wide = rand(64, 64)
        return [wide[:, :8], rand(8).expand(64, 8), rand(70).unfold(0, 8, 2)]

    check(f, make)


def test_disjoint_views_of_one_memory_are_recorded_though_they_are_written():
    def f(x, y):
        x.add_(1)
        y.mul_(2)
        return x * y

    def make():
        return list(rand(64, 8).chunk(2))

    check(f, make)


def test_what_is_written_and_stays_in_place_is_not_copied():
    """As running means, of which the autotuner has tried candidates on copies."""

    def normalize(x, mean):
        mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - mean

    compiled = record(normalize)
    x, means = rand(8, 4), [torch.zeros(4, device="cuda") for _ in range(3)]
    others = [mean.clone() for mean in means]
    for number in range(2 * graphed_module.CALLS_IN_PLACE):
        got = compiled(x, means[min(number, 2)])
        assert torch.equal(got, normalize(x, others[min(number, 2)]))
    assert all(map(torch.equal, means, others))
    said = [text for text in notes(compiled) if "recorded," in text]
    assert ["1 copied in" in said[0], "2 inputs read in place, 0 copied in" in said[1]] == [
        True
    ] * 2
