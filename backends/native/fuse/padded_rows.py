"""Padding in place: where a kernel makes a matrix that is then copied with zeros after its rows,
as an operand of products (lower/padded_products.py), the kernel stores its rows that far apart, and
nothing is copied. Products that add up the elements behind the rows write zeros there first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ....records import record
from ..ir.index import ZERO, Index, Var, atom, index, product, with_longer_rows
from ..ir.program import (
    PADDED,
    AnyKernel,
    Buffer,
    Call,
    Product,
    Program,
    Step,
    Store,
    View,
    map_views,
    reads,
    scattered_value,
    with_buffers,
    writes,
)
from ..ir.scalar import LOAD, Scalar, loads, rewrite

aten = torch.ops.aten


def mm_behind_zeros(spaces: Sequence[torch.Tensor], left: Any, right: Any) -> torch.Tensor:
    """left @ right, after zeros are written into spaces that the operands include."""
    for space in spaces:
        space.zero_()
    return torch.mm(left, right)


def addmm_behind_zeros(
    spaces: Sequence[torch.Tensor], added: Any, left: Any, right: Any, **numbers: Any
) -> torch.Tensor:
    """left @ right + added, after zeros are written into spaces that the operands include."""
    for space in spaces:
        space.zero_()
    return torch.addmm(added, left, right, **numbers)


BEHIND_ZEROS: dict[Any, Callable[..., torch.Tensor]] = {
    aten.mm.default: mm_behind_zeros,
    aten.addmm.default: addmm_behind_zeros,
}


class OtherUse(Exception):
    """A matrix is used otherwise than by its rows and columns."""


@record
class PaddedCopy:
    """A copy of matrix `source`, whose rows are `length` elements, with rows as long as those of
    `target`."""

    source: str
    target: Buffer
    length: int

    def place(self, place: Index) -> Index:
        """The position in the copy of an element of the matrix."""
        found = with_longer_rows(place, self.length, self.target.size[1])
        if found is None:
            raise OtherUse
        return found

    def view(self, view: View) -> View:
        """A view of the matrix as one of the copy."""
        if view.buffer != self.source:
            return view
        variables = [Var(f"d{number}", size) for number, size in enumerate(view.size)]
        place = self.place(view.at(map(atom, variables)))
        stride = [place.coefficient(variable) for variable in variables]
        offset = place.substitute({variable: ZERO for variable in variables})
        known = tuple(step for step in stride if step is not None)
        if len(known) < len(stride):
            raise OtherUse
        return replace(view, buffer=self.target.name, stride=known, offset=offset)

    def store(self, store: Store, value: Scalar) -> Store:
        if store.buffer != self.source:
            return replace(store, value=value)
        return Store(self.target.name, self.place(store.index), value)

    def load(self, node: Scalar) -> Scalar:
        if node.op != LOAD or node.attr.buffer != self.source:
            return node
        access = replace(node.attr, buffer=self.target.name, index=self.place(node.attr.index))
        return Scalar(LOAD, node.args, node.dtype, access)

    def step(self, step: Step) -> Step:
        """A step with the copy in the matrix's place."""
        if isinstance(step, Call):
            if self.source in reads(step) and not is_product(step):  # it gets what eager's gets
                raise OtherUse
            args = map_views(step.args, self.view)
            kwargs = map_views(dict(step.kwargs), self.view)
            return with_zeros(replace(step, args=args, kwargs=kwargs), self)
        if self.source not in {*reads(step), *writes(step)}:
            return step
        kernel = with_buffers(step)
        values = rewrite(kernel.roots(), self.load)
        stores = tuple(map(self.store, kernel.stores, values))
        if isinstance(kernel, Product):
            left, right = self.view(kernel.left), self.view(kernel.right)
            return replace(kernel, stores=stores, left=left, right=right)
        return replace(kernel, stores=stores)


def pad_rows_in_place(program: Program) -> None:
    """Changes the program: removes the copies that padded rows where those who make the matrix can
    leave the space."""
    for step in program.steps:
        copy = padded_copy(program, step) if isinstance(step, AnyKernel) else None
        if copy is None:
            continue
        try:
            steps = [copy.step(other) for other in program.steps if other is not step]
        except OtherUse:
            continue
        program.steps = steps
        del program.buffers[copy.source]


def padded_copy(program: Program, step: AnyKernel) -> PaddedCopy | None:
    """The copy that a step makes, if it only copies a matrix that one kernel made."""
    if step.origins != (PADDED,):
        return None
    kernel = with_buffers(step)
    target, read = program.buffers[kernel.stores[0].buffer], loads(kernel.roots())
    if len(kernel.stores) != 1 or len(kernel.outer) != 2 or len(read) != 1:
        return None
    place, source = read[0].attr.index, read[0].attr.buffer
    row, column = kernel.outer
    length = place.coefficient(row)
    if (
        length is None
        or length.value is None
        or place != atom(row) * length + atom(column)
        or product(program.buffers[source].size) != target.size[0] * length
        or not is_made_by_a_kernel(program, source)
    ):
        return None
    return PaddedCopy(source, target, length.value)


def is_made_by_a_kernel(program: Program, name: str) -> bool:
    """Whether one kernel makes a buffer that neither enters nor leaves the program."""
    makers = [step for step in program.steps if name in writes(step)]
    return (
        len(makers) == 1
        and isinstance(makers[0], AnyKernel)
        and scattered_value(with_buffers(makers[0])) is None
        and name not in program.kept_buffers()
        and name not in program.inputs
    )


def is_product(call: Call) -> bool:
    return call.function in BEHIND_ZEROS or call.function in BEHIND_ZEROS.values()


def with_zeros(call: Call, copy: PaddedCopy) -> Call:
    """A product that first writes zeros after the rows of the copy, if it adds them up."""
    if not is_product(call):
        return call
    name = copy.target.name
    left, right = call.args[-2:]
    if (name, 1) not in ((left.buffer, left.stride[1]), (right.buffer, right.stride[0])):
        return call
    rows, length = copy.target.size
    space = View(
        name,
        (rows, length - copy.length),
        copy.target.stride,
        index(copy.length),
        copy.target.dtype,
        copy.target.device,
    )
    if call.function in BEHIND_ZEROS:
        return replace(call, function=BEHIND_ZEROS[call.function], args=([space], *call.args))
    spaces, *operands = call.args
    return replace(call, args=([*spaces, space], *operands))
