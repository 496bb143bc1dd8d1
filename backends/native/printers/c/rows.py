"""Reductions along rows, one row after the other; the last loop uses SIMD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.index import Var, linear
from ...ir.program import Buffer
from ...ir.scalar import Scalar, topological
from ...ir.scalar_ops import SCALAR_OPS
from ..base import Parameters, Plan, Scope
from .loops import SIMD, CFunction, indent
from .scalars import TYPES, extreme, gathered_as

LONGEST_KEPT = 4096  # elements of a row of which a value is kept
EXPENSIVE = 10  # cost from which on a value is rather kept
LONG_SUM = 1 << 10  # longer sums of float are the sums, in double, of parts of so many elements


class RowsFunction(CFunction):
    """`kept`: by id of a value, the array in which a row's are kept; `stored`: ids of those that
    are there already. `parts`: by name of a part of a long sum, that of the sum."""

    def __init__(
        self, plan: Plan, buffers: Mapping[str, Buffer], threads: int, whole: Parameters | None
    ) -> None:
        super().__init__(plan, buffers, threads, whole)
        self.kept: dict[int, str] = {}
        self.stored: set[int] = set()
        self.parts: dict[str, str] = {}

    def outer_loops(self) -> Sequence[Var]:
        return self.kernel.outer

    def body(self, outside: Scope) -> None:
        """Prints a row of the result: a loop for each stage of reductions, then what is stored once
        a row."""
        scope = Scope(outside.variables, outside)
        kept = self.kept_along_rows()
        for number, node in enumerate(kept.values()):
            scope.lines.append(f"{TYPES[node.dtype]} kept{number}[{self.kernel.columns}];")
        self.kept = {id(node): f"kept{number}" for number, node in enumerate(kept.values())}
        for stage in range(self.plan.stages + 1):
            reductions = self.plan.reductions(stage)
            inside = Scope(scope.variables | set(self.kernel.inner), scope)
            ends = [self.accumulate(node, scope, inside) for node in reductions]
            self.stores(inside, stage, full=True)
            self.stored |= self.kept.keys() & inside.names.keys()
            if inside.lines:
                self.row_loop(scope, inside, reductions, [clause for clause, _ in ends])
            for node, (_, name) in zip(reductions, ends, strict=True):
                scope.names[id(node)] = name
                scope.lines += self.print_final_nan(node, name)
            self.stores(scope, stage, full=False)
        outside.lines += scope.lines

    def operands(self, node: Scalar) -> Sequence[Scalar]:
        return () if id(node) in self.stored else node.args

    def compute(self, node: Scalar, scope: Scope) -> None:
        """Computes a value, unless an earlier loop over the row kept it; then it is read."""
        array = self.kept.get(id(node))
        if array is None:
            super().compute(node, scope)
        elif id(node) in self.stored:
            name = scope.names[id(node)] = self.new_name("v")
            scope.lines.append(
                f"const {TYPES[node.dtype]} {name} = "
                f"{array}[{self.index(linear(self.kernel.inner))}];"
            )
        else:
            super().compute(node, scope)
            scope.lines.append(
                f"{array}[{self.index(linear(self.kernel.inner))}] = {scope.names[id(node)]};"
            )

    def kept_along_rows(self) -> dict[int, Scalar]:
        """Expensive values that several passes along a row need: kept in an array instead of
        computed again."""
        columns = self.kernel.columns.value
        if columns is None or columns > LONGEST_KEPT:
            return {}
        walks = [self.needed_values(stage) for stage in range(self.plan.stages + 1)]
        found: dict[int, Scalar] = {}
        for later in range(1, len(walks)):
            before = {key for walk in walks[:later] for key in walk}
            for node in walks[later].values():
                fresh = id(node) not in before
                found |= {
                    id(arg): arg
                    for arg in node.args
                    if fresh
                    and id(arg) in before
                    and id(arg) in walks[later]
                    and self.is_expensive(arg)
                }
            for node in self.roots(later):
                if id(node) in before and self.is_expensive(node):
                    found[id(node)] = node
        return found

    def roots(self, stage: int) -> list[Scalar]:
        """The values that one pass along a row computes for its reductions and stores."""
        stores = [
            store.value for store in self.kernel.stores if self.plan.stage[id(store.value)] == stage
        ]
        values = [node.args[0] for node in self.plan.reductions(stage)] + stores
        return [node for node in values if not self.plan.in_rows(node)]

    def needed_values(self, stage: int) -> dict[int, Scalar]:
        """The values that a walk computes for each element, by id."""
        found: dict[int, Scalar] = {}
        todo = self.roots(stage)
        while todo:
            node = todo.pop()
            if id(node) not in found and not self.plan.in_rows(node):
                found[id(node)] = node
                todo += node.args
        return found

    def is_expensive(self, root: Scalar) -> bool:
        return (
            sum(SCALAR_OPS[node.op].cost for node in topological([root]) if node.op in SCALAR_OPS)
            >= EXPENSIVE
        )

    def row_loop(
        self, scope: Scope, inside: Scope, reductions: Sequence[Scalar], clauses: Sequence[str]
    ) -> None:
        """The loops along a row, the last one with SIMD where all that it accumulates is of a kind
        that has it."""
        simd = not any(node.attr.startswith("arg") for node in reductions)
        pragma = [" ".join([SIMD, *filter(None, clauses)])] if simd else []
        *before, last = self.kernel.inner
        lines = [self.loop(last), *indent(inside.lines), "}"]
        lines = self.in_parts(last, inside.lines, pragma) if self.parts else [*pragma, *lines]
        for variable in reversed(before):
            lines = [self.loop(variable), *indent(lines), "}"]
        scope.lines += lines
        self.parts = {}

    def in_parts(self, variable: Var, body: Sequence[str], pragma: Sequence[str]) -> list[str]:
        """A loop that adds up floats in parts, and these in double. (In double each element would
        cost twice as much.)"""
        return self.loop_in_parts(
            variable,
            LONG_SUM,
            [f"float {part} = 0;" for part in self.parts],
            body,
            [f"{total} += {part};" for part, total in self.parts.items()],
            pragma,
        )

    def accumulate(self, node: Scalar, scope: Scope, inside: Scope) -> tuple[str, str]:
        """Declares what a reduction gathers in `scope` and gathers in `inside`; returns its clause
        for SIMD, and its name."""
        name = self.new_name("acc")
        kind = gathered_as(node, self.kernel, LONG_SUM)
        value = self.value(node.args[0], inside)
        if node.attr in ("sum", "prod"):
            sign = "+" if node.attr == "sum" else "*"
            scope.lines.append(f"{kind} {name} = {0 if node.attr == 'sum' else 1};")
            if kind == TYPES[node.dtype]:
                inside.lines.append(f"{name} {sign}= {value};")
                return f"reduction({sign}:{name})", name
            part = self.new_name("part")
            self.parts[part] = name
            inside.lines.append(f"{part} += {value};")
            return f"reduction(+:{part})", f"(float){name}"  # what is computed of it is float
        if node.attr == "any":
            scope.lines.append(f"{kind} {name} = 0;")
            inside.lines.append(f"{name} |= {value};")
            return f"reduction(|:{name})", name
        sign = ">" if node.attr.endswith("max") else "<"
        dtype = node.args[0].dtype
        scope.lines.append(f"{TYPES[dtype]} {name} = {extreme(dtype, node.attr.endswith('max'))};")
        if node.attr.startswith("arg"):
            number = self.index(linear(self.kernel.inner))
            scope.lines.append(f"int64_t {name}_at = 0, {name}_any = 0;")
            better = f"{value} {sign} {name} || ({value} != {value} && {name} == {name})"
            inside.lines.append(
                f"if (!{name}_any || {better}) {{ {name} = {value}; {name}_at = {number}; "
                f"{name}_any = 1; }}"
            )
            return "", f"{name}_at"
        inside.lines.append(f"{name} = {value} {sign} {name} ? {value} : {name};")
        clause = f"reduction({node.attr}:{name})"
        if dtype.is_floating_point:
            scope.lines.append(f"int {name}_nan = 0;")
            inside.lines.append(f"{name}_nan |= {value} != {value};")
            clause += f" reduction(|:{name}_nan)"
        return clause, name

    def print_final_nan(self, node: Scalar, name: str) -> list[str]:
        if node.attr in ("max", "min") and node.dtype.is_floating_point:
            return [f'if ({name}_nan) {name} = ({TYPES[node.dtype]})__builtin_nan("");']
        return []
