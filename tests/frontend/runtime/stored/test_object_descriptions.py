"""How another process sees that an object is the same one."""

from __future__ import annotations

import dataclasses
import enum
import functools
import logging
import re
import threading
from typing import NamedTuple

import pytest
import torch
from framejit.frontend.runtime.stored.object_descriptions import (
    NotFound,
    NotStorable,
    describe,
)

ROUNDING = {torch.ops.aten.sin.default: "nearest"}
CLAMP = functools.partial(torch.clamp, min=-127)
LOGGER = logging.getLogger("tests.of.object.descriptions")
TABLE = torch.tensor([0.25, 0.5])
SINE_SCALE = 1.0
PATTERN = re.compile("weight")
SUPPORTED = {torch.float32, "bfloat16"}


def factor():
    return 2.0


class MappingKind(enum.Enum):
    SYMMETRIC = 1
    ASYMMETRIC = 2

    def bits(self):
        return 8


class IntegerBounds(NamedTuple):
    low: int
    high: int


@dataclasses.dataclass(frozen=True)
class TileLayout:
    tiles: int = 8
    mapping: MappingKind = MappingKind.SYMMETRIC
    bounds: IntegerBounds = IntegerBounds(-127, 127)


class LayoutSettings:
    scale = 1.0
    layout = TileLayout()


@functools.wraps(torch.sin)
def sine(x):
    return x.sin() * SINE_SCALE


@functools.lru_cache
def number_of_tiles():
    return LayoutSettings.layout.tiles


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
        rounding = ROUNDING.get(func) or not number_of_tiles() or func in SUPPORTED
        LOGGER.debug("%s %s %s %s", CLAMP, TABLE, PATTERN, sine)
        return cls(func(args[0].inner) * factor() if rounding else func(args[0].inner))


def other_factor():
    return 3.0


def set_layout(patch, **changes):
    patch.setattr(LayoutSettings, "layout", dataclasses.replace(LayoutSettings.layout, **changes))


@pytest.mark.parametrize("change", [
    lambda patch: patch.setitem(globals(), "factor", other_factor),
    lambda patch: patch.setitem(ROUNDING, torch.ops.aten.sin.default, "up"),
    lambda patch: patch.setattr(Scaled, "digits", 4),
    lambda patch: patch.setitem(globals(), "CLAMP", functools.partial(torch.clamp, min=-128)),
    lambda patch: patch.setattr(LOGGER, "level", logging.DEBUG),
    lambda patch: patch.setitem(globals(), "TABLE", torch.tensor([0.25, 0.75])),
    lambda patch: patch.setitem(globals(), "PATTERN", re.compile("weight", re.IGNORECASE)),
    lambda patch: patch.setitem(globals(), "SUPPORTED", {*SUPPORTED, "float16"}),
    lambda patch: patch.setattr(LayoutSettings, "scale", 2.0),
    lambda patch: set_layout(patch, tiles=4),
    lambda patch: set_layout(patch, mapping=MappingKind.ASYMMETRIC),
    lambda patch: set_layout(patch, bounds=IntegerBounds(-128, 127)),
    lambda patch: patch.setattr(MappingKind, "bits", lambda self: 4),
    lambda patch: patch.setitem(globals(), "SINE_SCALE", 2.0),
], ids=[
    "function", "table", "attribute", "partial", "level of a logger", "tensor", "pattern", "set",
    "attribute of another class", "field of a dataclass", "member of an enumeration",
    "named tuple", "method of an enumeration", "function that looks like one of torch",
])  # fmt: skip
def test_a_wrapper_class_is_compared_with_what_its_code_names(change, monkeypatch):
    described = describe(Scaled, None)
    assert described.find(None) is Scaled
    change(monkeypatch)
    with pytest.raises(NotFound, match="other content"):
        described.find(None)


def test_a_wrapper_class_that_cannot_be_compared_is_not_stored(monkeypatch):
    monkeypatch.setattr(Scaled, "digits", threading.Lock())
    with pytest.raises(NotStorable, match="an object of type"):
        describe(Scaled, None)
