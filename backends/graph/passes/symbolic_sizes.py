"""Sizes that vary between calls, in graphs that are assembled operator by operator.

Two sizes are equal if their expressions are: comparing them adds no guard. In a traced graph a size
may be computed from the inputs of any operator. In the assembled graph each size is computed once,
from the inputs of the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..copies import AnyNode, Copy
from ..memory import results_of

if TYPE_CHECKING:  # a process that loads stored graphs needs no sympy
    import sympy

SYM_SIZE = torch.ops.aten.sym_size.int
# functions of sympy's and torch's expressions, by the names of their classes
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Mul": operator.mul, "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod,
}  # fmt: skip


WITHOUT_BOUNDS = "sizes_without_lower_bounds"  # the attribute of a ShapeEnv


class CannotCompute(Exception):
    """No nodes can compute a size."""


class VaryingSize:
    """A size, stride or offset that varies. Equal to others with the same expression."""

    __slots__ = ("value", "expression")

    def __init__(self, value: torch.SymInt) -> None:
        self.value, self.expression = value, without_lower_bounds(value.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VaryingSize) and self.expression == other.expression

    def __hash__(self) -> int:
        return hash(self.expression)

    def __repr__(self) -> str:
        return f"VaryingSize({self.expression})"


def without_lower_bounds(node: Any) -> sympy.Expr:
    """The expression of a size. Strides have Max(1, n) for a size n, or n itself where its operator
    was traced: they are the same for sizes that are known not to be 0. Cached in the ShapeEnv,
    unless a later guard may tell more."""
    expression: sympy.Expr = node.expr
    if expression.is_Atom:
        return expression
    known: dict[sympy.Expr, sympy.Expr] = vars(node.shape_env).setdefault(WITHOUT_BOUNDS, {})
    if (found := known.get(expression)) is not None:
        return found

    def is_redundant(part: sympy.Expr) -> bool:
        return is_lower_bound(part) and bool(node.shape_env.bound_sympy(part.args[1]).lower >= 1)

    bounds = expression.find(is_lower_bound)
    redundant = sum(map(is_redundant, bounds))
    simple: sympy.Expr = (
        expression.replace(is_redundant, lambda part: part.args[1]) if redundant else expression
    )
    if redundant == len(bounds):
        known[expression] = simple
    return simple


def is_lower_bound(part: sympy.Expr) -> bool:
    """Whether it is Max(1, n)."""
    return type(part).__name__ == "Max" and len(part.args) == 2 and part.args[0] == 1


def comparable(size: int | torch.SymInt) -> int | VaryingSize:
    """A size that can be compared and hashed without a guard."""
    if isinstance(size, torch.SymInt):
        found = size.node.expr
        return int(found) if found.is_Integer else VaryingSize(size)
    return size


def varies(value: Any) -> bool:
    """Whether a size, or a tensor's layout, varies between calls."""
    return any(isinstance(number, torch.SymInt) for number in numbers_of(value))


def has_known_hints(value: Any) -> bool:
    """Whether the sizes of a tensor, or a size, are known for the call that is compiled for. Those
    that depend on tensors' values are not."""
    return all(
        number.node.hint is not None
        for number in numbers_of(value)
        if isinstance(number, torch.SymInt)
    )


def expression_of(size: Any) -> Any:
    """A size as a number, or as the expression of one that varies."""
    return size.node.expr if isinstance(size, torch.SymInt) else size


def is_contiguous_for_all_sizes(tensor: torch.Tensor) -> bool:
    """Whether a tensor is contiguous as its strides are written; adds no guard."""
    expected = largest = 1  # strides, as a product of sizes, or of sizes and ones
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if expression_of(stride) not in (expression_of(expected), expression_of(largest)):
            return False
        expected, largest = expected * size, largest * torch.sym_max(size, 1)
    return True


def numbers_of(value: Any) -> Iterator[Any]:
    """The sizes, strides and offset of a strided tensor; of anything else, itself."""
    if not isinstance(value, torch.Tensor):
        yield value
    elif value.layout == torch.strided:
        yield from value.shape
        yield from value.stride()
        yield value.storage_offset()


