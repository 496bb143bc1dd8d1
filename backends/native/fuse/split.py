"""Split reductions: a kernel that reduces few long rows becomes one that reduces chunks of each row
in parallel and one that reduces the chunks' results, so that no processor is idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from ..ir.index import Atom, Index, Var, atom, index, linear, unravel_index
from ..ir.ir import (
    CONST,
    INDEX,
    LOAD,
    REDUCE,
    Bound,
    Buffer,
    Call,
    Kernel,
    Pattern,
    Program,
    Scalar,
    Step,
    Store,
    load,
    loads,
    reduce,
    rewrite,
    substitute,
    topological,
    whole,
    writes,
)
from .simplify import simplify

SHORTEST = {"cpu": 1 << 17, "cuda": 1 << 12}  # elements of a row that is worth a second kernel
LONGER_ACROSS = 4  # times that, for sums over columns on a GPU: one kernel is fast there
PIECE = 256  # elements at least


def split_long_rows(program: Program, processors: Mapping[str, int]) -> Program:
    """processors: by type of device, how many rows it works on at once."""
    steps: list[Step] = []
    short: dict[tuple[Pattern, torch.device], bool] = {}
    for step in program.steps:
        if isinstance(step, Call):
            steps.append(step)
            continue
        device = program.buffers[writes(step)[0]].device
        if isinstance(step, Bound):
            key = step.pattern, device
            if key not in short:
                short[key] = pieces_of(step.pattern.kernel, device, processors) == 1
            if short[key]:
                steps.append(step)
                continue
        steps += in_pieces(program, whole(step), processors)
    program.steps = steps
    return program


def pieces_of(kernel: Kernel, device: torch.device, processors: Mapping[str, int]) -> int:
    """As choose_pieces, for a device."""
    shortest = SHORTEST[device.type] * (
        LONGER_ACROSS if device.type == "cuda" and across(kernel) else 1
    )
    return choose_pieces(kernel, processors[device.type], shortest)


def choose_pieces(kernel: Kernel, processors: int, shortest: int) -> int:
    """Into how many pieces of equal length rows should fall: 1 where there are rows enough, or
    where a row is needed whole."""
    rows, columns = kernel.rows.value, kernel.columns.value
    if (
        not kernel.inner
        or rows is None
        or columns is None
        or rows < 1
        or columns < shortest
        or not plain(kernel)
    ):
        return 1
    if across(kernel):
        rows = -(-rows // 32)  # neighbouring rows are worked on together
    most = min(columns // PIECE, -(-processors // rows))
    return next((pieces for pieces in range(most, 1, -1) if columns % pieces == 0), 1)


def plain(kernel: Kernel) -> bool:
    """Whether all a kernel does along its rows is to reduce them, once, and by what may be done in
    any order."""
    nodes = topological(kernel.roots())
    reductions = [node for node in nodes if node.op == REDUCE]
    inside = {id(node) for reduction in reductions for node in topological(reduction.args)}
    if any(id(node) in inside or node.attr.startswith("arg") for node in reductions):
        return False
    inner = set(kernel.inner)
    outside = rewrite(
        kernel.roots(), lambda node: Scalar(CONST, (), node.dtype, 0) if node.op == REDUCE else node
    )
    used = {variable for node in topological(outside) for variable in own_variables(node)}
    return not used & inner and not any(store.index.variables() & inner for store in kernel.stores)


def own_variables(node: Scalar) -> frozenset[Var]:
    place = node.attr.index if node.op == LOAD else node.attr if node.op == INDEX else index(0)
    return frozenset(place.variables())


def across(kernel: Kernel) -> bool:
    """Whether neighbours in memory are in neighbouring rows."""
    last = kernel.outer[-1:]
    return any(
        node.attr.index.coefficient(variable) == 1
        for node in loads(kernel.roots())
        for variable in last
    )


def in_pieces(program: Program, kernel: Kernel, processors: Mapping[str, int]) -> list[Kernel]:
    """The two kernels, with a buffer between them for each reduction; the kernel itself where that
    is better."""
    device = program.buffers[kernel.stores[0].buffer].device
    pieces = pieces_of(kernel, device, processors)
    if pieces == 1:
        return [kernel]
    piece, following = (
        _fresh(kernel, "piece", index(pieces)),
        _fresh(kernel, "following", index(pieces)),
    )
    place = _fresh(kernel, "place", kernel.columns // pieces)
    mapping = _places(kernel.inner, atom(piece) * place.size + atom(place))
    row = linear(kernel.outer)
    nodes = [node for node in topological(kernel.roots()) if node.op == REDUCE]
    stores: list[Store] = []
    results: dict[int, Scalar] = {}
    for node, value in zip(
        nodes, substitute([node.args[0] for node in nodes], mapping), strict=True
    ):
        name = program.unused_name(f"{kernel.stores[0].buffer}_pieces")
        buffer = Buffer(
            name, (index(pieces), kernel.rows), (kernel.rows, index(1)), node.dtype, device
        )
        program.buffers[buffer.name] = buffer
        stores.append(Store(buffer.name, atom(piece) * kernel.rows + row, reduce(node.attr, value)))
        results[id(node)] = reduce(
            node.attr, load(buffer.name, atom(following) * kernel.rows + row, node.dtype)
        )
    first = Kernel((piece, *kernel.outer), (place,), tuple(stores), (*kernel.origins, "in pieces"))
    roots = rewrite(kernel.roots(), lambda node: results.get(id(node), node))
    ended = (
        Store(store.buffer, store.index, value)
        for store, value in zip(kernel.stores, roots, strict=True)
    )
    second = replace(
        kernel, inner=(following,), stores=tuple(ended), origins=(*kernel.origins, "of pieces")
    )
    return [simplify(first), simplify(second)]


def _places(inner: Sequence[Var], number: Index) -> dict[Atom, Index]:
    return {inner[0]: number} if len(inner) == 1 else unravel_index(inner, number)


def _fresh(kernel: Kernel, name: str, size: Index) -> Var:
    names = {variable.name for variable in kernel.variables}
    while name in names:
        name += "_"
    return Var(name, size)
