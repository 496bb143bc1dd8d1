"""Direct writes: a kernel stores the new content of a written input into the input itself.

A lowered graph computes new contents in buffers of its own, which are copied at its end. The copy,
and the buffer, can be left out where nothing reads the old content afterwards, or only at the place
that is written. If a step behind the store raised, eager would have to find the old content: so
nothing that may raise comes behind it.
"""

from __future__ import annotations

import torch

from ...graph.runtime_errors import raises_for_integers, raises_for_values
from ..ir.index import Index
from ..ir.program import (
    AnyKernel,
    Buffer,
    Call,
    Product,
    Program,
    Step,
    View,
    reads,
    views_in,
    with_buffers,
    writes,
)
from .in_place import FRESH, OperandFinder, has_scatter, rename_buffers, with_other_buffers


def store_into_inputs(program: Program) -> None:
    """Changes the program: removes the copies to inputs that a kernel can store to."""
    if not program.writes:
        return
    uses = Uses(program)
    finder = OperandFinder()
    moved: dict[str, str] = {}
    left = []
    for target, source in program.writes:
        if uses.may_move(target, source, finder) and source.buffer not in moved:
            moved[source.buffer] = target.buffer
        else:
            left.append((target, source))
    if moved:
        program.steps = [rename_buffers(step, moved) for step in program.steps]
        program.outputs = with_other_buffers(program.outputs, moved)
        program.writes = [with_other_buffers(pair, moved) for pair in left]


class Uses:
    """Where a program's buffers are written and read. `makers`: by buffer, the positions of the
    steps that write it. `last`: by buffer, the position of the last step that may read it, also
    through what a call returned. `shared`: buffers that results and copies to inputs may share
    memory with. `safe_from`: behind this position no step may raise."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.makers: dict[str, list[int]] = {}
        self.last: dict[str, int] = {}
        self.safe_from = -1
        behind: dict[str, frozenset[str]] = {}  # by a call's result: what it may be a view of
        for position, step in enumerate(program.steps):
            read = reads(step).union(*(behind.get(name, ()) for name in reads(step)))
            self.last |= dict.fromkeys(read, position)
            for name in writes(step):
                self.makers.setdefault(name, []).append(position)
                if isinstance(step, Call) and step.function not in FRESH:
                    behind[name] = read
            if may_raise(step):
                self.safe_from = position
        ends = {view.buffer for view in views_in(program.outputs)}
        self.shared = ends.union(*(behind.get(name, ()) for name in ends))
        self.copied = [source.buffer for _, source in program.writes]
        self.shared |= {other for name in self.copied for other in behind.get(name, ())}

    def may_move(self, target: View, source: View, finder: OperandFinder) -> bool:
        """Whether the kernel that makes `source` may store it to `target`."""
        own, other = (self.program.buffers[view.buffer] for view in (source, target))
        if (
            not (is_whole(source, own) and is_whole(target, other))
            or window(own) != window(other)
            or own.name in self.shared
            or other.name in self.copied
            or self.copied.count(own.name) > 1
            or len(self.makers.get(own.name, ())) != 1
        ):
            return False
        (position,) = self.makers[own.name]
        step = self.program.steps[position]
        last = self.last.get(other.name, -1)
        if (
            not isinstance(step, AnyKernel)
            or isinstance(with_buffers(step), Product)
            or has_scatter(step)
            or position <= self.safe_from
            or last > position
        ):
            return False
        if last < position:
            return True
        return any(
            other.name in candidates
            for result, candidates in finder.operands(step)
            if result == own.name
        )


def may_raise(step: Step) -> bool:
    """Whether a step may raise for some values or integers."""
    if not isinstance(step, Call):
        return False
    if step.effect or not isinstance(step.function, torch._ops.OpOverload):
        return True
    name = step.function._schema.name
    return raises_for_values(name) or raises_for_integers(name)


def is_whole(view: View, buffer: Buffer) -> bool:
    return (view.size, view.stride) == (buffer.size, buffer.stride) and view.offset == 0


def window(buffer: Buffer) -> tuple[object, ...]:
    """What two buffers agree in if one may hold the other's content; the strides of dimensions of
    size 1 do not matter."""
    strides: list[Index | None] = [
        None if size == 1 else stride
        for size, stride in zip(buffer.size, buffer.stride, strict=True)
    ]
    return buffer.dtype, buffer.device, buffer.size, tuple(strides)
