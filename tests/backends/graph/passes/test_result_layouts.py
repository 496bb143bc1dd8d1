"""Strides of dimensions of one element in the results of compiled graphs."""

import framejit
import pytest
import torch
import torch.nn.functional as F


def channels_last(*size):
    return torch.randn(size).to(memory_format=torch.channels_last)


CASES = {
    "log_softmax, whose whole graph is traced at once": (
        lambda x: x.log_softmax(1),
        lambda: torch.randn(3, 1).t(),
    ),
    "batch norm, assembled by operator": (
        lambda x: F.batch_norm(x, None, None, None, None, True),
        lambda: channels_last(4, 3, 1, 1),
    ),
    "both, and a result that differs in nothing": (
        lambda x: (F.batch_norm(x, None, None, None, None, True), x * 2),
        lambda: channels_last(4, 3, 1, 1),
    ),
}


def strides(results):
    return [item.stride() for item in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("case", CASES)
def test_results_have_the_strides_of_eager(case, grad):
    function, make = CASES[case]
    x = make().requires_grad_(grad)
    compiled = framejit.compile(function, backend="native")
    assert strides(compiled(x)) == strides(function(x))


def test_a_write_to_a_saved_result_is_noticed():
    def function(x):
        return x.log_softmax(1)

    for call in function, framejit.compile(function, backend="native"):
        y = call(torch.randn(3, 1).t().requires_grad_())
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
