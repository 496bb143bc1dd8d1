"""Matrix products and convolutions in half precision on a CPU without instructions for them. torch
emulates those there, which takes 4 to 60 times as long as the same in float32. The operands are
converted, torch computes in float32, and the result is rounded once, as torch's own kernels do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import torch

from ..ir.program import Call, View
from ..ir.scalar import Scalar, cast
from .build import Builder
from .fake_layouts import number_now
from .registry import Unsupported, lowers

aten = torch.ops.aten

# Multiplications for each converted element from which converting is faster, as measured on a CPU
# with AVX-512 only: an element costs 0.24 ns; a multiplication in float32 0.015 ns, in bfloat16
# 0.07, in float16 0.14.
WORTH = {torch.bfloat16: 5, torch.float16: 2}


# names of instruction sets, as torch.cpu.get_capabilities() lists them
INSTRUCTIONS = {
    torch.bfloat16: ("avx512_bf16", "amx_bf16", "avx_ne_convert"),
    torch.float16: ("avx512_fp16", "amx_fp16", "avx_ne_convert"),
}


@lru_cache(1)
def emulated_dtypes() -> frozenset[torch.dtype]:
    """The dtypes for whose products an x86 CPU has no instructions."""
    known = torch.cpu.get_capabilities()
    if known.get("architecture") != "x86_64":
        return frozenset()
    return frozenset(
        dtype for dtype, names in INSTRUCTIONS.items() if not any(map(known.get, names))
    )


def is_emulated(fake: torch.Tensor) -> bool:
    return fake.device.type == "cpu" and fake.dtype in emulated_dtypes()


def refuse_fast_products(
    build: Builder, operands: Sequence[int], results: Sequence[torch.Tensor], multiplied: int
) -> None:
    """Raises Unsupported where torch's operator is faster. operands: positions of the arguments to
    convert. multiplied: how many multiplications the operator does."""
    fakes = [*results, *(operand_fake(build, position) for position in operands)]
    if not all(map(is_emulated, fakes)) or len({fake.dtype for fake in fakes}) > 1:
        raise Unsupported("a product that torch computes faster")
    if multiplied < WORTH[fakes[0].dtype] * sum(map(elements, fakes)):
        raise Unsupported("a product that is too small to be converted")


def operand_fake(build: Builder, position: int) -> torch.Tensor:
    fake: torch.Tensor = build.node.args[position].meta["val"]  # type: ignore[union-attr]
    return fake


def elements(fake: torch.Tensor) -> int:
    return prod(map(number_now, fake.shape))


def widen(build: Builder, position: int, view: View) -> View:
    """An operand in float32; its elements keep their order in memory. Products share it."""
    key = view, torch.float32
    if key not in build.operands:
        like = torch.empty_like(operand_fake(build, position), dtype=torch.float32)
        build.operands[key] = build.pointwise(lambda at: build.read(view, at), like)
    return build.operands[key]


def call_in_float32(
    build: Builder, function: Any, arguments: Sequence[Any], results: Sequence[torch.Tensor | None]
) -> list[View | None]:
    """Calls an operator. results: its fake results in half precision."""
    buffers = [
        None if like is None else build.new_buffer(build.node.name, like.to(torch.float32))
        for like in results
    ]
    names = tuple(None if buffer is None else buffer.name for buffer in buffers)
    single = len(results) == 1
    build.program.steps.append(Call(function, tuple(arguments), {}, names, single, str(function)))
    return [None if buffer is None else build.window(buffer) for buffer in buffers]


def narrow(build: Builder, wide: View, like: torch.Tensor) -> View:
    """A result of `call_in_float32`, rounded."""
    return build.pointwise(lambda at: build.read(wide, at), like)


def half_product(
    build: Builder, first: int, left: View, right: View, added: View | None, numbers: Sequence[Any]
) -> View:
    """alpha * (left @ right) + beta * added, the numbers being (beta, alpha). first: the position
    of `left` among the operator's arguments. Raises Unsupported where it does not pay."""
    beta, alpha = numbers
    if not all(isinstance(number, (int, float)) for number in numbers):
        raise Unsupported("a product times a number that varies")
    depth = number_now(operand_fake(build, first).shape[-1])
    refuse_fast_products(build, (first, first + 1), [build.fake], elements(build.fake) * depth)
    operands = widen(build, first, left), widen(build, first + 1, right)
    function = aten.mm.default if len(left.size) == 2 else aten.bmm.default
    (wide,) = call_in_float32(build, function, operands, [build.fake])
    assert wide is not None

    def element(at: Any) -> Scalar:
        value = build.read(wide, at)
        if alpha != 1:
            value = value * float(alpha)
        if added is None or beta == 0:
            return value
        term = cast(build.read(added, at), torch.float32)
        return value + (term if beta == 1 else term * float(beta))

    return build.pointwise(element)


@lowers(aten.bmm.default, seldom=True)
def bmm(build: Builder, left: View, right: View) -> View:
    return half_product(build, 0, left, right, None, (0, 1))


@lowers(aten.baddbmm.default, seldom=True)
def baddbmm(
    build: Builder, added: View, left: View, right: View, *, beta: Any = 1, alpha: Any = 1
) -> View:
    return half_product(build, 1, left, right, added, (beta, alpha))


@lowers(aten.convolution.default, seldom=True)
def convolution(build: Builder, x: View, weight: View, bias: View | None, *settings: Any) -> View:
    refuse_fast_products(build, (0, 1), [build.fake], multiplications(build, build.fake, 0, 1))
    operands = [widen(build, 0, x), widen(build, 1, weight)]
    wide_bias = None if bias is None else widen(build, 2, bias)
    results = call_in_float32(
        build, build.node.target, [*operands, wide_bias, *settings], [build.fake]
    )
    assert results[0] is not None
    return narrow(build, results[0], build.fake)


@lowers(aten.convolution_backward.default, seldom=True)
def convolution_backward(
    build: Builder, gradient: View, x: View, weight: View, *settings: Any
) -> list[View | None]:
    results = [fake for fake in build.fake if fake is not None]
    passes = sum(fake is not None for fake in build.fake[:2])
    multiplied = passes * multiplications(build, operand_fake(build, 0), 1, 2)
    refuse_fast_products(build, (0, 1, 2), results, multiplied)
    operands = [widen(build, number, view) for number, view in enumerate((gradient, x, weight))]
    wide = call_in_float32(build, build.node.target, [*operands, *settings], build.fake)
    return [
        None if view is None else narrow(build, view, fake)
        for view, fake in zip(wide, build.fake, strict=True)
    ]


def multiplications(build: Builder, result: torch.Tensor, x: int, weight: int) -> int:
    """How many multiplications a convolution does. x, weight: positions of its operands."""
    transposed = build.node.args[weight + 5]
    over = operand_fake(build, x) if transposed else result
    return elements(over) * prod(map(number_now, operand_fake(build, weight).shape[1:]))
