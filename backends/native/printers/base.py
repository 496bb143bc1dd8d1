"""Shared by the printers: the order in which a kernel's values are computed, and its parameters in
canonical order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ....records import record
from ..ir.index import Division, Hole, Index, Sym, Var
from ..ir.program import Kernel, Store
from ..ir.scalar import CONST, INDEX, LOAD, REDUCE, Scalar, topological

# of a tile with two sides: below that, neighbours come in the same cache lines anyway
SHORTEST_SIDE = 16


@record
class Parameters:
    """What a kernel is called with: buffers (those that it stores to at the end), then sizes."""

    loaded: tuple[str, ...]
    stored: tuple[str, ...]
    sizes: tuple[str, ...]

    @property
    def buffers(self) -> tuple[str, ...]:
        return self.loaded + self.stored

    def on(self, names: Mapping[str, str]) -> Parameters:
        """The parameters of an equal kernel on other buffers."""
        return replace(
            self,
            loaded=tuple(map(names.__getitem__, self.loaded)),
            stored=tuple(map(names.__getitem__, self.stored)),
        )


def own_variables(node: Scalar) -> frozenset[Var]:
    """The variables in a node's index, without those of its arguments."""
    if node.op == LOAD:
        return frozenset(node.attr.index.variables())
    return frozenset(node.attr.variables() if node.op == INDEX else ())


