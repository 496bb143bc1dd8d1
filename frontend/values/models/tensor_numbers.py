"""Numbers read from a tensor: item(), tolist(), int() and float() of it. They are nodes of the
graph; what depends on them has symbols, as no value is known before the graph runs."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from ....backends.graph.mutations import is_written
from ....backends.graph.wrappers import is_distributed
from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..registry import method, models
from ..tensor.number_arithmetic import calculate
from ..tensor.read_number import INTEGERS, can_be_node, whether_all
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import TensorValue

if TYPE_CHECKING:
    from ..context import TraceContext

LONGEST = 64  # list of numbers, each of which has a symbol


def reads(text: str, tensor: TensorValue) -> GraphBreak:
    """The break where Python reads the numbers."""
    return GraphBreak("data-dependent-value", f"`{text}` of {tensor.describe()}")


@method(torch.Tensor, "item")
def item(tx: TraceContext, self: TensorValue) -> Value:
    if not can_be_node(tx, self):
        raise reads(".item()", self)
    known = tx.graph.known_number(self)
    if known is not None:
        return known
    return tx.graph.call("call_method", "item", [self], {})


@method(torch.Tensor, "tolist")
def tolist(tx: TraceContext, self: TensorValue) -> Value:
    bounds: Any = self.node.args
    if can_be_node(tx, self) and is_constant_range(self.node):
        return tx.make.list_of([Constant(number) for number in range(*bounds)])
    sizes = self.fake.shape
    count = 1
    for size in sizes:
        if not isinstance(size, int):
            raise reads(".tolist()", self)
        count *= size
    numbers = can_be_node(tx, self) and self.fake.dtype is not torch.bool
    if numbers and count == 0 and len(sizes) == 1:
        return tx.make.list_of([])
    if not numbers or not 0 < count <= LONGEST or len(sizes) > 1:
        raise reads(".tolist()", self)
    return tx.graph.call("call_method", "tolist", [self], {})


def is_constant_range(node: torch.fx.Node) -> bool:
    """Whether a node is `torch.arange` of literal ints, to which nothing was written."""
    literal = all(type(bound) is int for bound in node.args)
    return node.target is torch.arange and literal and not node.kwargs and not is_written(node)


def number_of(tx: TraceContext, cls: type, tensor: TensorValue) -> Value:
    """int(tensor) or float(tensor). A fraction that becomes an int is left to Python: no symbol
    stands for each of its ints."""
    whole = tensor.fake.dtype in INTEGERS
    if cls is complex or tensor.fake.dtype is torch.bool or (cls is int and not whole):
        raise reads(f"{cls.__name__}()", tensor)
    number = item(tx, tensor)
    if number.python_type() is cls:
        return number
    return calculate(tx, cls, number) or number


@method(torch.Tensor, "__int__")
def tensor_int(tx: TraceContext, self: TensorValue) -> Value:
    return number_of(tx, int, self)


@method(torch.Tensor, "__float__")
def tensor_float(tx: TraceContext, self: TensorValue) -> Value:
    return number_of(tx, float, self)


@method(torch.Tensor, "equal")
def tensor_equal(tx: TraceContext, self: TensorValue, other: Value) -> Value:
    """Compares element by element, and reads whether all are equal."""
    other = tx.look(other)
    if not isinstance(other, TensorValue) or not is_compared(self, other):
        return tx.graph.call("call_method", "equal", [self, other], {})
    if self.fake.shape != other.fake.shape:
        return Constant(False)
    return whether_all(tx, "`torch.equal()`", tx.graph.call("call_method", "eq", [self, other], {}))


@method(torch.Tensor, "allclose")
def allclose(tx: TraceContext, self: TensorValue, other: Value, *how: Value, **kw: Value) -> Value:
    if is_distributed(type(self.fake)):  # torch refuses to compare these
        return tx.graph.call("call_method", "allclose", [self, other, *how], kw)
    close = tx.graph.call("call_method", "isclose", [self, other, *how], kw)
    return whether_all(tx, "`torch.allclose()`", close)


def is_compared(tensor: TensorValue, other: TensorValue) -> bool:
    """Whether torch.equal() of two tensors, of static sizes, raises no error. It has a collective
    of its own for distributed ones."""
    one, two = tensor.fake, other.fake
    if is_distributed(type(one)) or is_distributed(type(two)):
        return False
    static = all(type(size) is int for size in (*one.shape, *two.shape))
    return static and one.dtype == two.dtype and one.device == two.device


@method(torch.Tensor, "tensor_split")
def tensor_split(tx: TraceContext, self: TensorValue, *args: Value, **kwargs: Value) -> Value:
    """Positions in a tensor are read."""
    where = tx.look(args[0] if args else kwargs.get("tensor_indices_or_sections", Constant(None)))
    if (
        isinstance(where, TensorValue)
        and where.fake.dim() == 1
        and where.fake.dtype is torch.int64  # torch refuses others
    ):
        kwargs.pop("tensor_indices_or_sections", None)
        args = (tolist(tx, where), *args[1:])
    return tx.graph.call("call_method", "tensor_split", [self, *args], kwargs)


def _function(function: object, name: str) -> None:
    @models(function)
    def call(tx: TraceContext, input: Value, *args: Value, **kwargs: Value) -> Value:
        return tx.look(input).method(tx, name, list(args), kwargs)


_function(torch.equal, "equal")
_function(torch.allclose, "allclose")
_function(torch.tensor_split, "tensor_split")


@models(torch.nn.functional.one_hot)
def one_hot(tx: TraceContext, input: Value, num_classes: Value | None = None) -> Value:
    """Reads the smallest and the largest class where their number is not given, as torch does."""
    function = torch.nn.functional.one_hot
    given = {} if num_classes is None else {"num_classes": num_classes}
    known = any(
        not count.is_constant() or count.varies() or count.constant() != -1
        for count in given.values()
    )
    tensor = tx.look(input)
    if isinstance(tensor, TensorValue) and not tensor.fake.is_contiguous():
        # the operator's result is contiguous, that of a trace has the layout of the input
        tensor = input = tensor.method(tx, "contiguous", [], {})
    sizes = tensor.fake.shape if isinstance(tensor, TensorValue) else ()
    readable = isinstance(tensor, TensorValue) and tensor.fake.dtype is torch.int64
    filled = all(isinstance(size, int) and size > 0 for size in sizes)
    if known or not readable or not filled or not can_be_node(tx, tensor):
        return tx.graph.call("call_function", function, [input], given)
    smallest, largest = (item(tx, tensor.method(tx, name, [], {})) for name in ("min", "max"))
    for number in (smallest, largest):  # torch refuses negative classes
        assert isinstance(number, SymbolicNumber)
        number.owner.expect(number.sym >= 0, True)  # type: ignore[operator]
    count = calculate(tx, operator.add, largest, Constant(1))
    assert count is not None
    # the operator takes no symbol
    every = tx.graph.call("call_function", torch.arange, [count], {})
    column = tensor.method(tx, "unsqueeze", [Constant(-1)], {})
    equal = tx.graph.call("call_function", torch.eq, [column, every], {})
    return equal.method(tx, "long", [], {})
