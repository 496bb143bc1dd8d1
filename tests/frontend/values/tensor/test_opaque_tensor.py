"""Tensors that graphs do not take are passed on, and each statement that works with one is one
break; attributes that users give tensors."""

from __future__ import annotations

import re

import pytest
import torch

from ...semantics.harness import check, strict_compile, vec


def dense():
    return torch.tensor([[0.0, 1.0], [2.0, 0.0]])


class Weight(torch.nn.Parameter):
    pass


class Named(torch.Tensor):
    pass


MAKERS = {
    "coo": lambda: dense().to_sparse(),
    "csr": lambda: dense().to_sparse_csr(),
    "mkldnn": lambda: dense().to_mkldnn(),
    "quantized": lambda: torch.quantize_per_tensor(dense(), 0.1, 10, torch.quint8),
    "per channel": lambda: torch.quantize_per_channel(
        dense(), torch.tensor([0.1, 0.2]), torch.tensor([1, 2]), 0, torch.quint8
    ),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]),
    "functional": lambda: torch._to_functional_tensor(dense()),
    "subclass": lambda: dense().as_subclass(Named),
    "parameter": lambda: Weight(dense()),
    "uninitialised": lambda: torch.nn.UninitializedParameter(),
    "values of a sparse one": lambda: dense().to_sparse().coalesce().values(),
    "row of a nested one": lambda: torch.nested.nested_tensor([dense(), dense()]).unbind()[1],
}


class Holder(torch.nn.Module):
    def __init__(self, tensor):
        super().__init__()
        self.tensor = tensor

    def forward(self, x, tensor):
        y = x + 1
        kept = [self.tensor, tensor]
        return (
            y * 2,
            kept,
            self.tensor is tensor,
            isinstance(tensor, torch.nn.Parameter),
            torch.is_tensor(tensor),
            type(tensor),
        )


def called(function, *args):
    """Result or error."""
    try:
        return function(*args)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        return type(error)


def used(x, tensor):
    y = x + 1
    made = tensor + tensor
    return y * 2, made, tensor.dim()


def compared(x, tensor):
    y = x * 2
    return y + 1, tensor == 3


def alike(left, right):
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(alike, left, right))
    if not isinstance(left, torch.Tensor):
        return left == right
    return (
        type(left) is type(right)
        and left.layout == right.layout
        and (left is right or written(left) == written(right))
    )


def written(tensor):
    """A tensor as text, without the name of the operation that made it: a compiled graph is one."""
    return re.sub(r"grad_fn=<\w+>", "grad_fn", str(tensor))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.filterwarnings("ignore")
def test_passed_on_without_a_break(name):
    tensor = MAKERS[name]()
    module = Holder(tensor)
    expected = module(vec(2), tensor)
    compiled = strict_compile(lambda x, t: module(x, t))
    for _ in range(2):
        found = compiled(vec(2), tensor)
        assert (
            found[1][0] is tensor
            and found[1][1] is tensor
            and found[2:] == expected[2:]
            and torch.equal(found[0], expected[0])
        )
    report = compiled.framejit.explain()
    assert len(report.captures) == 1 and not report.breaks and compiled.framejit.compiles == 1


@pytest.mark.parametrize("function", [used, compared])
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.filterwarnings("ignore")
def test_used_as_in_eager(name, function):
    tensor = MAKERS[name]()
    compiled = strict_compile(function)
    expected = called(function, vec(2), tensor)
    for _ in range(2):
        assert alike(called(compiled, vec(2), tensor), expected)
    assert torch.equal(
        compiled(vec(2), vec(2))[1], function(vec(2), vec(2))[1]
    )  # a plain one has an entry of its own
    assert alike(called(compiled, vec(2), tensor), expected)


def test_attributes_of_tensors():
    def f(x, weight):
        y = x * weight
        if hasattr(weight, "tag"):
            y = y + len(weight.tag)
        return y * getattr(weight, "scale", 3), getattr(y, "tag", None), hasattr(y, "tag")

    compiled, weight = strict_compile(f), torch.nn.Parameter(torch.ones(2))

    def same():
        for _ in range(2):  # versions of one call each reach the default backend's limit
            found, expected = compiled(vec(2), weight), f(vec(2), weight)
            assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]

    same()
    weight.tag = "abc"
    same()
    weight.scale = 7
    same()
    weight.tag = "a"
    same()
    del weight.tag
    same()
    assert compiled.framejit.compiles == 5 and not compiled.framejit.explain().breaks


def test_a_missing_attribute_of_a_tensor():
    def f(x, attribute):
        try:
            return getattr(x + 1, attribute)
        except AttributeError as error:
            return x * 2, str(error)

    check(f, vec(2), "not_there")


def test_a_function_kept_by_a_tensor():
    def f(x, weight):
        return weight.load(x + 1) * weight.part.scale

    class Part:
        scale = 2

    weight = vec(2)
    weight.load, weight.part = lambda t: t * 3, Part()
    compiled = strict_compile(f, fullgraph=True)
    assert torch.equal(compiled(vec(2), weight), f(vec(2), weight))
