"""Direct writes: a step stores the new content of a written input into the input itself.

A lowered graph computes new contents in buffers of its own, which are copied at its end. The copy,
and the buffer, can be left out where nothing reads the old content afterwards, or only at the place
that is written. torch's operators that scatter, such as index_copy, are called in their in-place
form. If the step, or one after it, raised, eager would have to find the old content: so a step
that may raise is never changed, and no such step comes after a changed one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ...graph.runtime_errors import INTEGERS, raises_for_integers, raises_for_values
from ..ir.index import Index
from ..ir.program import (
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

# Operators that write some elements of their first argument.
SCATTERS = frozenset((
    "index_copy", "index_put", "index_add", "index_fill", "index_reduce", "scatter", "scatter_add",
    "scatter_reduce",
))  # fmt: skip

# Operators whose results share no memory with their arguments, and words in the names of others.
MAKES_MEMORY = SCATTERS | {"embedding", "embedding_dense_backward"}
WORDS = ("attention", "convolution", "norm")


def store_into_inputs(program: Program) -> None:
    """Changes the program: removes the copies to inputs that a kernel can store to."""
    if not program.writes:
        return
    uses = Uses(program)
    finder = OperandFinder()
    moved: dict[str, str] = {}
    left = []
    for target, source in program.writes:
        position = uses.maker(target, source)
        if position is None or not uses.may_move(target.buffer, source.buffer, position, finder):
            left.append((target, source))
            continue
        moved[source.buffer] = target.buffer
        step = program.steps[position]
        if isinstance(step, Call):
            program.steps[position] = replace(
                step, function=in_place_form(step), results=(None,), effect=True
            )
    if moved:
        program.steps = [rename_buffers(step, moved) for step in program.steps]
        program.outputs = with_other_buffers(program.outputs, moved)
        program.writes = [with_other_buffers(pair, moved) for pair in left]


class Uses:
    """Where a program's buffers are written and read. `makers`: by buffer, the positions of the
    steps that write it. `last`: by buffer, the position of the last step that may read it, also
    through what a call returned. `shared`: buffers that results and copies to inputs may share
    memory with. `safe_from`: after this position no step may raise (on the CPU, one that scatters
    by integers may)."""

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
                if isinstance(step, Call) and not makes_memory(step):
                    behind[name] = read
            if may_raise(step):
                self.safe_from = position
        ends = {view.buffer for view in views_in(program.outputs)}
        self.shared = ends.union(*(behind.get(name, ()) for name in ends))
        self.copied = [source.buffer for _, source in program.writes]
        self.shared |= {other for name in self.copied for other in behind.get(name, ())}

    def maker(self, target: View, source: View) -> int | None:
        """The position of the only step that makes what is copied to an input, if the input can
        hold it and nothing else needs it in a buffer of its own."""
        own, other = (self.program.buffers[view.buffer] for view in (source, target))
        made = self.makers.get(own.name, ())
        if (
            not (is_whole(source, own) and is_whole(target, other))
            or layout_of_buffer(own) != layout_of_buffer(other)
            or own.name in self.shared
            or other.name in self.copied
            or self.copied.count(own.name) > 1
            or len(made) != 1
        ):
            return None
        return made[0]

    def may_move(self, target: str, source: str, position: int, finder: OperandFinder) -> bool:
        """Whether the step at this position may store its result `source` to the input `target`."""
        step = self.program.steps[position]
        last = self.last.get(target, -1)
        if position <= self.safe_from or last > position:
            return False
        if isinstance(step, Call):
            given = [view.buffer for view in step.views()]
            return in_place_form(step) is not None and given[0] == target not in given[1:]
        if isinstance(with_buffers(step), Product) or has_scatter(step):
            return False
        return last < position or any(
            target in candidates for result, candidates in finder.operands(step) if result == source
        )


def in_place_form(call: Call) -> Any:
    """The operator that does in place what a call does; None where there is none that only writes
    some elements."""
    function = call.function
    if not isinstance(function, torch._ops.OpOverload) or function.namespace != "aten":
        return None
    name = function._schema.name.removeprefix("aten::")
    form = getattr(torch.ops.aten, f"{name}_") if name in SCATTERS else None
    return getattr(form, function._overloadname, None)


def makes_memory(call: Call) -> bool:
    """Whether results of a call are known to share no memory with its arguments."""
    function = call.function
    if function in FRESH or not isinstance(function, torch._ops.OpOverload):
        return function in FRESH
    name = function._schema.name.removeprefix("aten::")
    return name in MAKES_MEMORY or any(word in name for word in WORDS)


def may_raise(step: Step) -> bool:
    """Whether a step may raise for some values, or for integers that it reads on the CPU."""
    if not isinstance(step, Call):
        return False
    function = step.function
    if not isinstance(function, torch._ops.OpOverload) or function.namespace != "aten":
        return True
    name = function._schema.name
    return raises_for_values(name) or (
        raises_for_integers(name) and any(map(holds_positions, step.views()))
    )


def holds_positions(view: View) -> bool:
    return view.device.type == "cpu" and view.dtype in INTEGERS


def is_whole(view: View, buffer: Buffer) -> bool:
    return (view.size, view.stride) == (buffer.size, buffer.stride) and view.offset == 0


def layout_of_buffer(buffer: Buffer) -> tuple[object, ...]:
    """The properties that two buffers share if one may hold the other's content; the strides of
    dimensions of size 1 do not matter."""
    strides: list[Index | None] = [
        None if size == 1 else stride
        for size, stride in zip(buffer.size, buffer.stride, strict=True)
    ]
    return buffer.dtype, buffer.device, buffer.size, tuple(strides)
