"""Sizes as products, for comparing them without a question to torch: two are the same if their
factors are, whatever the symbols stand for.

sympy multiplies a number into a sum (2*(n + 1) is 2*n + 2), so the same size may be written in
several ways: here a sum is divided by what its terms have in common.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

Size = int | torch.SymInt
Product = tuple[int, frozenset[tuple[Any, int]]]  # a number, and how often each expression occurs
ONE: Product = (1, frozenset())


def product_of(sizes: Iterable[Size]) -> Product:
    """The product of sizes."""
    number, counts = 1, Counter[Any]()
    for size in sizes:
        if isinstance(size, torch.SymInt):
            part, factors = factors_of(size.node.expr)
            number *= part
            counts.update(factors)
        else:
            number *= size
    return number, frozenset(counts.items())


def as_product(size: Size) -> Product:
    """A size as a product, which may be compared."""
    return (size, ONE[1]) if isinstance(size, int) else product_of((size,))


@functools.lru_cache(4096)
def factors_of(expression: Any) -> tuple[int, tuple[Any, ...]]:
    """A number and expressions whose product is a sympy expression."""
    if expression.is_Integer:
        return int(expression), ()
    if expression.is_Mul:
        number, factors = 1, list[Any]()
        for part in expression.args:
            of_part, more = factors_of(part)
            number *= of_part
            factors += more
        return number, tuple(factors)
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        base, factors_of_base = factors_of(expression.base)
        return base ** int(expression.exp), factors_of_base * int(expression.exp)
    if expression.is_Add:
        content, rest = expression.primitive()
        if content.is_Integer:
            return int(content), (rest,)
    return 1, (expression,)


def missing_size(sizes: Sequence[Size], others: Sequence[Size]) -> Size | None:
    """The size that makes the product of `others` the one of `sizes`: a number, one of the sizes,
    or a product of some; None where it is something else, or open as there are no elements."""
    left, unmatched = list(sizes), []
    for size in others:
        same = next((at for at, one in enumerate(left) if is_same_size(one, size)), None)
        if same is None:
            unmatched.append(size)
        else:
            del left[same]
    number, factors = product_of(left)
    divisor, divisors = product_of(unmatched)
    if any(isinstance(size, int) and size == 0 for size in (*sizes, *others)) or number % divisor:
        return None
    rest = Counter(dict(factors))
    rest.subtract(dict(divisors))
    if min(rest.values(), default=0) < 0:
        return None
    wanted: Product = (number // divisor, frozenset((+rest).items()))
    if not wanted[1]:
        return wanted[0]
    if not unmatched:
        return functools.reduce(operator.mul, left)
    return next((size for size in sizes if as_product(size) == wanted), None)


def is_same_size(one: Size, other: Size) -> bool:
    """Whether two sizes are equal whatever the symbols are."""
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return one is other or as_product(one) == as_product(other)


def have_same_sizes(one: Sequence[Size], other: Sequence[Size]) -> bool:
    return len(one) == len(other) and all(map(is_same_size, one, other))


def dense_order(sizes: Sequence[Size], strides: Sequence[Size]) -> list[int] | None:
    """The dimensions from the innermost to the outermost of a tensor whose elements fill their
    memory. None for others, and where a dimension of one element leaves the order open, as any but
    the outermost does."""
    left = {as_product(stride): dim for dim, stride in enumerate(strides)}
    order: list[int] = []
    for _ in sizes:
        dim = left.pop(product_of([sizes[dim] for dim in order]), None)
        size = 0 if dim is None else sizes[dim]
        least = 1 if len(order) + 1 == len(sizes) else 2
        if dim is None or (isinstance(size, int) and size < least):
            return None
        order.append(dim)
    return order


def strides_of_view(
    sizes: Sequence[Size], strides: Sequence[Size], wanted: Sequence[Size]
) -> list[Size] | None:
    """The strides of a view with other sizes; None where there is none, or it cannot be told. As
    computeStride of torch's TensorUtils.cpp."""
    found: list[Size] = []
    open_sizes = list(wanted)
    step, chunk = strides[-1], []
    for dim in reversed(range(len(sizes))):
        chunk.append(sizes[dim])
        if dim > 0:
            before, stride = sizes[dim - 1], strides[dim - 1]
            if (isinstance(before, int) and before == 1) or (
                as_product(stride) == product_of((*chunk, strides[dim + len(chunk) - 1]))
            ):
                continue
        whole, taken = product_of(chunk), list[Size]()
        while open_sizes and (product_of(taken) != whole or is_same_size(open_sizes[-1], 1)):
            found.append(step)
            size = open_sizes.pop()
            taken.append(size)
            step = size if isinstance(step, int) and step == 1 else step * size
        if product_of(taken) != whole:
            return None
        if dim > 0:
            step, chunk = strides[dim - 1], []
    return None if open_sizes else found[::-1]
