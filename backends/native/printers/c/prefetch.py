"""Prefetching: loads the memory that one of the next iterations reads or writes at a computed
position. The processor cannot predict such an address, so the loop would wait for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...ir.index import Var, atom, product
from ...ir.scalar import LOAD, Access, Scalar, substitute, topological
from ..base import Plan, Scope, subscripts_of
from .loops import CFunction, block

LINE = 64  # bytes that come into the cache together
AHEAD = 4  # iterations from asking for memory to its use


def fetch_ahead(
    function: CFunction, home: Scope, variables: Sequence[Var], node: Scalar, condition: str
) -> list[str]:
    """The lines for a kernel that scatters `node` inside of loops over these variables. home: the
    block in which the row of the scatter is known, which has to fulfil the condition."""
    plan, (old, _, row, _) = function.plan, node.args
    inside = [variable for variable in variables if variable not in home.variables]
    stepped = [variable for variable in variables if variable in plan.depends[id(row)]]
    if not inside or not stepped or not is_worth_fetching(inside, node.dtype):
        return []
    variable = stepped[-1]
    later = Var(f"{variable.name}_later", variable.size)
    places = [
        (one.attr, subscripts_of(one))
        for one in (old, *(one for one in plan.nodes if one is not old))
        if is_neighbourhood(plan, one, home, inside[-1])
        and any(variable in plan.depends[id(hole)] for hole in subscripts_of(one))
    ]
    if not places:
        return []
    every = substitute(
        [row, *(value for _, holes in places for value in holes)], {variable: atom(later)}
    )
    plan.add(one for one in topological(every) if id(one) not in plan.depends)
    position = Scope(home.variables | {later}, home)
    row_later, *holes_later = every
    test = condition.format(function.value(row_later, position))
    before = len(position.lines)
    fetching = Scope(position.variables | set(inside), position)
    for access, holes in places:
        names = [function.value(holes_later.pop(0), position) for _ in holes]
        place = function.index(access.index.substitute({variable: atom(later)}), names)
        fetching.lines.append(fetch(function, access, place, access is old.attr))
    lines = fetching.lines
    for one in reversed(inside):
        step = LINE // node.dtype.itemsize if one is inside[-1] else 1
        lines = block(function.loop(one, step), lines)
    last = f"{function.index(variable.size)} - 1"
    return [
        f"const int64_t {later.name} = least({variable.name} + {AHEAD}, {last});",
        *position.lines[:before],
        *block(f"if ({test}) {{", [*position.lines[before:], *lines]),
    ]


def fetch(function: CFunction, access: Access, place: str, written: bool) -> str:
    (store,) = function.kernel.stores
    pointer = function.targets[store.buffer] if written else function.pointers[access.buffer]
    return f"__builtin_prefetch(&{pointer}[{place}], {int(written)});"


def is_neighbourhood(plan: Plan, node: Scalar, home: Scope, along: Var) -> bool:
    """Whether a load reads neighbouring elements along a loop, at a place that is computed
    outside of it."""
    return (
        node.op == LOAD
        and bool(subscripts_of(node))
        and node.attr.index.coefficient(along) == 1
        and all(plan.depends[id(hole)] <= home.variables for hole in subscripts_of(node))
    )


def is_worth_fetching(along: Sequence[Var], dtype: torch.dtype) -> bool:
    """Whether what is side by side at a computed place is some lines of the cache, but far from all
    of it."""
    count = product([variable.size for variable in along]).value
    return count is not None and 4 * LINE <= count * dtype.itemsize <= 64 * LINE
