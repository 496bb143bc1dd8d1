"""Buffer reuse: a kernel stores its result in the memory of an operand that no later step reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from ..ir.index import Hole, product
from ..ir.program import (
    AnyKernel,
    Bound,
    Kernel,
    Pattern,
    Product,
    Program,
    Step,
    Store,
    map_views,
    on_buffers,
    reads,
    scattered_value,
    with_buffers,
    writes,
)
from ..ir.scalar import REDUCE, TRUE, Scalar, loads, topological

aten = torch.ops.aten

# Operators whose results no other tensor shares memory with.
FRESH = frozenset((
    aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default,
    aten._addmm_activation.default, aten.convolution.default, aten._convolution.default,
))  # fmt: skip


def scatter_in_place(program: Program) -> None:
    """Lets each kernel that scatters find the elements so far in the memory of its result. Only it
    reads the buffer in which they were."""
    targets: dict[str, str] = {}
    for step in program.steps:
        if isinstance(step, AnyKernel) and has_scatter(step):
            scattered = scattered_value(with_buffers(step))
            assert scattered is not None
            targets[scattered.args[0].attr.buffer] = writes(step)[0]
    if targets:
        program.steps = [rename_buffers(step, targets) for step in program.steps]


def has_scatter(step: AnyKernel) -> bool:
    kernel = step.pattern.kernel if isinstance(step, Bound) else step
    return scattered_value(kernel) is not None


def reuse_memory(program: Program) -> int:
    """Changes the program; returns the number of buffers that are no longer needed."""
    scatter_in_place(program)
    last = {name: position for position, step in enumerate(program.steps) for name in reads(step)}
    kept = program.kept_buffers()
    inputs = frozenset(program.inputs)
    returned = kept | inputs  # what is kept, by the names of its memory
    free: set[str] = set()  # buffers that a kernel may write, if it is their last reader
    moved: dict[str, str] = {}
    finder = OperandFinder()
    for position, step in enumerate(program.steps):
        program.steps[position] = step = rename_buffers(step, moved)
        # a product reads its operands many times
        if isinstance(step, AnyKernel) and not isinstance(step, Product):
            taken: dict[str, str] = {}
            for result, candidates in finder.operands(step):
                for name in () if result in inputs else candidates:
                    own, other = program.buffers[result], program.buffers[name]
                    if (
                        own.dtype == other.dtype
                        and (result not in kept or product(own.size) == product(other.size))
                        and name in free
                        and last[name] == position
                        and name not in taken.values()
                    ):
                        taken[result] = name
                        break
            for result, name in taken.items():
                last[name] = last.get(result, position)
                if result in kept:
                    free.discard(name)
                    returned.add(name)
            moved |= taken
            program.steps[position] = step = rename_buffers(step, taken)
        if isinstance(step, AnyKernel) or step.function in FRESH:
            free |= set(writes(step)) - returned
    program.outputs = with_other_buffers(program.outputs, moved)
    program.writes = [with_other_buffers(pair, moved) for pair in program.writes]
    return len(moved)


class OperandFinder:
    """Finds operands whose memory may hold a result; cached for equal kernels."""

    def __init__(self) -> None:
        self.known: dict[Pattern, list[tuple[str, list[str]]]] = {}

    def operands(self, kernel: AnyKernel) -> Iterator[tuple[str, Iterable[str]]]:
        """The operands whose memory may hold a result, for each buffer that a kernel stores to."""
        if isinstance(kernel, Kernel):
            yield from ((store.buffer, in_place_operands(kernel, store)) for store in kernel.stores)
            return
        if kernel.pattern not in self.known:
            own = kernel.pattern.kernel
            self.known[kernel.pattern] = [
                (store.buffer, list(in_place_operands(own, store))) for store in own.stores
            ]
        names = dict(zip(kernel.pattern.names, kernel.names, strict=True))
        for result, candidates in self.known[kernel.pattern]:
            yield names[result], map(names.__getitem__, candidates)


def in_place_operands(kernel: Kernel, store: Store) -> Iterator[str]:
    """Buffers of which an element is read just before the result's at the same place is stored, and
    never elsewhere or later."""
    finder = ids_in_iteration(store.value)
    by_buffer: dict[str, list[Scalar]] = {}
    for node in loads(kernel.roots()):
        by_buffer.setdefault(node.attr.buffer, []).append(node)
    later = loads_after(kernel, depth(store.value))
    for name, nodes in by_buffer.items():
        same = all(
            node.attr.index == store.index and node.args[0] is TRUE and id(node) in finder
            for node in nodes
        )
        if (
            same
            and name not in later
            and not any(isinstance(item, Hole) for item in store.index.atoms())
            and name not in writes(kernel)
        ):
            yield name


def loads_after(kernel: Kernel, walk: int) -> set[str]:
    """The buffers of which elements are read in a later walk along the rows than this one. A walk's
    number says how many reductions, one after the other, have ended before it; a reduction
    is computed in the walk in which its operand is known, an element is stored in the one in
    which its value is."""
    reduced = [node.args[0] for node in topological(kernel.roots()) if node.op == REDUCE]
    later = [value for value in (*reduced, *kernel.roots()) if depth(value) > walk]
    found: set[str] = set()
    for value in later:
        inside = ids_in_iteration(value)
        found |= {node.attr.buffer for node in loads([value]) if id(node) in inside}
    return found


def ids_in_iteration(value: Scalar) -> set[int]:
    """ids of the values from which a value is computed in the same loop iteration."""
    found: set[int] = set()
    todo = [value]
    while todo:
        node = todo.pop()
        if id(node) not in found:
            found.add(id(node))
            todo += () if node.op == REDUCE else node.args
    return found


def depth(value: Scalar) -> int:
    """How many reductions, one after the other, must have ended before a value is known."""
    known: dict[int, int] = {}
    todo = [value]
    while todo:
        node = todo[-1]
        missing = [arg for arg in node.args if id(arg) not in known]
        todo += missing
        if not missing:
            todo.pop()
            known[id(node)] = max((known[id(arg)] for arg in node.args), default=0) + (
                node.op == REDUCE
            )
    return known[id(value)]


def rename_buffers(step: Step, names: Mapping[str, str]) -> Step:
    """A step on other buffers."""
    if isinstance(step, Bound):
        return Bound(step.pattern, tuple(names.get(name, name) for name in step.names))
    if isinstance(step, Kernel):
        used = reads(step).union(writes(step))
        if used & names.keys():
            return on_buffers(step, {name: names.get(name, name) for name in used})
        return step
    return replace(
        step,
        args=with_other_buffers(step.args, names),
        kwargs=with_other_buffers(dict(step.kwargs), names),
    )


def with_other_buffers(tree: Any, names: Mapping[str, str]) -> Any:
    """Arguments with the views on other buffers."""
    return map_views(tree, lambda view: view.on(names.get(view.buffer, view.buffer)))
