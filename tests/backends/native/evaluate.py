"""The reference interpreter of the loop IR: runs a kernel on whole index grids with torch's
operators. Printers are tested against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from framejit.backends.native.ir.index import (
    ClaimedBounds,
    Division,
    Hole,
    Index,
    Quotient,
    Sym,
    Var,
)
from framejit.backends.native.ir.program import Kernel, Store, scattered_value
from framejit.backends.native.ir.scalar import (
    CAST,
    CONST,
    INDEX,
    LOAD,
    REDUCE,
    SCATTER,
    Scalar,
    topological,
)
from framejit.backends.native.ir.scalar_ops import SCALAR_OPS, SCATTERS

COLUMNS = "columns"  # the axis of a grid along a row
POINTS = "points"  # zeros for all points of the outer loops

# How the values of a row become one number: functions of a tensor of shape (rows, row length).
REDUCED: dict[str, Callable[[Any], torch.Tensor]] = {
    "sum": lambda value: value.sum(1, keepdim=True, dtype=value.dtype),
    "prod": lambda value: value.prod(1, keepdim=True, dtype=value.dtype),
    "max": lambda value: value.amax(1, keepdim=True),
    "min": lambda value: value.amin(1, keepdim=True),
    "any": lambda value: value.any(1, keepdim=True),
    "argmax": lambda value: value.max(1, keepdim=True).indices,
    "argmin": lambda value: value.min(1, keepdim=True).indices,
}


def evaluate(
    kernel: Kernel, memory: Mapping[str, torch.Tensor], sizes: Mapping[str, int] | None = None
) -> None:
    """Runs a kernel on flat buffers (1-d tensors by name), which it writes. sizes: values of
    symbols."""
    grid = _grid(kernel, sizes or {})
    values: dict[int, torch.Tensor] = {}
    for node in topological(kernel.roots()):
        values[id(node)] = _scalar(node, values, memory, grid)
    if scattered_value(kernel) is not None:
        _scatter(kernel.stores[0], values, memory, grid)
        return
    for store in kernel.stores:
        place, value = torch.broadcast_tensors(
            _index(store.index, grid, []), values[id(store.value)]
        )
        memory[store.buffer][place.reshape(-1)] = value.reshape(-1).to(memory[store.buffer].dtype)


def _scatter(
    store: Store,
    values: Mapping[int, torch.Tensor],
    memory: Mapping[str, torch.Tensor],
    grid: Mapping[object, torch.Tensor],
) -> None:
    """One point after the other, onto the memory that holds the elements so far."""
    old, value, _, _ = store.value.args
    mask, *holes = (values[id(arg)] for arg in old.args)
    if old.attr.checked:
        mask = mask & holes.pop()
    every = torch.broadcast_tensors(
        mask, _index(store.index, grid, holes), values[id(value)], grid[POINTS]
    )
    target, combine = memory[store.buffer], SCATTERS[store.value.attr]
    if old.attr.buffer != store.buffer:
        target.copy_(memory[old.attr.buffer])
    for use, place, new, _ in zip(*(one.reshape(-1) for one in every), strict=True):
        if use:
            target[place] = (
                new if combine is None else SCALAR_OPS[combine].meaning(target[place], new)
            )


def _grid(kernel: Kernel, sizes: Mapping[str, int]) -> dict[object, torch.Tensor]:
    """Each variable's values at all points: shape (rows, row length), one of the two being 1."""
    grid: dict[object, torch.Tensor] = {
        Sym(name): torch.tensor([[value]]) for name, value in sizes.items()
    }
    for variables, column in ((kernel.outer, False), (kernel.inner, True)):
        extents = [int(_index(variable.size, grid, []).item()) for variable in variables]
        axes = (
            torch.meshgrid(*(torch.arange(extent) for extent in extents), indexing="ij")
            if extents
            else ()
        )
        for variable, axis in zip(variables, axes, strict=True):
            grid[variable] = axis.reshape(1, -1) if column else axis.reshape(-1, 1)
    grid[COLUMNS] = _index(kernel.columns, grid, [])
    grid[POINTS] = torch.zeros(int(_index(kernel.rows, grid, []).item()), 1)
    return grid


def _index(
    expression: Index, grid: Mapping[object, torch.Tensor], holes: list[torch.Tensor]
) -> torch.Tensor:
    total = torch.zeros(1, 1, dtype=torch.int64)
    for monomial, coefficient in expression.terms.items():
        product = torch.full((1, 1), coefficient)
        for item in monomial:
            product = product * _atom(item, grid, holes)
        total = total + product
    return total


def _atom(
    item: object, grid: Mapping[object, torch.Tensor], holes: list[torch.Tensor]
) -> torch.Tensor:
    if isinstance(item, Hole):
        return holes[item.number]
    if isinstance(item, Division):
        numerator, divisor = _index(item.numerator, grid, holes), _index(item.divisor, grid, holes)
        return numerator // divisor if isinstance(item, Quotient) else numerator % divisor
    if isinstance(item, ClaimedBounds):
        return _index(item.expression, grid, holes)
    assert isinstance(item, (Var, Sym))
    return grid[item]


def _scalar(
    node: Scalar,
    values: Mapping[int, torch.Tensor],
    memory: Mapping[str, torch.Tensor],
    grid: Mapping[object, torch.Tensor],
) -> torch.Tensor:
    args = [values[id(arg)] for arg in node.args]
    if node.op == CONST:
        return torch.tensor([[node.attr]], dtype=node.dtype)
    if node.op == INDEX:
        return _index(node.attr, grid, [])
    if node.op == CAST:
        return args[0].to(node.dtype)
    if node.op == LOAD:
        mask, *holes = args
        if node.attr.checked:
            mask = mask & holes.pop()
        place = _index(node.attr.index, grid, holes)
        mask, place = torch.broadcast_tensors(mask, place)
        found = (
            memory[node.attr.buffer][torch.where(mask, place, 0)]
            if mask.any()
            else torch.zeros(mask.shape, dtype=node.dtype)
        )
        return torch.where(mask, found, torch.zeros((), dtype=node.dtype))
    if node.op == REDUCE:
        return REDUCED[node.attr](args[0].expand(args[0].shape[0], int(grid[COLUMNS].item())))
    if node.op == SCATTER:
        return args[1]
    return SCALAR_OPS[node.op].meaning(*args)
