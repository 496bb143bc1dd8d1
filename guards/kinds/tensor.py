"""TENSOR: the facts of a tensor that compiled code relies on."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ..encoded import Encoded
from ..guard import Guard, Kind, TensorSpec
from ..native import layout
from .registry import GuardKind, guard_kind

FIELDS = ("dtype", "device", "requires_grad", "layout")


def tensor_matches(spec: TensorSpec, found: Any) -> bool:
    """The meaning, and the slow path of the native check: tensors whose C++ object does not tell
    the truth."""
    if type(found) is not spec.type or not isinstance(found, torch.Tensor):
        return False
    with torch._C.DisableTorchFunction():
        return (
            torch._C._dispatch_keys(found).raw_repr() == spec.keys
            and all(getattr(found, name) == getattr(spec, name) for name in FIELDS)
            and (found.is_nested or numbers_match(spec.sizes, found.size()))
            and (not spec.strides or numbers_match(spec.strides, found.stride()))
        )


def numbers_match(expected: tuple[int | None, ...], found: tuple[Any, ...]) -> bool:
    return len(expected) == len(found) and all(
        want is None or (type(have) is int and want == have)
        for want, have in zip(expected, found, strict=True)
    )


def exclude_each_other(one: TensorSpec, other: TensorSpec) -> bool:
    """Whether no tensor meets both."""
    return (
        any(getattr(one, name) != getattr(other, name) for name in ("type", *FIELDS, "keys"))
        or not may_be_equal(one.sizes, other.sizes)
        or not may_be_equal(one.strides, other.strides)
    )


def may_be_equal(numbers: tuple[int | None, ...], others: tuple[int | None, ...]) -> bool:
    return len(numbers) == len(others) and all(
        one is None or other is None or one == other
        for one, other in zip(numbers, others, strict=True)
    )


@guard_kind(Kind.TENSOR)
class Tensor(GuardKind):
    """The class and metadata of a tensor."""

    cost = 5

    def holds(self, expected: TensorSpec, subject: Any) -> bool:
        return tensor_matches(expected, subject)

    def encode(self, guard: Guard) -> Encoded:
        facts = layout.expected_facts(guard.expected)
        if facts is None:
            return Encoded("PYTHON", partial(tensor_matches, guard.expected), runs_python=True)
        return Encoded("TENSOR", facts)

    def implies(self, guard: Guard, other: Guard) -> bool:
        return other.kind is Kind.TYPE and other.expected is guard.expected.type

    def expression(self, guard: Guard) -> str:
        spec = guard.expected
        return f"is_tensor({guard.source.name}, {self.old(guard)}, strides={numbers(spec.strides)})"

    def old(self, guard: Guard) -> str:
        spec = guard.expected
        name = str(spec.dtype).removeprefix("torch.")
        grad = ", requires_grad" if spec.requires_grad else ""
        return f"{spec.type.__qualname__} {name}{numbers(spec.sizes)} on {spec.device}{grad}"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        spec, name = guard.expected, guard.source.name
        if type(subject) is not spec.type:
            return f"type({name})", spec.type.__qualname__, type(subject).__qualname__
        with torch._C.DisableTorchFunction():
            return difference(name, spec, TensorSpec.of(subject))


def difference(name: str, old: TensorSpec, new: TensorSpec) -> tuple[str, str, str]:
    for field in FIELDS:
        if getattr(old, field) != getattr(new, field):
            return f"{name}.{field}", str(getattr(old, field)), str(getattr(new, field))
    if len(old.sizes) != len(new.sizes):
        return f"{name}.dim()", str(len(old.sizes)), str(len(new.sizes))
    for field, method in (("sizes", "size"), ("strides", "stride")):
        for dim, (was, now) in enumerate(
            zip(getattr(old, field), getattr(new, field), strict=False)
        ):
            if was is not None and was != now:
                return f"{name}.{method}({dim})", str(was), str(now)
    return f"dispatch keys of {name}", keys(old.keys), keys(new.keys)


def keys(raw: int) -> str:
    return str(torch._C.DispatchKeySet.from_raw_repr(raw)).removeprefix("DispatchKeySet")


def numbers(values: tuple[int | None, ...]) -> str:
    return f"[{', '.join('any' if value is None else str(value) for value in values)}]"
