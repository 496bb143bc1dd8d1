"""CFunction: the common part of all kernels in C: pointers and sizes, loops, threads, values,
stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.index import Division, Quotient, Var, nonnegative, product
from ...ir.program import Buffer, Store
from ...ir.scalar import CAST, INDEX, LOAD, TRUE, Scalar
from ..base import KernelEmitter, Parameters, Plan, Scope
from .scalars import TYPES, convert_expression, literal, operation

SIMD = "#pragma omp simd"


class CFunction(KernelEmitter):
    """Writes the loops of one kernel. Subclasses define the outer loops and their body, or write
    their own `nest`. whole: the parameters of the kernel of which this is a part."""

    def __init__(
        self, plan: Plan, buffers: Mapping[str, Buffer], threads: int, whole: Parameters | None
    ) -> None:
        self.whole = whole
        super().__init__(plan)
        self.buffers, self.threads = buffers, threads
        self.targets = {name: f"out{n}" for n, name in enumerate(self.parameters.stored)}
        self.pointers = {
            name: self.targets.get(name, f"in{n}") for n, name in enumerate(self.parameters.loaded)
        }

    def parameters_of(self) -> Parameters:
        return self.whole or super().parameters_of()

    def outer_loops(self) -> Sequence[Var]:
        """The outer loops around `body`."""
        raise NotImplementedError

    def body(self, scope: Scope) -> None:
        """What is in them."""
        raise NotImplementedError

    def nest(self, top: Scope) -> None:
        """The loops and what is in them; the leading ones are divided among threads."""
        loops = self.outer_loops()
        shared = self.shared_loops(loops)
        scope, header = self.parallel(top, shared) if shared else (top, [])
        self.nest_loops(scope, loops[len(shared) :])
        if header:
            top.lines += [*header, *indent(scope.lines), "}"]

    def nest_loops(self, scope: Scope, variables: Sequence[Var]) -> None:
        """Nested loops over variables around `body`."""
        if not variables:
            self.body(scope)
            return
        inside = Scope(scope.variables | {variables[0]}, scope)
        self.nest_loops(inside, variables[1:])
        scope.lines += [self.loop(variables[0]), *indent(inside.lines), "}"]

    # --- the whole ---

    def declarations(self) -> list[str]:
        """The pointers and sizes of the function, from the words that it is called with."""
        lines = []
        for word, buffer in enumerate(self.parameters.buffers):
            stored = word >= len(self.parameters.loaded)
            kind = TYPES[self.buffers[buffer].dtype]
            pointer = (self.targets if stored else self.pointers)[buffer]
            if stored:
                lines.append(f"{kind}* restrict {pointer} = ({kind}*)words[{word}];")
            elif buffer not in self.targets:
                lines.append(f"const {kind}* restrict {pointer} = (const {kind}*)words[{word}];")
        for word, size in enumerate(self.parameters.sizes, len(self.parameters.buffers)):
            lines.append(f"const int64_t {size} = words[{word}];")
        return lines

    # --- loops ---

    @property
    def work(self) -> int | None:
        """Points of all loops, where it is known."""
        return product([variable.size for variable in self.kernel.variables]).value

    @property
    def uses_threads(self) -> bool:
        """Whether there is work for several threads."""
        return self.threads > 1 and (
            self.work is None or self.work * max(1, len(self.plan.nodes) // 4) >= 1 << 15
        )

    def shared_loops(self, variables: Sequence[Var]) -> Sequence[Var]:
        """The leading loops that are divided among threads: as few as keep all threads busy."""
        if not self.uses_threads:
            return ()
        taken: list[Var] = []
        count: int | None = 1
        for variable in variables:
            if count is not None and count >= 8 * self.threads:
                break
            taken.append(variable)
            count = (
                None
                if variable.size.value is None or count is None
                else count * variable.size.value
            )
            if count is None:
                break
        return tuple(taken)

    def parallel(self, top: Scope, shared: Sequence[Var]) -> tuple[Scope, list[str]]:
        """Opens the loop over the product of `shared`; returns its scope and the lines that end
        it."""
        inside = Scope(frozenset(shared), top)
        last = len(shared) == len(self.kernel.variables)
        if len(shared) == 1:
            name, size = shared[0].name, self.index(shared[0].size)
            top_line = f"for (int64_t {name} = 0; {name} < {size}; {name}++) {{"
            first: list[str] = []
        else:
            total = self.index(product([variable.size for variable in shared]))
            top_line = f"for (int64_t row = 0; row < {total}; row++) {{"
            first = self.of_flat("row", shared)
        inside.lines += first
        pragma = (
            "#pragma omp parallel for simd schedule(static)"
            if last and len(shared) == 1
            else "#pragma omp parallel for schedule(static)"
        )
        return inside, [pragma, top_line]

    def of_flat(self, number: str, variables: Sequence[Var]) -> list[str]:
        """The loop variables of a flat number."""
        lines = []
        for variable in reversed(variables[1:]):
            lines.append(
                f"const int64_t {variable.name} = ({number}) % ({self.index(variable.size)});"
            )
            number = f"({number}) / ({self.index(variable.size)})"
        return [
            *lines,
            *(f"const int64_t {variable.name} = {number};" for variable in variables[:1]),
        ]

    def loop(self, variable: Var, step: int = 1) -> str:
        following = f"{variable.name}++" if step == 1 else f"{variable.name} += {step}"
        return (
            f"for (int64_t {variable.name} = 0; {variable.name} < {self.index(variable.size)}; "
            f"{following}) {{"
        )

    def loop_in_parts(
        self,
        variable: Var,
        length: int,
        start: Sequence[str],
        body: Sequence[str],
        end: Sequence[str],
        pragma: Sequence[str] = (),
    ) -> list[str]:
        """A loop that goes through `length` elements at a time; `start` runs before each part of
        the loop, `end` after it. pragma: of the loop over the elements of a part."""
        size, name = self.index(variable.size), variable.name
        part, stop = self.new_name("part"), self.new_name("stop")
        inside = [
            f"const int64_t {stop} = {part} + {length} < {size} ? {part} + {length} : {size};",
            *start,
            *pragma,
            *block(f"for (int64_t {name} = {part}; {name} < {stop}; {name}++) {{", body),
            *end,
        ]
        return block(f"for (int64_t {part} = 0; {part} < {size}; {part} += {length}) {{", inside)

    # --- values ---

    def store(self, scope: Scope, store: Store, wide: bool) -> None:
        value = self.value(store.value, scope)
        scope.lines.append(f"{self.target(store)} = {value};")

    def target(self, store: Store) -> str:
        """The element that is stored to."""
        return f"{self.targets[store.buffer]}[{self.index(store.index)}]"

    def constant(self, node: Scalar) -> str:
        return literal(node)

    def assignment(self, name: str, node: Scalar, text: str) -> str:
        return f"const {TYPES[node.dtype]} {name} = {text};"

    def expression(self, node: Scalar, args: Sequence[str]) -> str:
        if node.op == LOAD:
            read = f"{self.pointers[node.attr.buffer]}[{self.index(node.attr.index, args[1:])}]"
            masks = [args[0]] * (node.args[0] is not TRUE and args[0] != "1") + [
                args[-1]
            ] * node.attr.checked
            return f"{' && '.join(masks)} ? {read} : ({TYPES[node.dtype]})0" if masks else read
        if node.op == INDEX:
            return self.index(node.attr)
        if node.op == CAST:
            return convert_expression(args[0], node.args[0].dtype, node.dtype)
        return operation(node, args)

    def division(self, item: Division, holes: Sequence[str]) -> str:
        numerator, divisor = self.index(item.numerator, holes), self.index(item.divisor, holes)
        bounds = item.numerator.bounds()
        if bounds is not None and nonnegative(bounds[0]):
            return f"(({numerator}) {'/' if isinstance(item, Quotient) else '%'} ({divisor}))"
        function = "floordivi" if isinstance(item, Quotient) else "remainder_i"
        return f"{function}({numerator}, {divisor})"


def block(header: str, lines: Sequence[str]) -> list[str]:
    return [header, *indent(lines), "}"]


def indent(lines: Sequence[str]) -> list[str]:
    return [line if line.startswith("#") else f"    {line}" for line in lines]
