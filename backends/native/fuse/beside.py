"""Horizontal fusion: small independent kernels with loops of the same sizes become one, since
launching a kernel on a GPU takes longer than they run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from ..ir.index import Atom, Index, atom, product
from ..ir.ir import (
    REDUCE,
    AnyKernel,
    Bound,
    Call,
    Kernel,
    Program,
    Step,
    Store,
    reads,
    substitute,
    topological,
    whole,
    writes,
)
from .fuse import MOST_BUFFERS, MOST_NODES

SMALL = (
    1 << 16
    # points of a kernel's loops, elements of what it reads: that these are needed sooner, or
    # longer,
    # does not count
)
LITTLE = 1 << 13  # elements that may take up memory sooner than they would


def put_beside(program: Program, devices: Collection[str] = ("cuda",)) -> Program:
    """The program with such kernels joined. Kernels must be simplified; each goes with the first
    that it can go with."""
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
            or not small(step, program)
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
    """What it is but for its buffers."""
    return kernel.pattern.kernel if isinstance(kernel, Bound) else kernel


def small(kernel: AnyKernel, program: Program) -> bool:
    """Whether a kernel is over in no time, keeps little memory, and may be joined: the place of a
    largest element is found by code of its own."""
    own = pattern(kernel)
    counts = [
        own.rows * own.columns,
        *(product(program.buffers[name].size) for name in reads(kernel)),
    ]
    reductions = [node.attr for node in topological(own.roots()) if node.op == REDUCE]
    few = all(count.value is not None and 0 < count.value <= SMALL for count in counts)
    return few and not any(kind.startswith("arg") for kind in reductions)


def makes_little(kernel: AnyKernel, program: Program) -> bool:
    """Whether what a kernel makes may take up memory sooner: of many weights brought into another
    layout that would be the peak."""
    counts = [product(program.buffers[name].size).value for name in writes(kernel)]
    return all(count is not None and count <= LITTLE for count in counts)


def sizes(kernel: AnyKernel) -> tuple[tuple[object, ...], ...]:
    own = pattern(kernel)
    return tuple(tuple(variable.size for variable in loops) for loops in (own.outer, own.inner))


class Schedule:
    """Steps by their places; None where one went elsewhere."""

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
        """Makes one kernel of two and returns its place: the first one's, where all that the second
        one reads is there by then and it may come `sooner`, or the second one's, where nobody in
        between reads what the first one makes. None where neither is so."""
        left, right = self.steps[first], self.steps[second]
        assert isinstance(left, AnyKernel) and isinstance(right, AnyKernel)
        if sooner and all(self.made.get(name, -1) < first for name in reads(right)):
            place, left_empty = first, second
        elif all(min(self.read.get(name, {second + 1})) > second for name in writes(left)):
            place, left_empty = second, first
        else:
            return None
        joined = both(whole(left), whole(right))
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


def both(left: Kernel, right: Kernel) -> Kernel:
    """Two kernels over loops of the same sizes in one."""
    mapping: dict[Atom, Index] = {
        b: atom(a) for a, b in zip(left.variables, right.variables, strict=True)
    }
    values = substitute(right.roots(), mapping)
    stores = (
        Store(store.buffer, store.index.substitute(mapping), value)
        for store, value in zip(right.stores, values, strict=True)
    )
    return Kernel(left.outer, left.inner, (*left.stores, *stores), left.origins + right.origins)
