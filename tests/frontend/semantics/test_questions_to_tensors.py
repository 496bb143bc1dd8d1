"""Facts that Python asks of a tensor besides its values: one handle gets tensors of equal sizes
and dtype that differ in such a fact."""

from __future__ import annotations

import warnings

import pytest
import torch

from .harness import strict_compile

QUESTIONS = {
    "is_leaf": lambda x: x.is_leaf,
    "grad_fn is None": lambda x: x.grad_fn is None,
    "output_nr": lambda x: x.output_nr,
    "retains_grad": lambda x: x.retains_grad,
    "grad is None": lambda x: x.grad is None,
    "_is_view()": lambda x: x._is_view(),
    "_base is None": lambda x: x._base is None,
    "_version": lambda x: None if x.is_inference() else x._version,
    "storage_offset()": lambda x: x.storage_offset(),
    "is_shared()": lambda x: x.is_shared(),
    "is_shared() of a view": lambda x: x.detach().is_shared(),
    "is_inference()": lambda x: x.is_inference(),
    "is_neg()": lambda x: x.is_neg(),
    "is_contiguous()": lambda x: x.is_contiguous(),
    "size of the storage": lambda x: x.untyped_storage().nbytes(),
    "class": type,
    "is_leaf behind an operator": lambda x: (x * 2).is_leaf,
    "output_nr of a piece": lambda x: x.split(2)[1].output_nr,
    "is_leaf behind a write": lambda x: (x.clone().mul_(2).is_leaf, x.is_leaf),
}


def tensors():
    with_grad = torch.ones(4, requires_grad=True)
    with_grad.grad = torch.ones(4)
    retaining = torch.ones(4, requires_grad=True) * 3
    retaining.retain_grad()
    with torch.inference_mode():
        inference = torch.ones(4)
    return {
        "leaf": torch.ones(4, requires_grad=True), "leaf with a gradient": with_grad, "result": torch.ones(4, requires_grad=True) * 2,
        "result that keeps its gradient": retaining, "second piece": torch.ones(8, requires_grad=True).split(4)[1],
        "view of a result": (torch.ones(8, requires_grad=True) * 2)[4:], "plain": torch.ones(4), "view": torch.ones(8)[4:],
        "view behind detach": torch.ones(8).detach()[:4], "inference": inference, "shared": torch.ones(4).share_memory_(),
        "written": torch.ones(4).add_(0), "with gaps": torch.ones(8)[::2], "negative": (torch.ones(4, dtype=torch.cfloat) * 1j).conj().imag,
        "parameter": torch.nn.Parameter(torch.ones(4)),
    }  # fmt: skip


@pytest.mark.parametrize("order", [1, -1], ids=["", "the other way round"])
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_the_answer_is_that_of_the_calls_tensor(question, order):
    def program(x):
        return x * 2, question(x)

    compiled = strict_compile(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, tensor in list(tensors().items())[::order]:
            assert compiled(tensor)[1] == program(tensor)[1], name
