"""Cross entropies in training: equal to eager, and nothing of the logits' size is stored."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.nn import functional as F


def gradients(function, logits, labels):
    leaf = logits.clone().requires_grad_()
    loss = function(leaf, labels)
    (gradient,) = torch.autograd.grad(loss.sum() * 3, leaf)
    return loss.detach(), gradient


CASES = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "ignored": {"ignore_index": 2},
    "weights": {"weight": torch.rand(7) + 0.5},
    "weights and ignored": {"weight": torch.rand(7) + 0.5, "ignore_index": 1},
    "smoothed": {"label_smoothing": 0.1},
}
SHAPES = {"rows": (12, 7), "one row": (7,), "image": (3, 7, 4, 5), "sequence": (4, 7, 6)}


def labels_of(shape):
    if len(shape) == 1:
        return torch.tensor(3)
    return torch.arange(shape[0] * torch.Size(shape[2:]).numel()).view(shape[0], *shape[2:]) % 7


@pytest.mark.parametrize("dynamic", [None, True], ids=["", "dynamic"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sweep(6, each=("case", "shape", "dynamic"))
def test_equals_eager(case, shape, dynamic):
    def f(logits, labels):
        return F.cross_entropy(logits, labels, **CASES[case])

    size = SHAPES[shape]
    logits = torch.randn(size, generator=torch.Generator().manual_seed(0))
    compiled = framejit.compile(f, backend="native", dynamic=dynamic)
    torch.testing.assert_close(
        gradients(compiled, logits, labels_of(size)), gradients(f, logits, labels_of(size))
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_log_softmax_along_each_dimension(dtype, dim):
    def f(x, labels):
        return F.log_softmax(x, dim) * labels

    x, labels = torch.randn(2, 5, 6, 7, generator=torch.Generator().manual_seed(0)).unbind()
    # of halves, eager's backward pass reads log-probabilities that were rounded to them
    rounding = {} if dtype is torch.float64 else {"rtol": 0.02, "atol": 0.04}
    torch.testing.assert_close(
        gradients(framejit.compile(f, backend="native"), x.to(dtype), labels.to(dtype)),
        gradients(f, x.to(dtype), labels.to(dtype)),
        **rounding,
    )


def test_numbers_that_are_not_finite():
    """Rows of infinities, all labels ignored: the same NaNs, and zeros, as in eager."""
    logits = torch.zeros(4, 7)
    logits[0, 1], logits[1], logits[2, 3] = -torch.inf, -torch.inf, torch.inf

    def f(logits, labels):
        return F.cross_entropy(logits, labels, reduction="none")

    def means(logits, labels):
        return F.cross_entropy(logits, labels)

    ignored = torch.full((4,), -100)
    for function, labels in ((f, labels_of((4, 7))), (f, ignored), (means, ignored)):
        torch.testing.assert_close(
            gradients(framejit.compile(function, backend="native"), logits, labels),
            gradients(function, logits, labels),
            equal_nan=True,
        )


def loss_of_a_model(hidden, weight, labels):
    logits = hidden @ weight
    return logits, F.cross_entropy(logits.float(), labels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_of_the_logits_size_is_stored(dtype, reports):
    """The logits are a result too, as in language models: the loss is a subgraph of few operators,
    compiled because its tensors are large."""
    rows, words = 64, 1 << 15
    hidden = torch.randn(rows, 16, dtype=dtype, requires_grad=True)
    weight = torch.randn(16, words, dtype=dtype)
    labels = torch.arange(rows)
    compiled = framejit.compile(loss_of_a_model, backend="native")
    logits, loss = compiled(hidden, weight, labels)
    of_loss = [report.host for report in reports if "aten.exp" in report.host]
    made = [host.count(f"{words}, ), (") for host in of_loss]
    assert made == [0, 1], of_loss  # the gradient in the backward graph, nothing in the forward one
    loss.backward()
    expected = hidden.detach().clone().requires_grad_()
    loss_of_a_model(expected, weight, labels)[1].backward()
    torch.testing.assert_close(hidden.grad, expected.grad)
    assert not any("log_softmax" in name for report in reports for name in report.called)
