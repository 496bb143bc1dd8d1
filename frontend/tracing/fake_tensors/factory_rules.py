"""Fake results by rule of operators that make tensors of given sizes."""

from __future__ import annotations

from typing import Any

import torch

from .fake_rules import FakeRules, rule

aten = torch.ops.aten


@rule(aten.empty_strided.default)
def empty_strided(
    fakes: FakeRules,
    sizes: Any,
    strides: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    **options: Any,
) -> Any:
    if dtype is None or device is None or not are_usual(options):
        return None
    if torch.device(device).type != "cpu" or not fakes.are_nonnegative((*sizes, *strides)):
        return None
    return fakes.make_strided(sizes, strides, dtype, torch.device(device))


@rule(aten.new_empty.default)
def new_empty(
    fakes: FakeRules,
    x: Any,
    sizes: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    **options: Any,
) -> Any:
    if not fakes.is_strided(x) or not are_usual(options):
        return None
    if device is not None and torch.device(device) != x.fake_device:
        return None
    return fakes.make(x, sizes, dtype) if fakes.are_nonnegative(sizes) else None


@rule(aten.arange.default)
def arange(fakes: FakeRules, end: Any, **options: Any) -> Any:
    return arange_from(fakes, 0, end, **options)


@rule(aten.arange.start, aten.arange.start_step)
def arange_from(
    fakes: FakeRules,
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    **options: Any,
) -> Any:
    """`arange` of integers with step 1."""
    if not (type(start) is type(step) is int and step == 1 and type(end) in (int, torch.SymInt)):
        return None
    device = torch.device("cpu" if device is None else device)
    count = end - start
    is_length = count >= 0 if type(count) is int else fakes.are_nonnegative([count])
    if device.type != "cpu" or not are_usual(options) or not is_length:
        return None
    return fakes.make_strided([count], [1], dtype or torch.int64, device)


def are_usual(options: dict[str, Any]) -> bool:
    """Whether a factory is asked for a strided tensor in ordinary memory."""
    return options.get("layout") in (None, torch.strided) and not options.get("pin_memory")
