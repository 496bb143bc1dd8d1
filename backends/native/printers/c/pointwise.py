"""Kernels without reductions: the last loop has SIMD, and may end in a vector that overlaps the one
before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.index import Var
from ...ir.program import Buffer
from ..base import Parameters, Plan, Scope
from ..short_loops import JointLoop
from .loops import SIMD, CFunction, block, indent
from .scalars import VECTOR, VECTOR_PAIRS

LANES = 8  # numbers of a vector, at least
MOST_OVERLAPPED = 128  # numbers of a loop that may end in a vector overlapping the one before


class PointwiseFunction(CFunction):
    """`joint`: the loop over two variables that are one, if there is one."""

    def __init__(
        self,
        plan: Plan,
        joint: JointLoop | None,
        buffers: Mapping[str, Buffer],
        threads: int,
        whole: Parameters | None,
    ) -> None:
        super().__init__(plan, buffers, threads, whole)
        self.joint = joint

    def outer_loops(self) -> Sequence[Var]:
        """The outer loops without the last one; a single one where it is divided among threads."""
        outer = self.kernel.outer
        return outer[:-1] if len(outer) > 1 else self.shared_loops(outer)

    def body(self, scope: Scope) -> None:
        last = self.kernel.outer[-1] if self.kernel.outer else None
        if last is None or last in scope.variables:
            self.declare_joined(scope)
            self.stores(scope, 0)
        else:
            self.innermost(scope, last)

    def innermost(self, scope: Scope, variable: Var) -> None:
        """The last loop."""
        inside = Scope(scope.variables | {variable}, scope)
        self.declare_joined(inside)
        self.stores(inside, 0)
        if self.ends_in_full_vector(variable):
            scope.lines += self.full_vectors(variable, inside.lines)
        else:
            scope.lines += [SIMD, self.loop(variable), *indent(inside.lines), "}"]

    def ends_in_full_vector(self, variable: Var) -> bool:
        """Whether the elements that are left after the last whole vector are computed by a vector
        that overlaps it: one by one, functions would take longer for them than for all others."""
        size = variable.size.value
        parameters = self.parameters
        return (
            self.joint is None
            and size is not None
            and LANES < size < MOST_OVERLAPPED
            and size % LANES != 0
            and set(parameters.loaded).isdisjoint(parameters.stored)  # nothing is computed anew
            and any(
                node.op in VECTOR + VECTOR_PAIRS and variable in self.plan.depends[id(node)]
                for node in self.plan.nodes
            )
        )

    def full_vectors(self, variable: Var, lines: Sequence[str]) -> list[str]:
        """A loop in steps of a vector, the last of which starts early."""
        name, size = variable.name, variable.size.value or 0
        lane = f"const int64_t {name} = {name}_from + lane;"
        vector = block(f"for (int64_t lane = 0; lane < {LANES}; lane++) {{", [lane, *lines])
        start = f"const int64_t {name}_from = least({name}_next, {size - LANES});"
        header = f"for (int64_t {name}_next = 0; {name}_next < {size}; {name}_next += {LANES}) {{"
        return block(header, [start, SIMD, *vector])

    def declare_joined(self, scope: Scope) -> None:
        """The variables of two loops that are one."""
        if self.joint is not None:
            scope.lines += self.joint.declarations()
            scope.variables |= {self.joint.outer, self.joint.inner}
