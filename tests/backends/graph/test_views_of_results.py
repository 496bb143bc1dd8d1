"""Results that are views of one another, or detached inputs, which the program writes later with
something that has a history, beside eager."""

import framejit
import pytest
import torch


def go_on():
    """Ends a graph: the statements after a print are another one."""
    print(end="")


def root_written(a, b):
    y = a.detach() * 2
    v = y[1:]
    w = v[1:]
    go_on()
    y.add_(b)
    return y, v, w


def view_written(a, b):
    y = a.detach() * 2
    v = y[1:]
    w = v[1:]
    go_on()
    v.add_(b[1:])
    return y, v, w


def view_of_a_view_written(a, b):
    y = (a * 2).detach()
    v = y[1:]
    w = v[1:]
    go_on()
    w.add_(b[2:])
    return y, v, w


def detached_beside_its_original(a, b):
    z = a * 2
    y = z.detach()
    v = y[1:]
    go_on()
    v.mul_(b[1:])
    return z, y, v, v * 2


def detached_input(a, b):
    y = a.detach()
    v = y[1:]
    w = y[2:]
    go_on()
    v.add_(b[1:])
    return a, y, v, w


def detached_view_of_an_input(a, b):
    v = a.split(2)[0].detach()
    w = v[1:]
    go_on()
    w.mul_(b[2:3])
    return v, w, a


def detached_twice(a, b):
    v = a.detach()
    w = v[1:].detach()
    u = w[:1]
    go_on()
    w.mul_(b[1:])
    return v, w, u, a


def data_of_a_written_input(a, b):
    with torch.no_grad():
        a.add_(1)
    v = a[1:].data
    w = v[1:]
    go_on()
    v.mul_(b[1:])
    return v, w, a


def zeros_filled_by_rows(a, b):
    y = torch.zeros(4)
    v = y[1:].view(3)
    w = v[None]
    go_on()
    v.copy_(b[1:])
    return y, v, w


def root_that_is_not_returned(a, b):
    y = a.detach() * 2
    v = y[1:]
    w = y[2:]
    go_on()
    v.mul_(b[1:])
    return v, w


def written_in_the_graph(a, b):
    y = a.detach() * 2
    v = y[1:]
    v.add_(1)
    go_on()
    y.mul_(b)
    return y, v


def window_of_a_varying_size(a, b):
    y = a.detach() * 2
    v = y[: b.shape[0] - 1]
    go_on()
    v.mul_(b[1:])
    return y, v


PROGRAMS = [
    root_written, view_written, view_of_a_view_written, detached_beside_its_original, detached_input,
    detached_view_of_an_input, detached_twice, data_of_a_written_input, zeros_filled_by_rows,
    root_that_is_not_returned, written_in_the_graph, window_of_a_varying_size,
]  # fmt: skip


def outcome(function, history):
    a = torch.arange(4.0)
    a = a.requires_grad_() * 1 if history else a
    b = torch.ones(4, requires_grad=True)
    results = function(a, b)
    ends = [item for item in results if item.requires_grad]
    weighted = [(item * (place + 1)).sum() for place, item in enumerate(ends)]
    gradients = torch.autograd.grad(sum(weighted), [b, *[a] * history], allow_unused=True)
    return (
        [(item.detach().tolist(), item.requires_grad) for item in (*results, a)],
        [None if gradient is None else gradient.tolist() for gradient in gradients],
    )


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("history", [False, True], ids=["plain", "history"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_later_write_reaches_the_views(program, backend, history, dynamic):
    compiled = framejit.compile(program, backend=backend, dynamic=dynamic)
    for _ in range(2):
        assert outcome(compiled, history) == outcome(program, history)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_detached_inputs_are_no_views(backend):
    def detached(x):
        return x.detach(), x.data

    given = torch.arange(4.0)
    for result in framejit.compile(detached, backend=backend)(given):
        assert not result._is_view()
        assert result.data_ptr() == given.data_ptr()
