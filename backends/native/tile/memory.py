"""Allocates made-up inputs for single steps, so that they can be measured."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..ir.index import ONE, Hole, Index
from ..ir.program import Call, Kernel, Product, Program, Step, View
from ..ir.scalar import TRUE, loads


def needed_elements(program: Program, steps: Iterable[Step]) -> dict[str, int] | None:
    """How many elements from its start the steps use of each buffer, by name; None where that is
    unknown, because sizes vary or addresses depend on memory content."""
    found: dict[str, int] = {}
    for step in steps:
        for name, place, guarded in _places(step):
            bounds = (
                None if any(isinstance(item, Hole) for item in place.atoms()) else place.bounds()
            )
            if (
                bounds is None
                or bounds[0].value is None
                or bounds[1].value is None
                or (bounds[0].value < 0 and not guarded)
            ):
                return None
            found[name] = max(found.get(name, 1), bounds[1].value + 1)
    for name in found:
        buffer = program.buffers[name]
        last = _last(buffer.size, buffer.stride).value
        if last is None:
            return None
        found[name] = max(found[name], last + 1)
    return found


def _places(step: Step) -> Iterable[tuple[str, Index, bool]]:
    """Buffers and places in them, and whether a mask may keep a step from there."""
    if isinstance(step, Call):
        views = list(step.views())
    else:
        assert isinstance(step, Kernel)
        views = [step.left, step.right] if isinstance(step, Product) else []
        made = step.result if isinstance(step, Product) else None
        yield from ((store.buffer, store.index, False) for store in step.stores)
        yield from (
            (n.attr.buffer, n.attr.index, n.args[0] is not TRUE)
            for n in loads(step.roots())
            if n.attr.buffer != made
        )
    yield from ((view.buffer, view.offset, False) for view in views)
    yield from ((view.buffer, view.offset + _last(view.size, view.stride), False) for view in views)


def _last(sizes: Iterable[Index], strides: Iterable[Index]) -> Index:
    """The place of a tensor's last element."""
    total = Index({})
    for size, stride in zip(sizes, strides, strict=True):
        total = total + (size - ONE) * stride
    return total


def tensor_of_view(view: View, memory: torch.Tensor) -> torch.Tensor:
    """The tensor that a view of known size is, on its buffer's memory."""
    size, stride = (
        [number.value or 0 for number in numbers] for numbers in (view.size, view.stride)
    )
    return memory.as_strided(size, stride, view.offset.value or 0)


def runs_on(kind: str, program: Program, kernel: Kernel) -> bool:
    """Whether a kernel has something to compute, on a device of this type."""
    return kernel.rows != 0 and program.buffers[kernel.stores[0].buffer].device.type == kind
