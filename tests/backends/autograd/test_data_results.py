"""Results that are `x.data`: their version counters, and backward passes after writes through
them."""

import framejit
import pytest
import torch

BACKENDS = ["eager", "aot_eager", "native", "autotune"]


def decay_before_backward(x, weight):
    data = weight.data
    loss = (x * weight.exp()).sum()
    print(end="")
    data.mul_(0.9)
    return loss


def decay_a_row(x, weight):
    row = weight.data[1:]
    loss = (x * weight.sigmoid()).sum()
    print(end="")
    row.zero_()
    return loss


def overwrite_a_copy(x, weight):
    doubled = weight * 2
    loss = (x * doubled).sum()
    data = doubled.data
    print(end="")
    data.mul_(0.9)
    return loss + doubled.sum()


def fill_a_chunk(x, weight):
    first = weight.chunk(3)[0]
    data = first.data
    print(end="")
    with torch.no_grad():
        data.fill_(-1)
    return (first.view_as(first) * x).sum()


def overwrite_in_the_graph(x, weight):
    largest = (weight * x).abs().max()
    largest.data.add_(2)
    return largest.flip(0)


def write_a_list(x, weight):
    doubled = weight * 2
    total = doubled.sum()
    view = total.T
    torch._foreach_mul_([doubled, total], [3, 2])
    return view * 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        decay_before_backward,
        decay_a_row,
        overwrite_a_copy,
        fill_a_chunk,
        overwrite_in_the_graph,
        write_a_list,
    ],
)
def test_backward_pass_behind_a_write_through_data(program, backend):
    def run(fn):
        weight = torch.arange(1.0, 4, requires_grad=True)
        loss = fn(torch.tensor([2.0, 3.0, 5.0]), weight)
        loss.backward()
        return loss.detach(), weight.grad, weight.detach()

    handle = framejit.compile(program, backend=backend)
    for _ in range(2):
        for ours, eagers in zip(run(handle), run(program), strict=True):
            torch.testing.assert_close(ours, eagers)
