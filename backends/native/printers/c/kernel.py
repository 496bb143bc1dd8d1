"""A kernel as C: one function, OpenMP over rows, SIMD along the innermost loop.

In: a simplified Kernel. Out: the function's text, and its parameters. The function gets one array
of 64-bit words: addresses, then sizes. Equal kernels give equal text: parameters are numbered in
the order of their use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...fuse.split_loops import split_at_bounds
from ...ir.index import product
from ...ir.program import Buffer, Kernel, scattered_value
from ...ir.scalar import REDUCE
from ..base import Parameters, Plan, Scope, origin_names, second_side
from ..short_loops import join_short_loop
from ..short_rows import unroll_short_rows
from .columns import ColumnsFunction
from .loops import CFunction, block, indent
from .pointwise import PointwiseFunction
from .rows import RowsFunction
from .scatter import ScatterFunction
from .tiles import TiledFunction

WORTH_TILES = 1 << 12  # points: all of less stays in the cache


def print_c(kernel: Kernel, buffers: Mapping[str, Buffer], threads: int) -> tuple[str, Parameters]:
    """The text of a function named NAME, and what it is called with."""
    kernel = unroll_short_rows(kernel)
    whole = function_of(kernel, buffers, threads)
    parts = [
        function_of(unroll_short_rows(part), buffers, threads, whole.parameters)
        for part in split_at_bounds(kernel)
    ]
    return function_text(whole, parts), whole.parameters


def function_of(
    kernel: Kernel, buffers: Mapping[str, Buffer], threads: int, whole: Parameters | None = None
) -> CFunction:
    """The printer of a kernel. whole: the parameters of the kernel of which it is a part."""
    kernel, joint = join_short_loop(kernel)
    plan = Plan(kernel)
    if scattered_value(kernel) is not None:
        return ScatterFunction(plan, buffers, threads, whole)
    if kernel.inner:
        cls = ColumnsFunction if has_neighbouring_rows(plan) else RowsFunction
        return cls(plan, buffers, threads, whole)
    second = None if joint else second_side(plan)
    if second is not None:
        work = product([variable.size for variable in kernel.variables]).value
        if work is None or work >= WORTH_TILES:
            return TiledFunction(plan, second, buffers, threads, whole)
    return PointwiseFunction(plan, joint, buffers, threads, whole)


def has_neighbouring_rows(plan: Plan) -> bool:
    """Whether rows are reduced side by side; places of extremes are not."""
    return plan.is_across_rows() and not any(
        node.op == REDUCE and node.attr.startswith("arg") for node in plan.nodes
    )


def function_text(whole: CFunction, parts: Sequence[CFunction]) -> str:
    """The text of a function: one nest of loops, or one for each of its parts."""
    body = Scope(frozenset())
    for part in parts:
        inside = Scope(frozenset())
        part.nest(inside)
        body.lines += block("{", inside.lines)
    if not parts:
        whole.nest(body)
    empty = [
        f"if (({whole.index(variable.size)}) <= 0) return;"
        for variable in whole.kernel.outer
        if variable.size.value in (None, 0)
    ]
    return "\n".join(
        [
            f"// {', '.join(origin_names(whole.kernel))}",
            "void NAME(const int64_t* words) {",
            *indent([*whole.declarations(), *empty, *body.lines]),
            "}",
        ]
    )
