"""Which inputs count as written by a compiled graph, beside eager."""

import framejit
import pytest
import torch


def through_data(x, y):
    x.data.add_(1)
    return x.sum()


def through_a_view_of_data(x, y):
    x.data[1:].clamp_(-1, 1)
    return x * 2


def returned_data(x, y):
    data = x.data
    data.mul_(2)
    return data, data + 1


def counted(x, y):
    with torch.no_grad():
        x.add_(1)
    return x * 2


def both(x, y):
    x.data.add_(1)
    with torch.no_grad():
        x.mul_(2)
    return x * 1


def one_of_two(x, y):
    x.data.add_(1)
    with torch.no_grad():
        y.mul_(2)
    return x + y


def with_a_view(x, y):
    x.data.add_(1)
    with torch.no_grad():
        x[:2].mul_(2)
    return x + y


def counts_as_written(fn, inputs):
    before = [tensor._version for tensor in inputs]
    fn(*inputs)
    return [tensor._version > old for tensor, old in zip(inputs, before, strict=True)]


def apart(leaf):
    return [torch.ones(4, requires_grad=leaf) for _ in range(2)]


def in_one_memory(leaf):
    base = torch.ones(8)
    return [base[:4], base[4:]]


PROGRAMS = [
    through_data,
    through_a_view_of_data,
    returned_data,
    counted,
    both,
    one_of_two,
    with_a_view,
]


@pytest.mark.parametrize("backend", ["aot_eager", "native", "torchscript"])
@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("inputs", [apart, in_one_memory])
@pytest.mark.parametrize("fn", PROGRAMS)
def test_writes_count_as_in_eager(fn, inputs, leaf, backend):
    compiled = framejit.compile(fn, backend=backend)
    for _ in range(3):
        assert counts_as_written(compiled, inputs(leaf)) == counts_as_written(fn, inputs(leaf))


def test_weights_may_be_clipped_before_the_backward_pass():
    def gradient(clip):
        weight = torch.linspace(-2, 2, 5).requires_grad_()
        loss = (weight * weight).sum()
        clip(weight)
        loss.backward()
        return weight.grad

    def clip(weight):
        weight.data.clamp_(-1, 1)
        return weight.abs()

    expected = gradient(clip)
    assert torch.equal(gradient(framejit.compile(clip, backend="native")), expected)


def test_running_statistics_of_a_batch_norm_do_not_count():
    """The first call's backward pass saved them. (The default backend runs some calls in eager.)"""

    def gradients(second):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        statistics = model[1].running_mean, model[1].running_var
        first = model(torch.randn(5, 4))
        before = [tensor._version for tensor in statistics]
        result = first + second(model)(torch.randn(5, 4))
        assert [tensor._version for tensor in statistics] == before
        result.square().sum().backward()
        return [*model.buffers(), *(parameter.grad for parameter in model.parameters())]

    def compiled(model):
        return framejit.compile(lambda x: model(x), backend="native")

    torch.testing.assert_close(gradients(compiled), gradients(lambda model: model))
