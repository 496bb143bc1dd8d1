"""torch.compile inside compiled functions and around them: each compiler compiles its own
functions, and frame evaluators are restored."""

from __future__ import annotations

import ctypes

import framejit
import pytest
import torch

pythonapi = ctypes.pythonapi
pythonapi.PyInterpreterState_Get.restype = ctypes.c_void_p
pythonapi._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
pythonapi._PyInterpreterState_GetEvalFrameFunc.argtypes = [ctypes.c_void_p]


def evaluator():
    return pythonapi._PyInterpreterState_GetEvalFrameFunc(pythonapi.PyInterpreterState_Get())


@pytest.fixture(autouse=True)
def installed():
    """The evaluator that was installed: torch.compile leaves its own behind when it raises."""
    before = evaluator()
    yield before
    assert evaluator() == before


def with_a_break(x):
    print("", end="")
    return x + 1


def with_torch_compile(x):
    print("", end="")
    return torch.compile(with_a_break, backend="eager")(x) * 2


def with_a_branch(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)) * 2


@pytest.mark.parametrize("function", [with_a_break, with_torch_compile, with_a_branch])
def test_torch_compile_within_and_around(function, installed):
    handle = framejit.compile(function, backend="eager")

    def around(x):
        return handle(x) - 3

    compiled = torch.compile(around, backend="eager")
    for x in (torch.ones(3), -torch.ones(3), torch.ones(4)):
        assert torch.equal(handle(x), function(x)) and evaluator() == installed
        assert torch.equal(compiled(x), around(x)) and evaluator() == installed


def test_torch_compile_goes_on_behind_an_exception():
    @framejit.compile(backend="eager")
    def fails(x):
        print("", end="")
        raise ValueError(x.shape[0])

    def scaled(x, number):
        return x * number

    seen = []

    def graphs(gm, inputs):
        seen.append(gm)
        return gm.forward

    def around(x):
        try:
            fails(x)
        except ValueError as error:
            return scaled(x, error.args[0])

    assert torch.equal(torch.compile(around, backend=graphs)(torch.ones(3)), torch.full((3,), 3.0))
    assert seen
