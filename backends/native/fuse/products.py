"""Joins a matrix product with its one elementwise consumer: the call and the kernel become one
Product, which the printer can print as one kernel. The tuner measures whether that is faster than
the call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch

from ....records import record
from ..ir.index import Index, Var, atom, index
from ..ir.program import (
    Buffer,
    Call,
    Kernel,
    Product,
    Program,
    Store,
    View,
    contiguous_strides,
    reads,
)
from ..ir.scalar import (
    LOAD,
    TRUE,
    Access,
    Scalar,
    cast,
    cast_again,
    const,
    load,
    loads,
    rewrite,
    scalar,
    share,
)
from .places import coordinates, covers_range
from .simplify import rename_variables, with_values

aten = torch.ops.aten
PRODUCTS = (aten.mm.default, aten.bmm.default)
# of a tensor and a product, each multiplied by a number
ADDED = (aten.addmm.default, aten.baddbmm.default)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@record
class JoinCandidate:
    """A call and a kernel, as positions among a program's steps, and their Product."""

    call: int
    kernel: int
    product: Product


def find_joinable(
    program: Program, devices: Collection[str] = ("cuda",)
) -> Iterator[JoinCandidate]:
    """The products of a program that can each be one kernel with their consumer. Kernels must be
    simplified."""
    kept = program.kept_buffers()
    readers: dict[str, list[int]] = {}
    for position, step in enumerate(program.steps):
        for name in reads(step):
            readers.setdefault(name, []).append(position)
    taken: set[int] = set()
    for position, step in enumerate(program.steps):
        if (
            not isinstance(step, Call)
            or step.function not in PRODUCTS + ADDED
            or step.results[0] is None
            or step.results[0] in kept
        ):
            continue
        reader = readers.get(step.results[0], [])
        kernel = program.steps[reader[0]] if len(reader) == 1 else None
        if (
            isinstance(kernel, Kernel)
            and not isinstance(kernel, Product)
            and reader[0] not in taken
        ):
            product = join(program, step, kernel, devices)
            if product is not None:
                taken.add(reader[0])
                yield JoinCandidate(position, reader[0], product)


def join(program: Program, call: Call, kernel: Kernel, devices: Collection[str]) -> Product | None:
    """The product; None where the kernel does not use each of its elements once."""
    (result,) = call.results
    assert result is not None
    buffer = program.buffers[result]
    read = place_of_reads(kernel, result)
    if read is None or not is_product_of_matrices(call, buffer, devices):
        return None
    outer = tuple(
        Var(name, size) for name, size in zip("bmn"[-len(buffer.size) :], buffer.size, strict=True)
    )
    point = [atom(variable) if variable.size != 1 else index(0) for variable in outer]
    place = View(result, buffer.size, buffer.stride, index(0), buffer.dtype, buffer.device).at(
        point
    )
    mapping = coordinates(Store(result, read, TRUE), kernel.outer, place)
    if mapping is None:
        return None
    element = cast(
        with_term(call, Scalar(LOAD, (TRUE,), torch.float32, Access(result, place)), point),
        buffer.dtype,
    )
    joined = with_element(rename_variables(kernel, mapping, outer, ()), result, element)
    return Product(
        outer,
        (),
        joined.stores,
        (call.origin, *kernel.origins),
        left=call.args[-2],
        right=call.args[-1],
        result=result,
    )


def place_of_reads(kernel: Kernel, result: str) -> Index | None:
    """The one place at which a kernel without reductions reads each element of a buffer."""
    places = {node.attr.index for node in loads(kernel.roots()) if node.attr.buffer == result}
    if kernel.inner or len(places) != 1:
        return None
    (read,) = places
    return read if covers_range(read, kernel.outer, kernel.rows) else None


def is_product_of_matrices(call: Call, buffer: Buffer, devices: Collection[str]) -> bool:
    """Whether a call multiplies matrices of known sizes, with arguments that are handled here, into
    a contiguous buffer of their dtype."""
    left, right = call.args[-2:]
    numbers = (*buffer.size, left.size[-1], *left.stride, *right.stride, left.offset, right.offset)
    return (
        buffer.device.type in devices
        and has_handled_arguments(call)
        and buffer.dtype in DTYPES
        and left.dtype == right.dtype == buffer.dtype
        and buffer.stride == contiguous_strides(buffer.size)
        and all(number.value is not None for number in numbers)
        and left.size[-1] != 0
    )


def has_handled_arguments(call: Call) -> bool:
    """Whether a call has only the arguments that are handled here."""
    known = {"alpha", "beta"} if call.function in ADDED else set()
    return (
        call.single
        and set(call.kwargs) <= known
        and all(isinstance(number, (int, float)) for number in call.kwargs.values())
    )


def with_element(kernel: Kernel, result: str, element: Scalar) -> Kernel:
    """The kernel, with `element` where it read the product from memory."""

    def change(node: Scalar) -> Scalar:
        if node.op == LOAD and node.attr.buffer == result:
            return element
        return cast_again(node)

    return with_values(kernel, share(rewrite(kernel.roots(), change)))


def with_term(call: Call, element: Scalar, point: list[Index]) -> Scalar:
    """The call's result for an element of the product: scaled, with a term added."""
    if call.function not in ADDED:
        return element
    numbers: Mapping[str, Any] = {"alpha": 1, "beta": 1, **call.kwargs}
    if numbers["alpha"] != 1:
        element = scalar("mul", element, const(numbers["alpha"], torch.float32))
    if numbers["beta"] == 0:
        return element  # whatever the other tensor contains, even NaN
    added = call.args[0]
    own = point[len(point) - len(added.size) :]
    place = added.at(
        [
            index(0) if size == 1 else subscript
            for size, subscript in zip(added.size, own, strict=True)
        ]
    )
    term = cast(load(added.buffer, place, added.dtype), torch.float32)
    if numbers["beta"] != 1:
        term = scalar("mul", term, const(numbers["beta"], torch.float32))
    return scalar("add", element, term)


def adopt(program: Program, chosen: Collection[JoinCandidate]) -> None:
    """Replaces kernels by products, and removes the calls."""
    products = {found.kernel: found.product for found in chosen}
    calls = {found.call for found in chosen}
    program.steps = [
        products.get(place, step) for place, step in enumerate(program.steps) if place not in calls
    ]
