"""Horizontal fusion: joins small independent kernels with loops of the same sizes, since launching
a kernel on a GPU takes longer than running it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from ..ir.index import Atom, Index, atom, product
from ..ir.program import (
    AnyKernel,
    Bound,
    Call,
    Kernel,
    Program,
    Step,
    Store,
    reads,
    scattered_value,
    with_buffers,
    writes,
)
from ..ir.scalar import REDUCE, substitute, topological
from .fuse import MOST_BUFFERS, MOST_NODES

SMALL = (
    1 << 16
    # a kernel with at most so many points, reading at most so many elements, is small: that these
    # are needed sooner, or longer, does not matter
)
LITTLE = 1 << 13  # elements that may be allocated sooner than without joining


def fuse_horizontally(program: Program, devices: Collection[str] = ("cuda",)) -> Program:
    """The program with such kernels joined. Kernels must be simplified. Each is joined with the
    first possible one."""
    if not any(buffer.device.type in devices for buffer in program.buffers.values()):
        return program
    schedule = Schedule(program.steps)
    groups: dict[object, list[int]] = {}
    for place, step in enumerate(program.steps):
        device = device_of(program, step)
        if (
            isinstance(step, Call)
            or device is None
            or device.type not in devices
            or not is_small(step, program)
        ):
            continue
        group = groups.setdefault((device, sizes(step)), [])
        for number, other in enumerate(group):
            joined = schedule.join(other, place, sooner=makes_little(step, program))
            if joined is not None:
                group[number] = joined
                break
        else:
            group.append(place)
    program.steps = [step for step in schedule.steps if step is not None]
    return program


def device_of(program: Program, step: Step) -> torch.device | None:
    return None if isinstance(step, Call) else program.buffers[writes(step)[0]].device


def pattern(kernel: AnyKernel) -> Kernel:
    """The kernel without its buffers."""
    return kernel.pattern.kernel if isinstance(kernel, Bound) else kernel


def is_small(kernel: AnyKernel, program: Program) -> bool:
    """Whether a kernel runs very briefly, keeps little memory, and may be joined. (The position of
    a largest element needs code of its own.)"""
    own = pattern(kernel)
    counts = [
        own.rows * own.columns,
        *(product(program.buffers[name].size) for name in reads(kernel)),
    ]
    reductions = [node.attr for node in topological(own.roots()) if node.op == REDUCE]
    few = all(count.value is not None and 0 < count.value <= SMALL for count in counts)
    return (
        few
        and not any(kind.startswith("arg") for kind in reductions)
        and scattered_value(own) is None
    )


def makes_little(kernel: AnyKernel, program: Program) -> bool:
    """Whether the kernel's results may be allocated sooner. For many weights that are converted to
    another layout, that would raise the peak memory."""
    counts = [product(program.buffers[name].size).value for name in writes(kernel)]
    return all(count is not None and count <= LITTLE for count in counts)


def sizes(kernel: AnyKernel) -> tuple[tuple[object, ...], ...]:
    own = pattern(kernel)
    return tuple(tuple(variable.size for variable in loops) for loops in (own.outer, own.inner))


class Schedule:
    """Steps by position; None for a step that was joined with another one."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps: list[Step | None] = list(steps)
        self.made: dict[str, int] = {}
        self.read: dict[str, set[int]] = {}
        for place, step in enumerate(steps):
            self.note(place, step)

    def note(self, place: int, step: Step) -> None:
        self.made |= dict.fromkeys(writes(step), place)
        for name in reads(step):
            self.read.setdefault(name, set()).add(place)

    def join(self, first: int, second: int, sooner: bool) -> int | None:
        """Joins two kernels and returns the position of the result: the first one's, if everything
        that the second one reads is available there and it may run `sooner`; or the second one's,
        if no step between them reads the first one's results. None if neither is possible."""
        left, right = self.steps[first], self.steps[second]
        assert isinstance(left, AnyKernel) and isinstance(right, AnyKernel)
        if sooner and all(self.made.get(name, -1) < first for name in reads(right)):
            place, left_empty = first, second
        elif all(min(self.read.get(name, {second + 1})) > second for name in writes(left)):
            place, left_empty = second, first
        else:
            return None
        joined = join_kernels(with_buffers(left), with_buffers(right))
        if (
            len(reads(joined)) + len(joined.stores) > MOST_BUFFERS
            or len(topological(joined.roots())) > MOST_NODES
        ):
            return None
        self.steps[left_empty], self.steps[place] = None, joined
        for name in reads(joined):
            self.read[name].discard(left_empty)
        self.note(place, joined)
        return place


def join_kernels(left: Kernel, right: Kernel) -> Kernel:
    """Two kernels over loops of the same sizes as one."""
    mapping: dict[Atom, Index] = {
        b: atom(a) for a, b in zip(left.variables, right.variables, strict=True)
    }
    values = substitute(right.roots(), mapping)
    stores = (
        Store(store.buffer, store.index.substitute(mapping), value)
        for store, value in zip(right.stores, values, strict=True)
    )
    return Kernel(left.outer, left.inner, (*left.stores, *stores), left.origins + right.origins)
