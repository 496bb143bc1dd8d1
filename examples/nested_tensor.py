"""A batch of sequences of different lengths as one tensor, in plain Python, compiled into one graph.

    python examples/nested_tensor.py [--units 10] [--seconds 1]

The class is a wrapper subclass: its instances consist of two ordinary tensors, and `__torch_dispatch__` says what an operator
does with these. Compiled code works on the two inner tensors only. Exits with 1 when a result or a gradient differs from that
of the sequences one by one.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import framejit
import torch
import torch.nn.functional as F

aten = torch.ops.aten


class NestedTensor(torch.Tensor):
    """Sequences of feature vectors, one behind the other in the rows of `buffer`; sequence i has `sizes[i]` of them."""

    buffer: torch.Tensor
    sizes: torch.Tensor

    @staticmethod
    def __new__(cls, buffer: torch.Tensor, sizes: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, buffer.shape, strides=buffer.stride(), dtype=buffer.dtype, device=buffer.device,
        )  # fmt: skip

    def __init__(self, buffer: torch.Tensor, sizes: torch.Tensor) -> None:
        self.buffer, self.sizes = buffer, sizes

    def __repr__(self) -> str:
        return f"NestedTensor({self.buffer}, sizes={self.sizes})"

    @classmethod
    def of(cls, parts: Sequence[torch.Tensor]) -> NestedTensor:
        """A nested tensor with these sequences, without their gradients."""
        sizes = torch.tensor([len(part) for part in parts], device=parts[0].device)
        return cls(torch.cat([part.detach() for part in parts]), sizes)

    def parts(self) -> tuple[torch.Tensor, ...]:
        """The sequences."""
        return self.rows().split(self.sizes.tolist())

    def rows(self) -> torch.Tensor:
        """All feature vectors as one matrix; gradients flow through."""
        return Rows.apply(self)

    def sums(self) -> torch.Tensor:
        """The sum of each sequence; gradients flow through."""
        sequence = torch.arange(len(self.sizes), device=self.device)
        owner = sequence.repeat_interleave(self.sizes, output_size=len(self))
        made = self.buffer.new_zeros(len(self.sizes), self.shape[1])
        return made.index_add(0, owner, self.rows())

    # what torch needs

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["buffer", "sizes"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: dict[str, torch.Tensor], _: None, size: Any, stride: Any) -> NestedTensor:
        return cls(inner["buffer"], inner["sizes"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = RULES.get(func) or (by_rows if torch.Tag.pointwise in func.tags else None)
        if rule is None:
            raise NotImplementedError(f"{func} of a NestedTensor")
        return rule(func, args, kwargs or {})


class Rows(torch.autograd.Function):
    """From a nested tensor to the matrix of its rows. A gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, nested: NestedTensor) -> torch.Tensor:
        ctx.sizes = nested.sizes
        return nested.buffer.view_as(nested.buffer)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> NestedTensor:
        return NestedTensor(gradient, ctx.sizes)


# operators


def buffer_of(item: Any) -> Any:
    return item.buffer if isinstance(item, NestedTensor) else item


def on_buffers(func: Any, args: Any, kwargs: Any) -> Any:
    """The operator on the matrices of rows; its result is an ordinary tensor."""
    return func(*map(buffer_of, args), **kwargs)


def by_rows(func: Any, args: Any, kwargs: Any) -> Any:
    """The operator on the matrices of rows; the result's rows belong to the same sequences."""
    nested = [arg for arg in args if isinstance(arg, NestedTensor)]
    if any(other.sizes.shape != nested[0].sizes.shape for other in nested):
        raise ValueError("nested tensors of different numbers of sequences")
    return NestedTensor(on_buffers(func, args, kwargs), nested[0].sizes)


def same_view(func: Any, args: Any, kwargs: Any) -> Any:
    """A view with the sizes of the tensor itself, by which torch.autograd asks for its place in a backward pass."""
    if tuple(args[1]) != tuple(args[0].shape):
        raise NotImplementedError("a view of a NestedTensor")
    return NestedTensor(args[0].buffer.view_as(args[0].buffer), args[0].sizes)


def product(func: Any, args: Any, kwargs: Any) -> Any:
    """A matrix product: by rows if the left operand is nested, else a sum over all rows."""
    return (by_rows if isinstance(args[-2], NestedTensor) else on_buffers)(func, args, kwargs)


RULES: dict[Any, Callable[..., Any]] = {
    aten.mm.default: product, aten.addmm.default: product,
    aten.t.default: on_buffers, aten.sum.default: on_buffers, aten.sum.dim_IntList: on_buffers,
    aten.view.default: same_view, aten.detach.default: by_rows, aten.clone.default: by_rows, aten.ones_like.default: by_rows,
    aten.zeros_like.default: by_rows, aten.empty_like.default: by_rows,
    aten._softmax.default: by_rows, aten._softmax_backward_data.default: by_rows,
}  # fmt: skip


# a program


def program(units: int, weight: torch.Tensor, bias: torch.Tensor) -> Callable[[Any], Any]:
    """Units of sin, cos, mul, linear and add: for a nested tensor or for one sequence."""

    def forward(x: Any) -> Any:
        for _ in range(units):
            x = F.linear(x.sin() * x.cos(), weight, bias) + x
        return x

    return forward


def batch(lengths: Sequence[int], features: int) -> list[torch.Tensor]:
    return [torch.randn(length, features) for length in lengths]


def gradients(run: Callable[[Any], Any], parts: Sequence[torch.Tensor]) -> tuple[Any, Any]:
    """Results and gradients of a nested tensor."""
    x = NestedTensor.of(parts).requires_grad_()
    result = run(x).sums()
    result.square().mean().backward()
    return result.detach(), x.grad.buffer


def one_by_one(run: Callable[[Any], Any], parts: Sequence[torch.Tensor]) -> tuple[Any, Any]:
    """The same, of the sequences one by one."""
    parts = [part.clone().requires_grad_() for part in parts]
    result = torch.stack([run(part).sum(0) for part in parts])
    result.square().mean().backward()
    return result.detach(), torch.cat([part.grad for part in parts])


def milliseconds(call: Callable[[], Any], budget: float) -> float:
    times: list[float] = []
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--units", type=int, default=10)
    options.add_argument("--seconds", type=float, default=1.0, help="of measuring, for each row")
    given = options.parse_args()
    torch.manual_seed(0)
    forward = program(given.units, torch.randn(64, 64) / 16, torch.randn(64) / 16)
    compiled = framejit.compile(forward, backend="native")
    equal = True
    for lengths in ((20, 30, 40), (7, 50, 3, 11), (64, 2)):
        parts = batch(lengths, 64)
        for found, wanted in zip(gradients(compiled, parts), one_by_one(forward, parts), strict=True):
            equal = equal and bool((found - wanted).norm() <= 1e-4 * wanted.norm())
    print("equal to the sequences one by one" if equal else "DIFFERENT from the sequences one by one")
    report = compiled.framejit.explain()
    print(f"{len(report.graphs)} graphs for 3 batches, {len(report.breaks)} breaks")
    for name, call, run in (
        ("one by one", one_by_one, forward), ("nested, eager", gradients, forward), ("nested, compiled", gradients, compiled),
    ):  # fmt: skip
        print(f"{name:18} {milliseconds(partial(call, run, parts), given.seconds):7.2f} ms")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
