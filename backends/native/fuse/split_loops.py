"""Splits a loop that compares its position with constants to choose an operand, as that of a
concatenation: one loop for each operand, without comparisons."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.index import Var, atom, index
from ..ir.program import Kernel, scattered_value
from ..ir.scalar import CONST, INDEX, Scalar, topological
from ..ir.scalar_ops import SCALAR_OPS
from .simplify import rename_variables, simplify

# the first number for which the result differs from that of smaller ones, counted from the constant
STEPS = {"lt": 0, "ge": 0, "le": 1, "gt": 1}
MOST_PARTS = 8
EXPENSIVE = 10  # least cost of an operand that is worth a loop of its own
LONG = 64  # points of a loop whose vector instructions are worth one more loop


def split_at_bounds(kernel: Kernel) -> list[Kernel]:
    """The parts of a kernel that compares a loop variable with constants; none where one loop is as
    fast."""
    found = bounds_of_parts(kernel)
    if found is None:
        return []
    variable, bounds = found
    ends = [0, *sorted(bounds), variable.size.value or 0]
    parts = list(zip(ends[:-1], ends[1:], strict=True))
    if not is_expensive(kernel) and max(end - first for first, end in parts) < LONG:
        return []
    return [part_of(kernel, variable, first, end) for first, end in parts]


def loop_to_split(kernel: Kernel) -> tuple[Var, set[int]] | None:
    """The loop that has parts, and where all but the first one begin; None where they compute
    little."""
    return bounds_of_parts(kernel) if is_expensive(kernel) else None


def is_expensive(kernel: Kernel) -> bool:
    nodes = topological(kernel.roots())
    cost = sum(SCALAR_OPS[node.op].cost for node in nodes if node.op in SCALAR_OPS)
    return cost >= EXPENSIVE


def bounds_of_parts(kernel: Kernel) -> tuple[Var, set[int]] | None:
    """The loop with the most parts, and where all but the first one begin; None where no loop has
    parts."""
    if kernel.inner or scattered_value(kernel) is not None:
        return None
    nodes = topological(kernel.roots())
    found: dict[Var, set[int]] = {}
    for node in nodes:
        for variable, bound in compared_bound(node):
            found.setdefault(variable, set()).add(bound)
    every = [item for item in found.items() if len(item[1]) < MOST_PARTS]
    return max(every, key=lambda item: len(item[1]), default=None)


def compared_bound(node: Scalar) -> Iterator[tuple[Var, int]]:
    """The loop variable that a node compares with a constant, and at which of its values the result
    changes."""
    if node.op not in STEPS or node.args[0].op != INDEX or node.args[1].op not in (INDEX, CONST):
        return
    place, bound = node.args[0].attr, index(node.args[1].attr).value
    if len(place.variables()) != 1 or bound is None:
        return
    (variable,) = place.variables()
    rest = (place - atom(variable)).value
    if rest is None or variable.size.value is None:
        return
    change = bound - rest + STEPS[node.op]
    if 0 < change < variable.size.value:
        yield variable, change


def part_of(kernel: Kernel, variable: Var, first: int, end: int) -> Kernel:
    """The kernel for first <= variable < end."""
    part = Var(variable.name, index(end - first))
    outer = [part if other == variable else other for other in kernel.outer]
    return simplify(rename_variables(kernel, {variable: atom(part) + first}, outer, ()))
