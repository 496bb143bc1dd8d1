"""OperationRecorder: while it is active, torch functions called by Python code on fake tensors
become nodes of the graph."""

from __future__ import annotations

import operator
import types
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..containers.sequence import Sequence
from ..containers.slice import SliceValue
from ..context import TraceContext
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import GRAPH_ATTRIBUTES, TensorValue

# Methods that only ask for metadata.
QUERIES = frozenset(
    "size stride dim ndimension numel nelement element_size storage_offset is_complex __len__ "
    "is_floating_point is_contiguous is_conj is_neg get_device data_ptr untyped_storage".split()
)
READS = frozenset(
    "item tolist numpy __bool__ __int__ __float__ __complex__ __index__ __contains__ "
    "equal allclose".split()
)
# Python's classes as dtypes.
DTYPES: dict[type, torch.dtype] = {
    bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128,
}  # fmt: skip
# NumPy's dtypes of numbers that vary.
NUMBERS: dict[type, torch.dtype] = {torch.SymInt: torch.int64, torch.SymFloat: torch.float64}
FROM_DATA = frozenset({"tensor", "as_tensor"})
# Special methods that are operators of the graph.
OPERATORS = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}


class OperationRecorder(TorchFunctionMode):
    """`tensors`: the operands. Functions return fakes, whose values it knows."""

    def __init__(self, tx: TraceContext, tensors: list[TensorValue]) -> None:
        super().__init__()
        self.tx = tx
        self.values = {id(value.fake): value for value in tensors}
        self.expected: list[tuple[TensorValue, str]] = []

    def __torch_function__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Adds a node for what torch._numpy calls; questions about dtypes and shapes are answered
        from the fake tensor, and reads of values break."""
        named = kwargs or {}
        receiver = getattr(func, "__self__", None)
        if isinstance(receiver, types.GetSetDescriptorType):
            if receiver.__name__ not in GRAPH_ATTRIBUTES:
                return func(*args, **named)
            return self._call("call_function", getattr, (args[0], receiver.__name__), {})
        name = func.__name__
        if name in QUERIES:
            return func(*args, **named)
        if name in READS:
            raise GraphBreak("data-dependent-value", f"`.{name}()` in NumPy")
        if name in FROM_DATA and "dtype" not in named:
            if type(args[0]) in NUMBERS:  # torch.tensor would read it
                dtype = Constant(NUMBERS[type(args[0])])
                number = self.value(args[0])
                return self.object(self.tx.graph.function(torch.scalar_tensor, number, dtype=dtype))
            # torch._numpy has other default dtypes than the program's torch
            named = {**named, "dtype": func(*args, **named).dtype}
        if name in OPERATORS:
            return self._call("call_function", OPERATORS[name], args, named)
        is_method = isinstance(func, types.MethodDescriptorType | types.WrapperDescriptorType)
        if is_method or getattr(torch.Tensor, name, None) is func:
            return self._call("call_method", name, args, named)
        return self._call("call_function", func, args, named)

    def _call(self, kind: str, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        operands = [self.value(arg) for arg in args]
        named = {name: self.value(arg) for name, arg in kwargs.items()}
        return self.object(self.tx.graph.call(kind, target, operands, named))

    def expect(self, fact: torch.Tensor, otherwise: str) -> None:
        """Assumes that a tensor is true; `otherwise` says of what the call is where it is not."""
        self.expected.append((self.values[id(fact)], otherwise))

    def value(self, obj: Any) -> Value:
        """The value of an operand."""
        if isinstance(obj, torch.Tensor):
            known = self.values.get(id(obj))
            if known is None:
                raise GraphBreak("unsupported-value", "a tensor made by NumPy")
            return known
        if isinstance(obj, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self.tx.symbols.shapes.number(obj)
        if isinstance(obj, tuple | list):
            items = [self.value(item) for item in obj]
            return (
                self.tx.make.list_of(items) if type(obj) is list else self.tx.make.tuple_of(items)
            )
        if isinstance(obj, slice):
            return SliceValue([self.value(part) for part in (obj.start, obj.stop, obj.step)])
        return Constant(DTYPES.get(obj, obj) if isinstance(obj, type) else obj)

    def object(self, value: Value) -> Any:
        """What the caller gets for a result."""
        value = self.tx.look(value)
        if isinstance(value, TensorValue):
            self.values[id(value.fake)] = value
            return value.fake
        if isinstance(value, SymbolicNumber):
            return value.sym
        if isinstance(value, Sequence):
            items = [self.object(item) for item in value.items]
            return value.cls(items)
        return value.constant()
