"""Attributes of functions."""

from __future__ import annotations

import collections.abc
import functools

import framejit
import pytest
import torch

from ...semantics.harness import PYTHON, check, vec


@pytest.mark.skipif(PYTHON < (3, 12), reason="the syntax of generic functions")
def test_type_parameters_are_copied():
    names: dict = {}
    exec("def generic[T](a: int): pass", names)
    generic = names["generic"]

    def f(x):
        def wrapper(b):
            pass

        functools.update_wrapper(wrapper, generic)
        return (
            x + 1,
            wrapper.__type_params__ == generic.__type_params__,
            len(wrapper.__type_params__),
        )

    check(f, vec(2), graphs=None, breaks=None)


def test_a_single_dispatch():
    """Registering another implementation is seen by the next call, and in the frame itself."""

    @functools.singledispatch
    def encode(x):
        raise TypeError(type(x).__name__)

    @encode.register
    def _(x: torch.Tensor):
        return x * 2

    @encode.register(list)
    def _(x):
        return torch.stack([encode(item) for item in x])

    def f(x):
        return encode(x) + 1

    def register(x):
        encode.register(torch.Tensor, lambda x: x * 4)
        return encode(x)

    handle = framejit.compile(f, backend="eager")
    for x in (torch.ones(2), [torch.ones(2)], torch.nn.Parameter(torch.ones(2)), torch.ones(2)):
        assert torch.equal(handle(x), f(x))
    report = handle.framejit.explain()
    assert not report.breaks and len(report.captures) == 3
    encode.register(torch.Tensor, lambda x: x * 3)
    assert handle(torch.ones(1)).item() == 4
    assert framejit.compile(register, backend="eager")(torch.ones(1)).item() == 4
    assert handle(torch.ones(1)).item() == 5
    with pytest.raises(TypeError, match="^str$"):
        handle("x")


def test_an_ambiguous_single_dispatch_raises():
    class Both(collections.abc.Sized, collections.abc.Container):
        pass

    class Registered:
        pass

    collections.abc.Sized.register(Registered), collections.abc.Container.register(Registered)
    encode = functools.singledispatch(lambda x: 0)
    encode.register(collections.abc.Sized, lambda x: 1)
    encode.register(collections.abc.Container, lambda x: 2)
    handle = framejit.compile(lambda x, y: y + encode(x), backend="eager")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Ambiguous dispatch"):
            handle(Registered(), torch.ones(1))
