"""Results that are other results without a history, beside eager."""

import framejit
import pytest
import torch
from framejit.backends.autograd import aot_eager


def loss_and_number(x):
    loss = (x * 2).sum()
    return loss, loss.detach()


def view_and_detached(x):
    view = (x * 2)[1:]
    return view.detach(), view


def detached_before_the_view(x):
    y = x * 2
    return y[1:], y.detach()[1:]


def square_view(x):
    y = x * 2
    return y.t(), y.t().detach(), y.data.t()


def other_view_of_the_detached(x):
    y = (x * 2).t()
    return y.data, y, y.detach().t(), y.t()


def written_through_the_detached(x):
    y = x * 2
    other = y.detach()
    other.add_(1)
    return y, other


def detached_with_a_new_history(x):
    y = x * 2
    return y, y.detach().requires_grad_()


def of_the_input(x):
    return x.detach(), x.data, x * 2


def shown(results):
    first = results[0]
    return [
        (
            item.detach().tolist(),
            item.stride(),
            item.requires_grad,
            item.data_ptr() == first.data_ptr(),
            item.untyped_storage().data_ptr() == first.untyped_storage().data_ptr(),
            item._version == first._version,
        )
        for item in results
    ]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "inductor"])
@pytest.mark.parametrize(
    "fn",
    [
        loss_and_number,
        view_and_detached,
        detached_before_the_view,
        square_view,
        other_view_of_the_detached,
        written_through_the_detached,
        detached_with_a_new_history,
        of_the_input,
    ],
)
def test_results_are_as_in_eager(fn, backend):
    x, y = (torch.arange(9.0).view(3, 3).requires_grad_() for _ in range(2))
    compiled = framejit.compile(fn, backend=backend)
    for _ in range(2):
        mine, eagers = compiled(x), fn(y)
        assert shown(mine) == shown(eagers)
        for one in (mine, eagers):
            sum(item.sum() for item in one if item.requires_grad).backward()
        assert torch.equal(x.grad, y.grad)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_results_on_the_memory_of_different_inputs(backend):
    def f(x, y):
        return x.view_as(x), y.detach()

    compiled = framejit.compile(f, backend=backend)
    for start in (0, 1, 2):  # they are on one memory at first, at one place
        base = torch.arange(6.0, requires_grad=True) * 1
        x, y = base[:3], base[start : start + 3]
        for mine, eagers in zip(compiled(x, y), f(x, y), strict=True):
            assert torch.equal(mine, eagers) and mine.data_ptr() == eagers.data_ptr()


def test_a_detached_result_follows_writes_to_the_other():
    loss, number = framejit.compile(loss_and_number, backend="native")(
        torch.ones(3, requires_grad=True)
    )
    with torch.no_grad():
        loss.add_(1)
    assert number == 7


def test_a_graph_with_a_detached_loss_is_differentiated_without_aot_autograd(monkeypatch):
    monkeypatch.setattr(aot_eager, "compile_with_aot_autograd", None)
    loss, _ = framejit.compile(loss_and_number, backend="native")(torch.ones(3, requires_grad=True))
    loss.backward()