class Plan:
    """A kernel in the order of its computation.

    `depends`: by id of a Scalar, the loop variables that it needs; a reduction needs none of the
    inner ones. `stage`: how many reductions must have ended before it can be computed.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.nodes = topological(kernel.roots())
        self.depends: dict[int, frozenset[Var]] = {}
        self.stage: dict[int, int] = {}
        self.reduces: set[int] = set()  # ids of what needs a reduction's result
        self.described: list[Scalar] = []  # held, since their ids are keys
        self.add(self.nodes)
        self.stages = max(self.stage.values(), default=0)

    def add(self, nodes: Iterable[Scalar]) -> None:
        """Determines what values depend on, arguments first."""
        inner = frozenset(self.kernel.inner)
        for node in nodes:
            self.described.append(node)
            own = own_variables(node)
            depends = own.union(*(self.depends[id(arg)] for arg in node.args))
            stage = max((self.stage[id(arg)] for arg in node.args), default=0)
            if node.op == REDUCE:
                depends, stage = depends - inner, stage + 1
            self.depends[id(node)], self.stage[id(node)] = depends, stage
            if node.op == REDUCE or any(id(arg) in self.reduces for arg in node.args):
                self.reduces.add(id(node))

    def reductions(self, stage: int) -> list[Scalar]:
        """The reductions that can run once `stage` others before them are done."""
        return [
            node for node in self.nodes if node.op == REDUCE and self.stage[id(node)] == stage + 1
        ]

    def in_rows(self, node: Scalar) -> bool:
        """Whether a value is one for a whole row."""
        return not self.depends[id(node)] & set(self.kernel.inner)

    def is_across_rows(self) -> bool:
        """Whether neighbours in memory lie in neighbouring rows, not along a row. What neighbouring
        rows read alike stays in the cache, and does not count."""
        if not self.kernel.inner or not self.kernel.outer:
            return False
        across = along = 0
        for node in self.nodes:
            if (
                node.op == LOAD
                and not self.in_rows(node)
                and self.kernel.outer[-1] in node.attr.index.variables()
            ):
                across += node.attr.index.coefficient(self.kernel.outer[-1]) == 1
                along += any(
                    node.attr.index.coefficient(variable) == 1 for variable in self.kernel.inner
                )
        return across > along

    def places(self) -> Iterable[Index]:
        """The indices of elements that are stored and loaded."""
        for store in self.kernel.stores:
            yield store.index
        for node in self.nodes:
            if node.op == LOAD:
                yield node.attr.index

    def expressions(self) -> Iterable[Index]:
        yield from self.places()
        for node in self.nodes:
            if node.op == INDEX:
                yield node.attr

    def parameters(self) -> Parameters:
        stored = tuple(dict.fromkeys(store.buffer for store in self.kernel.stores))
        loaded = tuple(dict.fromkeys(node.attr.buffer for node in self.nodes if node.op == LOAD))
        extents = [variable.size for variable in self.kernel.variables]
        symbols = {
            item.name
            for expression in (*self.expressions(), *extents)
            for item in expression.atoms()
            if isinstance(item, Sym)
        }
        for expression in self.expressions():
            for variable in expression.variables():
                symbols |= {item.name for item in variable.size.atoms() if isinstance(item, Sym)}
        return Parameters(loaded, stored, tuple(sorted(symbols)))


def subscripts_of(node: Scalar) -> tuple[Scalar, ...]:
    """The computed subscripts of a load."""
    return node.args[1 : len(node.args) - node.attr.checked]


def second_side(plan: Plan) -> Var | None:
    """The loop along which some buffers are contiguous where others are along the last one: a tile
    over both reads and writes whole cache lines on either side. None where all agree, or where one
    of the two is short."""
    kernel = plan.kernel
    if kernel.inner or len(kernel.outer) < 2 or _short(kernel.outer[-1]):
        return None
    every, votes = set(kernel.outer), Counter[Var]()
    for place in plan.places():
        if place.variables() == every:  # others are read again and again, and stay in the cache
            votes.update(variable for variable in kernel.outer if place.coefficient(variable) == 1)
    found = [
        variable
        for variable, _ in votes.most_common()
        if variable != kernel.outer[-1] and not _short(variable)
    ]
    return found[0] if found and votes[kernel.outer[-1]] else None


def _short(variable: Var) -> bool:
    return variable.size.value is not None and variable.size.value < SHORTEST_SIDE


@dataclass
class Scope:
    """A block of code: the loop variables that it has, its lines, and the names of values computed
    in it."""

    variables: frozenset[Var]
    parent: Scope | None = None
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def chain(self) -> list[Scope]:
        """The scopes from the outermost one to this one."""
        return [*(self.parent.chain() if self.parent else []), self]

    def find(self, node: Scalar) -> str | None:
        for scope in reversed(self.chain()):
            if id(node) in scope.names:
                return scope.names[id(node)]
        return None


def short_name(operator: str) -> str:
    return operator.removeprefix("aten.").removesuffix(".default")


def origin_names(kernel: Kernel) -> list[str]:
    """The operators that a kernel computes, each once, for those who read its text."""
    return list(dict.fromkeys(map(short_name, kernel.origins)))


class KernelEmitter:
    """Writes the values of a kernel, each in the outermost block where it can be computed.
    Subclasses write them in C or Triton."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.kernel = plan.kernel
        self.parameters = self.parameters_of()
        self.counter = 0

    def new_name(self, letter: str) -> str:
        """A name that nothing else in the kernel has."""
        self.counter += 1
        return f"{letter}{self.counter - 1}"

    def parameters_of(self) -> Parameters:
        return self.plan.parameters()

    def constant(self, node: Scalar) -> str:
        """A number as text."""
        raise NotImplementedError

    def expression(self, node: Scalar, args: Sequence[str]) -> str:
        """What a node computes, from the names of its arguments."""
        raise NotImplementedError

    def assignment(self, name: str, node: Scalar, text: str) -> str:
        """The line that gives a value its name."""
        raise NotImplementedError

    def division(self, item: Division, holes: Sequence[str]) -> str:
        """A quotient or remainder in an address."""
        raise NotImplementedError

    def store(self, scope: Scope, store: Store, wide: bool) -> None:
        """Adds the lines that store a value. wide: for each element of a row."""
        raise NotImplementedError

    def stores(self, scope: Scope, stage: int, full: bool | None = None) -> None:
        """Stores values that need `stage` reductions. full: only those inside rows, or only those
        of whole rows."""
        for store in self.kernel.stores:
            wide = not self.plan.in_rows(store.value) or bool(
                store.index.variables() & set(self.kernel.inner)
            )
            if self.plan.stage[id(store.value)] == stage and (full is None or full == wide):
                self.store(scope, store, wide)

    def atom(self, item: object, holes: Sequence[str]) -> str:
        """A factor of an address; holes are the names of computed subscripts."""
        if isinstance(item, Hole):
            return holes[item.number]
        if isinstance(item, Division):
            return self.division(item, holes)
        assert isinstance(item, (Var, Sym))
        return item.name

    def index(self, expression: Index, holes: Sequence[str] = ()) -> str:
        """An address or a size."""
        parts = []
        for monomial, coefficient in sorted(
            expression.terms.items(), key=lambda term: [item.key for item in term[0]]
        ):
            factors = [self.atom(item, holes) for item in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            parts.append("*".join(factors))
        return " + ".join(parts) or "0"

    def operands(self, node: Scalar) -> Sequence[Scalar]:
        """The values that must be computed before a node."""
        return node.args

    def value(self, root: Scalar, scope: Scope) -> str:
        """The name of a value, computed in scope or around it."""
        todo = [root]
        while todo:
            node = todo[-1]
            missing = (
                []
                if scope.find(node) is not None
                else [arg for arg in self.operands(node) if scope.find(arg) is None]
            )
            todo += missing
            if not missing:
                todo.pop()
                if scope.find(node) is None:
                    self.compute(node, scope)
        found = scope.find(root)
        assert found is not None
        return found

    def compute(self, node: Scalar, scope: Scope) -> None:
        """Prints the assignment of a node to a new variable, in the outermost scope that knows all
        it depends on."""
        if node.op == CONST:
            scope.chain()[0].names[id(node)] = self.constant(node)
            return
        assert node.op != REDUCE, "a reduction is used before it ends"
        depends = self.plan.depends[id(node)]
        home = next(
            place
            for place in scope.chain()
            if depends <= place.variables and all(place.find(arg) for arg in node.args)
        )
        name = self.new_name("v")
        home.names[id(node)] = name
        home.lines.append(
            self.assignment(
                name, node, self.expression(node, [scope.find(arg) or "" for arg in node.args])
            )
        )
