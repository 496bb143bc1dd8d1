"""What torch.jit's optimiser would change: which tensors are new, and what may be written to
them."""

import framejit
import pytest
import torch


class Copies(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0), requires_grad=False)

    def forward(self, x):
        return self.weight.clone(), self.weight * 2, x + self.weight


def test_results_of_parameters_alone_are_new_in_each_call():
    module = Copies()
    handle = framejit.compile(module, backend="torchscript")
    for _ in range(3):
        results = handle(torch.ones(4))
        for ours, eagers in zip(results, module(torch.ones(4)), strict=True):
            assert torch.equal(ours, eagers)
            ours.fill_(77)


def transposed_twice(x):
    once = x.t()
    return once, once.t()


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_a_view_is_never_the_input_itself(mode):
    handle = framejit.compile(transposed_twice, backend="torchscript")
    for x in (torch.ones(3), torch.ones(3), torch.ones(2, 3), torch.ones(2, 3)):
        with mode():
            ours, eagers = handle(x), transposed_twice(x)
        assert [one is x for one in ours] == [other is x for other in eagers]
        assert [one.stride() for one in ours] == [other.stride() for other in eagers]


def test_a_view_may_be_written_with_gradients():
    def program(x, factor):
        row = x[0]
        print(end="")
        row.mul_(factor)
        return x

    def run(fn):
        factor = torch.tensor(3.0, requires_grad=True)
        result = fn(torch.ones(2, 2), factor)
        result.sum().backward()
        return result.detach(), factor.grad

    handle = framejit.compile(program, backend="torchscript")
    for _ in range(2):
        assert all(map(torch.equal, run(handle), run(program)))


def test_results_of_no_input_are_new_in_each_call():
    def program(x):
        ones = torch.ones(3)
        return ones, ones[1:], torch.zeros(2).add(1), x + 1

    handle = framejit.compile(program, backend="torchscript")
    for _ in range(3):
        results = handle(torch.ones(3))
        for ours, eagers in zip(results, program(torch.ones(3)), strict=True):
            assert torch.equal(ours, eagers)
        for ours in results:
            ours.fill_(77)
