"""Values stored at computed places, in order; the memory of iterations to come is fetched ahead."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ...ir.index import Var, product
from ...ir.program import scattered_value
from ...ir.scalar import TRUE, Scalar, scalar
from ...ir.scalar_ops import SCATTERS
from ..base import Scope, subscripts_of
from .loops import SIMD, CFunction, block, indent
from .prefetch import fetch_ahead
from .scalars import TYPES, operation


class ScatterFunction(CFunction):
    """A kernel whose one store scatters."""

    def nest(self, top: Scope) -> None:
        """Loops over what is scattered. Threads share a leading loop whose iterations store to
        different elements, or each goes through everything and stores its own share of the rows:
        then none waits for another, and none writes to another's cache lines."""
        node = scattered_value(self.kernel)
        assert node is not None
        extent = self.value(node.args[-1], top)
        apart = list(takewhile(self.is_subscript, self.kernel.outer))
        rest = sorted(self.kernel.outer[len(apart) :], key=self.is_subscript)
        count = product([variable.size for variable in apart]).value
        header: list[str] = []
        first, last = "0", extent
        inside = Scope(frozenset(), top)
        if self.uses_threads and apart and (count is None or count >= self.threads):
            shared = self.shared_loops(apart)
            inside, header = self.parallel(top, shared)
            apart = apart[len(shared) :]
        elif self.uses_threads:
            header = [
                "#pragma omp parallel for schedule(static)",
                f"for (int64_t share = 0; share < {self.threads}; share++) {{",
            ]
            first, last = "first", "last"
            inside.lines += [
                f"const int64_t first = {extent} * share / {self.threads};",
                f"const int64_t last = {extent} * (share + 1) / {self.threads};",
            ]
        self.scatter_points(inside, [*apart, *rest], node, f"{{0}} >= {first} && {{0}} < {last}")
        top.lines += [*header, *indent(inside.lines), "}"] if header else inside.lines

    def scatter_points(
        self, outside: Scope, variables: Sequence[Var], node: Scalar, condition: str
    ) -> None:
        """Nested loops around a store of one element, where the row fulfils the condition."""
        old, value, row, _ = node.args
        scopes = [outside]
        for variable in variables:
            scopes.append(Scope(scopes[-1].variables | {variable}, scopes[-1]))
        innermost = scopes[-1]
        conditions = [condition.format(self.value(row, innermost))]
        if old.args[0] is not TRUE:
            conditions.append(self.value(old.args[0], innermost))
        needed = self.plan.depends[id(row)] | self.plan.depends[id(old.args[0])]
        home = next(scope for scope in scopes if needed <= scope.variables)
        before = len(home.lines)
        (store,) = self.kernel.stores
        holes = [self.value(place, innermost) for place in subscripts_of(old)]
        target = f"{self.targets[store.buffer]}[{self.index(store.index, holes)}]"
        given = self.value(value, innermost)
        innermost.lines += [
            f"const {TYPES[node.dtype]} before = {target};",
            f"{target} = {self.combine(node, 'before', given)};",
        ]
        ahead = fetch_ahead(self, home, variables, node, condition)
        for number in range(len(variables), -1, -1):
            scope = scopes[number]
            if scope is home:
                inside = scope.lines[before:]
                scope.lines[before:] = block(f"if ({' && '.join(conditions)}) {{", inside)
                scope.lines += ahead
            if number:
                variable = variables[number - 1]
                simd = scope is innermost and scope is not home and self.is_subscript(variable)
                loop = block(self.loop(variable), scope.lines)
                scopes[number - 1].lines += [SIMD, *loop] if simd else loop

    def is_subscript(self, variable: Var) -> bool:
        """Whether iterations of a loop around a scatter store to different elements."""
        return variable in self.kernel.stores[0].index.variables()

    def combine(self, node: Scalar, old: str, new: str) -> str:
        """The new value of an element that a value is scattered to."""
        name = SCATTERS[node.attr]
        return new if name is None else operation(scalar(name, *node.args[:2]), [old, new])
