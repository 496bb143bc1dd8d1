"""Fake results by rule, for operators on operands whose sizes have the same factors, so that no
question about a size has to be decided. In captures and, for sizes that vary, in backends. The
rules themselves are in operator_rules.py and view_rules.py.

torch's fake operators take a millisecond or more each: with symbols they reason about every one of
them, and without they run decompositions written in Python, mostly to find that a contiguous tensor
times a number is contiguous. Where a rule here does not apply, static_twins.py is asked,
and then torch's operator runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from .fake_creation import make_fake
from .size_products import (
    Size,
    as_product,
    dense_order,
    factors_of,
    have_same_sizes,
    is_same_size,
)

aten = torch.ops.aten
# Of FakeRules and an operator's arguments; returns None where torch's operator has to run.
Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}
CHANNELS_LAST = [1, 3, 2, 0]  # dimensions from the innermost to the outermost


def rule(*operators: Any) -> Callable[[Rule], Rule]:
    """Registers a function as the rule of some operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


class FakeRules:
    """The rules for one fake mode."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._nonnegative: set[Any] = vars(mode).setdefault("nonnegative", set())
        self._contiguous: dict[Any, bool] = vars(mode).setdefault("contiguous", {})
        self._orders: dict[Any, list[int] | None] = vars(mode).setdefault("orders", {})

    def results(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The results of an operator by its rule; None where torch's operator has to run."""
        found = RULES.get(func)
        return found(self, *args, **kwargs) if found is not None else None

    def is_known(self, *tensors: Any) -> bool:
        """Whether they are alike, and each contiguous as its sizes are written."""
        return self.are_alike(*tensors) and all(map(self.is_contiguous, tensors))

    def are_alike(self, *tensors: Any) -> bool:
        """Whether these are strided fake tensors of one dtype on one device."""
        first = tensors[0]
        return all(
            self.is_strided(tensor)
            and tensor.dtype == first.dtype
            and tensor.fake_device == first.fake_device
            for tensor in tensors
        )

    def is_strided(self, tensor: Any) -> bool:
        """Whether it is a fake tensor of this mode that sizes and strides describe completely."""
        return (
            type(tensor) is FakeTensor
            and tensor.fake_mode is self.mode
            and tensor.constant is None
            and tensor.layout is torch.strided
        )

    def is_contiguous(self, tensor: torch.Tensor) -> bool:
        key = (*map(as_product, tensor.shape), None, *map(as_product, tensor.stride()))
        known = self._contiguous.get(key)
        if known is None:
            known = self._contiguous[key] = have_same_sizes(
                tensor.stride(), strides_of(tensor.shape)
            )
        return known

    def order(self, tensor: torch.Tensor) -> list[int] | None:
        """The dimensions of a dense tensor from the innermost to the outermost; None for others."""
        if self.is_contiguous(tensor):
            return [*range(tensor.dim())][::-1]
        key = (*map(as_product, tensor.shape), "order", *map(as_product, tensor.stride()))
        if key not in self._orders:
            self._orders[key] = dense_order(tensor.shape, tensor.stride())
        return self._orders[key]

    def is_channels_last(self, tensor: torch.Tensor) -> bool:
        """Whether it is dense with channels last, of two dimensions in space."""
        return self.order(tensor) == CHANNELS_LAST

    def make_channels_last(self, like: FakeTensor, sizes: Sequence[Size]) -> FakeTensor:
        """A new tensor of two dimensions in space, with channels last."""
        count, channels, height, width = sizes
        row = channels * width
        return self.make_strided(
            sizes, [row * height, 1, row, channels], like.dtype, like.fake_device
        )

    def make(
        self, like: FakeTensor, sizes: Sequence[Size], dtype: torch.dtype | None = None
    ) -> FakeTensor:
        """A new contiguous tensor."""
        strides = like.stride() if sizes is like.shape else strides_of(sizes)
        return self.make_strided(sizes, strides, dtype or like.dtype, like.fake_device)

    def make_like(self, like: FakeTensor, dtype: torch.dtype | None = None) -> FakeTensor:
        """A new tensor with the sizes and strides of a dense one."""
        return self.make_strided(like.shape, like.stride(), dtype or like.dtype, like.fake_device)

    def make_strided(
        self,
        sizes: Sequence[Size],
        strides: Sequence[Size],
        dtype: torch.dtype,
        device: torch.device,
    ) -> FakeTensor:
        """A new tensor. With symbols the size of its storage is left open: it would have to be
        calculated."""
        if all([type(number) is int for number in (*sizes, *strides)]):
            meta = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
        else:
            empty = torch.empty(0, dtype=dtype, device="meta")
            meta = torch.as_strided(empty, sizes, strides)
        return make_fake(self.mode, meta, device)

    def are_nonnegative(self, sizes: Sequence[Size]) -> bool:
        """Whether there are symbols among these sizes, and none can be negative."""
        expressions = [size.node.expr for size in sizes if isinstance(size, torch.SymInt)]
        return (
            bool(expressions)
            and all(isinstance(size, torch.SymInt) or size >= 0 for size in sizes)
            and all(map(self._is_nonnegative, expressions))
        )

    def _is_nonnegative(self, expression: Any) -> bool:
        """Whether an expression cannot be negative: a fact that no guard changes any more. Sizes
        and strides are products of few factors."""
        if expression not in self._nonnegative:
            env = self.mode.shape_env
            number, factors = factors_of(expression)
            if number < 0 or env is None:
                return False
            apart = factors != (expression,) and all(map(self._is_nonnegative, factors))
            if not apart and env.bound_sympy(expression).lower < 0:
                return False
            self._nonnegative.add(expression)
        return True

    def share(
        self, base: FakeTensor, sizes: Sequence[Size], strides: Sequence[Size], skipped: Size = 0
    ) -> FakeTensor:
        """Another view of the same memory, which begins after the elements that are skipped."""
        with in_kernel_invocation_manager(self.mode):
            start = base.storage_offset() + skipped
            meta = aten.as_strided.default(base, sizes, strides, start)
        return make_fake(self.mode, meta, base.fake_device)


def strides_of(sizes: Sequence[Size]) -> list[Size]:
    strides: list[Size] = [1]
    for size in reversed(sizes[1:]):
        size = max(size, 1) if isinstance(size, int) else size
        strides.append(
            size if isinstance(strides[-1], int) and strides[-1] == 1 else size * strides[-1]
        )
    return strides[::-1] if len(sizes) else []


def broadcasts_to(sizes: Sequence[Size], full: Sequence[Size]) -> bool:
    """Whether a tensor broadcasts to the full sizes without a question: each of its sizes is that
    size, or a plain 1."""
    tail = full[len(full) - len(sizes) :] if len(sizes) <= len(full) else ()
    pairs = zip(sizes, tail, strict=False)
    return len(tail) == len(sizes) and all(
        (isinstance(size, int) and size == 1) or is_same_size(size, at) for size, at in pairs
    )
