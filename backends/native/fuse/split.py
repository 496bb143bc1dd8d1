"""Split reductions: a reduction of a few long rows becomes two kernels, one that reduces chunks of
each row in parallel and one that combines the chunks' results, so that all processors have work.
What the kernel stores of each element, as a gradient next to the sum for a bias, the first one
stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from ..ir.index import Atom, Index, Var, atom, index, linear, unravel_index
from ..ir.program import (
    Bound,
    Buffer,
    Call,
    Kernel,
    Pattern,
    Program,
    Step,
    Store,
    with_buffers,
    writes,
)
from ..ir.scalar import (
    CONST,
    INDEX,
    LOAD,
    REDUCE,
    Scalar,
    load,
    reduce,
    rewrite,
    substitute,
    topological,
)
from .places import BESIDE, LONG_COLUMN, has_rows_side_by_side
from .simplify import simplify

MIN_ROW = {"cpu": 1 << 17, "cuda": 1 << 12}  # elements of a row, from which on a second kernel pays
MIN_CHUNK = 256  # elements of a chunk, at least
PROGRAMS = 4  # for sums over columns on a GPU: how many programs each processor should get
# The columns that one program adds up side by side, their programs, and the elements of a chunk,
# for programs that also store every element.
STORING_BESIDE, STORING_PROGRAMS, STORING_MIN_CHUNK = 64, 24, 64


def split_long_rows(program: Program, processors: Mapping[str, int]) -> Program:
    """Splits the kernels of a program that have few long rows. processors: by type of device, how
    many rows it works on at once."""
    steps: list[Step] = []
    unsplit: dict[tuple[Pattern, torch.device], bool] = {}
    for step in program.steps:
        if isinstance(step, Call):
            steps.append(step)
            continue
        device = program.buffers[writes(step)[0]].device
        if isinstance(step, Bound):
            key = step.pattern, device
            if key not in unsplit:
                unsplit[key] = chunk_count_on(step.pattern.kernel, device, processors) == 1
            if unsplit[key]:
                steps.append(step)
                continue
        steps += split_kernel(program, with_buffers(step), processors)
    program.steps = steps
    return program


def chunk_count_on(kernel: Kernel, device: torch.device, processors: Mapping[str, int]) -> int:
    """The same as chunk_count, for a device."""
    rows, columns, shortest = kernel.rows.value, kernel.columns.value, MIN_ROW[device.type]
    if not kernel.inner or not rows or columns is None:
        return 1
    count, least = processors[device.type], MIN_CHUNK
    if has_rows_side_by_side(kernel):  # neighbouring rows are processed together
        if device.type == "cuda":
            storing = bool(stores_of_elements(kernel))
            rows = -(-rows // (STORING_BESIDE if storing else BESIDE))
            count *= STORING_PROGRAMS if storing else PROGRAMS
            least = STORING_MIN_CHUNK if storing else MIN_CHUNK
            shortest = LONG_COLUMN
        else:  # by one thread
            beside = kernel.outer[-1].size.value or 1
            rows, shortest = rows // beside, -(-shortest // beside)
    if columns < shortest or not reduces_rows_once(kernel):
        return 1
    return chunk_count(rows, columns, count, least)


def chunk_count(rows: int, columns: int, processors: int, least: int) -> int:
    """The number of equal chunks of at least `least` elements to split each row into; 1 where there
    are enough rows."""
    most = min(columns // least, -(-processors // rows))
    return next((chunks for chunks in range(most, 1, -1) if columns % chunks == 0), 1)


def reduces_rows_once(kernel: Kernel) -> bool:
    """Whether the kernel reduces its rows in one pass, by operations that may be done in any order,
    and what it stores of each element needs none of the results."""
    nodes = topological(kernel.roots())
    reductions = [node for node in nodes if node.op == REDUCE]
    inside = {id(node) for reduction in reductions for node in topological(reduction.args)}
    if any(id(node) in inside or node.attr.startswith("arg") for node in reductions):
        return False
    elements = stores_of_elements(kernel)
    if any(node.op == REDUCE for node in topological(store.value for store in elements)):
        return False
    outside = rewrite(
        [store.value for store in kernel.stores if store not in elements],
        lambda node: Scalar(CONST, (), node.dtype, 0) if node.op == REDUCE else node,
    )
    used = {variable for node in topological(outside) for variable in variables_of(node)}
    return bool(outside) and not used & set(kernel.inner)


def stores_of_elements(kernel: Kernel) -> list[Store]:
    """The stores along rows; the others store one number of a row."""
    return [store for store in kernel.stores if store.index.variables() & set(kernel.inner)]


def variables_of(node: Scalar) -> frozenset[Var]:
    element = node.attr.index if node.op == LOAD else node.attr if node.op == INDEX else index(0)
    return frozenset(element.variables())


def split_kernel(program: Program, kernel: Kernel, processors: Mapping[str, int]) -> list[Kernel]:
    """The two kernels, with a buffer between them for each reduction; the kernel itself where
    splitting does not pay."""
    device = program.buffers[kernel.stores[0].buffer].device
    chunks = chunk_count_on(kernel, device, processors)
    if chunks == 1:
        return [kernel]
    reductions = [node for node in topological(kernel.roots()) if node.op == REDUCE]
    buffers = []
    for node in reductions:
        name = program.unused_name(f"{kernel.stores[0].buffer}_chunks")
        program.buffers[name] = Buffer(
            name, (index(chunks), kernel.rows), (kernel.rows, index(1)), node.dtype, device
        )
        buffers.append(name)
    first = kernel_of_chunks(kernel, chunks, reductions, buffers)
    second = kernel_of_results(kernel, chunks, reductions, buffers)
    return [simplify(first), simplify(second)]


def kernel_of_chunks(
    kernel: Kernel, chunks: int, reductions: Sequence[Scalar], buffers: Sequence[str]
) -> Kernel:
    """Reduces chunks of each row into buffers, and stores what the kernel stores of each
    element."""
    elements = stores_of_elements(kernel)
    chunk = _fresh(kernel, "chunk", index(chunks))
    element = _fresh(kernel, "element", kernel.columns // chunks)
    mapping = _inner_loops_at(kernel.inner, atom(chunk) * element.size + atom(element))
    place = atom(chunk) * kernel.rows + linear(kernel.outer)
    stored = substitute([store.value for store in elements], mapping)
    reduced = substitute([node.args[0] for node in reductions], mapping)
    stores = [
        *(
            Store(store.buffer, store.index.substitute(mapping), value)
            for store, value in zip(elements, stored, strict=True)
        ),
        *(
            Store(name, place, reduce(node.attr, value))
            for name, node, value in zip(buffers, reductions, reduced, strict=True)
        ),
    ]
    return Kernel((chunk, *kernel.outer), (element,), tuple(stores), (*kernel.origins, "in chunks"))


def kernel_of_results(
    kernel: Kernel, chunks: int, reductions: Sequence[Scalar], buffers: Sequence[str]
) -> Kernel:
    """Reduces the chunks' results, and stores what the kernel stores of each row."""
    partial = _fresh(kernel, "partial", index(chunks))
    place = atom(partial) * kernel.rows + linear(kernel.outer)
    results = {
        id(node): reduce(node.attr, load(name, place, node.dtype))
        for name, node in zip(buffers, reductions, strict=True)
    }
    roots = rewrite(kernel.roots(), lambda node: results.get(id(node), node))
    elements = stores_of_elements(kernel)
    stores = (
        Store(store.buffer, store.index, value)
        for store, value in zip(kernel.stores, roots, strict=True)
        if store not in elements
    )
    return replace(
        kernel, inner=(partial,), stores=tuple(stores), origins=(*kernel.origins, "of chunks")
    )


def _inner_loops_at(inner: Sequence[Var], number: Index) -> dict[Atom, Index]:
    return {inner[0]: number} if len(inner) == 1 else unravel_index(inner, number)


def _fresh(kernel: Kernel, name: str, size: Index) -> Var:
    names = {variable.name for variable in kernel.variables}
    while name in names:
        name += "_"
    return Var(name, size)
