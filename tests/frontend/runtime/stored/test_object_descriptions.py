"""How another process sees that an object is the same one."""

from __future__ import annotations

import pytest
import torch
from framejit.frontend.runtime.stored.object_descriptions import (
    NotFound,
    NotStorable,
    describe,
)

ROUNDING = {torch.ops.aten.sin.default: "nearest"}


def factor():
    return 2.0


class Scaled(torch.Tensor):
    """A wrapper subclass whose code names a function, a table and an attribute."""

    digits = 3

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, metadata, size, stride):
        return cls(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        rounding = ROUNDING.get(func)
        return cls(func(args[0].inner) * factor() if rounding else func(args[0].inner))


def other_factor():
    return 3.0


@pytest.mark.parametrize("change", [
    lambda patch: patch.setitem(globals(), "factor", other_factor),
    lambda patch: patch.setitem(ROUNDING, torch.ops.aten.sin.default, "up"),
    lambda patch: patch.setattr(Scaled, "digits", 4),
], ids=["function", "table", "attribute"])  # fmt: skip
def test_a_wrapper_class_is_compared_with_what_its_code_names(change, monkeypatch):
    described = describe(Scaled, None)
    assert described.find(None) is Scaled
    change(monkeypatch)
    with pytest.raises(NotFound, match="other content"):
        described.find(None)


def test_a_wrapper_class_that_cannot_be_compared_is_not_stored(monkeypatch):
    monkeypatch.setattr(Scaled, "digits", object())
    with pytest.raises(NotStorable, match="an object of type"):
        describe(Scaled, None)