def hint(size: int | torch.SymInt) -> int:
    """The number that a size is in the call that is compiled for, without a guard."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


def symbols_of(nodes: Iterable[AnyNode]) -> dict[sympy.Symbol, None]:
    """The symbols in the layouts of the nodes' results and in sizes among them, in order."""
    found: dict[sympy.Symbol, None] = {}
    seen: set[int] = set()
    for node in nodes:
        for value in results_of(node):
            if id(value) in seen:  # copies of one node share their fake results
                continue
            seen.add(id(value))
            for number in numbers_of(value):
                if isinstance(number, torch.SymInt):
                    free = number.node.expr.free_symbols
                    found.update(dict.fromkeys(sorted(free, key=str)))
    return found


def is_varying_size(node: AnyNode) -> bool:
    """Whether a node of an ATen graph is a size that varies."""
    return isinstance(node.meta.get("val"), torch.SymInt)


def is_scalar(node: AnyNode) -> bool:
    """Whether a node of an ATen graph is a number that is computed from sizes."""
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


class SizeNodes:
    """The nodes of an assembled graph that compute sizes. inputs: the graph's. add: adds a copy of
    an original with these inputs to the graph."""

    def __init__(self, inputs: Iterable[Copy], add: Callable[..., Copy]) -> None:
        self.add = add
        self.known: dict[sympy.Expr, Copy] = {}
        # for a symbol, the first input with a dimension of that size
        self.dimensions: dict[sympy.Expr, tuple[Copy, int]] = {}
        for node in inputs:
            fake = node.meta["val"]
            if isinstance(fake, torch.SymInt):
                self.known.setdefault(fake.node.expr, node)
            elif isinstance(fake, torch.Tensor):
                for number, size in enumerate(fake.shape):
                    if isinstance(size, torch.SymInt):
                        self.dimensions.setdefault(size.node.expr, (node, number))

    def find(self, expression: sympy.Expr) -> Copy:
        """The node with this value. Raises CannotCompute where there is none."""
        if expression not in self.known:
            self.known[expression] = self.compute(expression)
        return self.known[expression]

    def compute(self, expression: sympy.Expr) -> Copy:
        """The node that computes an expression of sizes. Raises CannotCompute."""
        if expression in self.dimensions:
            node, number = self.dimensions[expression]
            return self.call(SYM_SIZE, node, number)
        kind = type(expression).__name__
        if kind == "Pow":
            base, power = expression.args
            if not (power.is_Integer and int(power) > 1):
                raise CannotCompute
            factors = (self.operand(base) for _ in range(int(power)))
            return self.join(operator.mul, factors)
        function = BINARY.get(kind)
        if function is None:
            raise CannotCompute
        return self.join(function, map(self.operand, expression.args))

    def operand(self, expression: sympy.Expr) -> Copy | int:
        return int(expression) if expression.is_Integer else self.find(expression)

    def join(self, function: Callable[[Any, Any], Any], operands: Iterable[Any]) -> Copy:
        """function(function(first, second), third) and so on."""
        first, *others = operands
        for other in others:
            first = self.call(function, first, other)
        if not isinstance(first, Copy):
            raise CannotCompute
        return first

    def call(self, function: Callable[..., Any], *operands: Copy | int) -> Copy:
        """A call of a function of nodes and numbers."""
        graph = torch.fx.Graph()
        copies = list(dict.fromkeys(item for item in operands if isinstance(item, Copy)))
        nodes = {copy: graph.placeholder("size") for copy in copies}
        args = tuple(nodes[item] if isinstance(item, Copy) else item for item in operands)
        values: list[Any] = [
            item.meta["val"] if isinstance(item, Copy) else item for item in operands
        ]
        value = values[0].size(values[1]) if function is SYM_SIZE else function(*values)
        source = graph.call_function(function, args)
        return self.add(source, copies, {"val": value, "memory": [None]})
