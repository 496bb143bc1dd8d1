"""NumPy's arrays: an array is a tensor over its memory. NumPy says what kind of result a call has
(expected_result.py), and torch._numpy which operators give the values (torch_numpy.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, singledispatchmethod
from typing import Any

import torch

from ....backends.graph.mutations import is_written
from ....errors import GraphBreak
from ....guards.source import Source
from ....guards.source.tensors import ARRAY_DTYPES
from ..base import Args, Kwargs, Value
from ..constant import Constant
from ..containers import sequence
from ..containers.list import ListValue
from ..containers.slice import SliceValue
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import ItemIterator
from ..objects.class_value import ClassValue
from ..operation import UnaryOperation
from ..tensor.symbolic_number import SymbolicNumber, number_now
from ..tensor.tensor import TensorValue
from ..tensor.varying_index import has_index, select_varying
from .expected_result import (
    EXAMPLE_SIZE,
    StandIns,
    compare_results,
    dtype_of,
    is_array,
    is_scalar,
    numpy,
    run_on_stand_ins,
)
from .literal_tensor import literal_tensor
from .made_objects import read_only_array, scalar_of
from .numpy_number import VaryingScalar
from .numpy_warnings import expect_exact_cast, expect_finite
from .operation_recorder import OperationRecorder
from .replacements import METHODS as REPLACED_METHODS
from .replacements import REPLACEMENTS
from .result_layout import has_unknown_sizes, is_same_view, lay_out_result
from .reversed_array import ReversedArray, reverse, runs_backwards, view_backwards
from .torch_numpy import REFUSED, WITHOUT_WARNINGS, numpy_defaults, torch_numpy

POWERS = frozenset({"pow", "power"})
TAKES = frozenset({"take", "take_along_axis", "choose"})
FIND_ELEMENTS = frozenset({"nonzero", "where", "argwhere", "flatnonzero"})
INTEGERS_OF_NUMPY = ("int8", "int16", "int32", "int64", "uint8")
INDICES = frozenset({torch.bool, torch.int64, torch.int32, torch.int16, torch.int8})
METADATA = frozenset({"shape", "ndim", "size", "itemsize", "nbytes", "dtype", "strides"})


class ArrayValue(Value):
    """An ndarray, or a scalar that NumPy has calculated: `cls` says which. `tensor` has its
    values; an array shares its memory. `read_only`: it is a view that NumPy does not write.
    `backwards`: dimensions of which the tensor is a copy in the other order (reversed_array.py)."""

    __slots__ = ("tensor", "cls", "read_only", "backwards")

    def __init__(
        self,
        tensor: TensorValue,
        cls: type,
        source: Source | None = None,
        read_only: bool = False,
        backwards: tuple[int, ...] = (),
    ) -> None:
        super().__init__(source)
        self.tensor, self.cls, self.read_only = tensor, cls, read_only
        self.backwards = backwards

    @property
    def fake(self) -> torch.Tensor:
        return self.tensor.fake

    @property
    def is_scalar(self) -> bool:
        return self.cls is not numpy().ndarray

    @property
    def is_writable(self) -> bool:
        """Whether it is an array whose memory a tensor may share."""
        return not (self.is_scalar or self.read_only)

    def describe(self) -> str:
        where = f" '{self.source.name}'" if self.source is not None else ""
        return f"{'a NumPy scalar' if self.is_scalar else 'an array'}{where}"

    def truth(self, tx: TraceContext) -> bool:
        raise GraphBreak(
            "data-dependent-branch", f" '{self.source.name}'" if self.source is not None else ""
        )

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__class__":
            return tx.wrap(self.cls, None)
        if name in METADATA:
            return metadata(tx, self, name)
        if name in ("T", "mT", "real", "imag"):
            return call_numpy(tx, name, lambda array: getattr(array, name), [self], {})
        if not hasattr(self.cls, name):
            raise tx.exceptions.no_attribute(
                self.cls.__name__ if self.is_scalar else "numpy.ndarray", name
            )
        if name.startswith("__") or not callable(getattr(self.cls, name)):
            raise self.unsupported_use(f"attribute {name}")
        return tx.make.bound_method(self, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if name in REFUSED:
            raise self.unsupported_use(f"method {name}")
        if name == "item" and not args and not kwargs and not self.fake.dim():
            return self.tensor.method(tx, name, [], {})

        return self.call_method(tx, name, [self, *args], kwargs)

    def call_method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        """A method of the first argument, which is this array or the same in another order."""

        def method(array: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(array, name)(*args, **kwargs)

        replacement = REPLACEMENTS[name] if name in REPLACED_METHODS else None
        result = call_numpy(tx, name, method, args, kwargs, replacement=replacement)
        if name == "astype" and isinstance(result, ArrayValue):
            expect_exact_cast(tx, self.tensor, result.tensor)
        return result

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        if not self.is_scalar or self.fake.dtype is torch.bool or self.fake.is_complex():
            return super().graph_argument(tx)
        return tx.graph.argument(self.tensor.method(tx, "item", [], {}))

    def apply(
        self, tx: TraceContext, name: str, function: Callable[..., Any], args: list[Value]
    ) -> Value:
        """A function of arrays."""
        return call_numpy(tx, name, function, args, {})

    def as_index(self, tx: TraceContext) -> Value:
        if not self.fake.dim() or self.backwards or self.fake.dtype not in INDICES:
            return self
        is_long = self.fake.dtype in (torch.bool, torch.int64)
        return self.tensor if is_long else self.tensor.method(tx, "long", [], {})

    def iterator(self, tx: TraceContext) -> Value:
        if not self.fake.dim():
            raise self.unsupported_use("iteration")
        return ItemIterator(self)

    def length(self, tx: TraceContext) -> Value:
        if not self.fake.dim():
            raise self.unsupported_use("len()")
        return tx.wrap(self.fake.shape[0], None)

    def item(self, tx: TraceContext, key: Value) -> Value:
        known = key.python_type() is int and not isinstance(key, SymbolicNumber)
        if known and self.fake.dim() and not has_index(tx, self.fake.shape[0], key.constant()):
            size = tx.wrap(self.fake.shape[0], None).constant()
            sentence = f"index {key.constant()} is out of bounds for axis 0 with size {size}"
            raise tx.exceptions.new(IndexError, sentence)
        backwards = view_backwards(tx, self, (), key) if runs_backwards(key) else None
        if backwards is not None:
            return backwards
        view = self.view_by_varying_index(tx, key)
        if view is not None:
            return scalar_copy(tx, view) if not view.fake.dim() else view
        return call_numpy(tx, "getitem", lambda array, key: array[key], [self, key], {})

    def view_by_varying_index(self, tx: TraceContext, key: Value) -> ArrayValue | None:
        """The view that an index with an int that varies gives; None for other indices."""
        refuse_modes()
        view = select_varying(tx, self.tensor, self.fake.shape, key)
        if not isinstance(view, TensorValue):
            return None
        return ArrayValue(view, self.cls, None, self.read_only)

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        if isinstance(value, ARRAYS) and not numpy().can_cast(
            dtype_of(value.fake.dtype), dtype_of(self.fake.dtype)
        ):
            raise GraphBreak("unsupported-mutation", f"of {self.describe()} by another dtype")

        def store(array: Any, key: Any, value: Any) -> None:
            array[key] = value

        view = self.view_by_varying_index(tx, key)
        if view is not None:
            call_numpy(tx, "setitem", store, [view, Constant(...), value], {})
        else:
            call_numpy(tx, "setitem", store, [self, key, value], {})

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value:
        if self.is_scalar and not self.fake.is_floating_point():
            raise self.unsupported_use(op.name)
        return call_numpy(tx, op.name.strip("_"), op.function, [self], {})

    def reconstruct(self, emit: Emitter) -> None:
        if self.is_scalar:
            emit.call(scalar_of, [self.tensor])
        else:
            emit.call(read_only_array if self.read_only else torch.Tensor.numpy, [self.tensor])


ARRAYS = (ArrayValue, ReversedArray)


def scalar_copy(tx: TraceContext, element: ArrayValue) -> ArrayValue:
    """NumPy's scalar of an array without dimensions, in memory of its own."""
    copied = tx.graph.call("call_method", "clone", [element.tensor], {})
    assert isinstance(copied, TensorValue)
    return ArrayValue(copied, dtype_of(copied.fake.dtype).type)


def metadata(tx: TraceContext, array: ArrayValue, name: str) -> Value:
    """An attribute that does not depend on the elements."""
    fake, dtype = array.fake, dtype_of(array.fake.dtype)
    if name == "shape":
        return tx.make.tuple_of([tx.wrap(size, None) for size in fake.shape])
    if name == "strides":
        return tx.make.tuple_of([tx.wrap(step * dtype.itemsize, None) for step in fake.stride()])
    if name == "dtype":
        return Constant(dtype)
    sizes = {"size": fake.numel(), "nbytes": fake.numel() * dtype.itemsize, "ndim": fake.dim()}
    return tx.wrap(sizes.get(name, dtype.itemsize), None)


# calls


def call_numpy(
    tx: TraceContext,
    name: str,
    function: Callable[..., Any],
    args: list[Value],
    kwargs: dict[str, Value],
    implementation: Callable[..., Any] | None = None,
    replacement: Callable[..., Any] | None = None,
) -> Value:
    """function(*args, **kwargs) of NumPy's; `implementation` is torch._numpy's, if it is not the
    same function of other arrays, and `replacement` stands for it."""
    refuse_modes()
    arrays = list(arrays_in([*args, *kwargs.values()]))
    outline = name in ("getitem", "setitem") and len(arrays) == 1 + (name == "setitem")
    call = ArrayCall(tx, name, arrays, outline and is_plain_key(args[1]))
    if replacement is not None:
        implementation = partial(replacement, call.recorder)
    return call.run(function, implementation or function, args, kwargs)


def refuse_modes() -> None:
    """Breaks where torch's modes would change what its functions return, and not NumPy's."""
    if torch.is_autocast_enabled("cpu") or torch.get_default_device().type != "cpu":
        raise GraphBreak("unsupported-value", "NumPy under torch's autocast or default device")
    if torch._C._functorch.maybe_current_level() is not None:
        raise GraphBreak("unsupported-value", "NumPy in a torch.func transform")


def in_memory_order(tx: TraceContext, array: ReversedArray) -> ArrayValue:
    """A copy of the elements of an array, in its order."""
    dims = tx.make.tuple_of([Constant(dim) for dim in array.dims])
    made = tx.graph.function(torch.flip, array.array.tensor, dims)
    assert isinstance(made, TensorValue)
    return ArrayValue(made, array.cls, None, array.array.read_only, array.dims)


def arrays_in(values: Sequence[Value]) -> list[ArrayValue | ReversedArray]:
    found: list[ArrayValue | ReversedArray] = []
    for value in values:
        if isinstance(value, ARRAYS):
            found.append(value)
        elif isinstance(value, sequence.Sequence):
            found += arrays_in(value.items)
    return found


def is_plain_key(key: Value) -> bool:
    """Whether an index gives a view or a scalar."""
    items = key.items if isinstance(key, sequence.TupleValue) else [key]
    return not any(
        isinstance(item, ArrayValue | ReversedArray | sequence.Sequence) for item in items
    )


class ArrayCall:
    """A call of NumPy's on arrays, run on stand-ins by NumPy and on fakes by torch._numpy."""

    def __init__(
        self,
        tx: TraceContext,
        name: str,
        arrays: Sequence[ArrayValue | ReversedArray],
        outline: bool,
    ) -> None:
        self.tx, self.name = tx, name
        # by id of the value: the elements of a reversed array
        self.in_order = {
            id(array): in_memory_order(tx, array)
            for array in arrays
            if isinstance(array, ReversedArray)
        }
        self.arrays = [
            self.in_order[id(array)] if isinstance(array, ReversedArray) else array
            for array in arrays
        ]
        fakes = [array.fake for array in self.arrays]
        self.stand_ins = StandIns(fakes, outline, ones=name in FIND_ELEMENTS)
        self.recorder = OperationRecorder(tx, [array.tensor for array in self.arrays])
        self.made: dict[int, Any] = {}  # by id of the value: its stand-in
        self.wrapped: dict[int, Any] = {}

    def run(
        self,
        function: Callable[..., Any],
        implementation: Callable[..., Any],
        args: list[Value],
        kwargs: dict[str, Value],
    ) -> Value:
        """Calls `function` of NumPy on stand-ins, which tells the kind of the result, and
        `implementation`, the same in torch, on tensors of the graph, which computes it."""
        pairs = [self.operand(arg) for arg in args]
        named = {name: self.operand(arg) for name, arg in kwargs.items()}
        expected = run_on_stand_ins(
            lambda: function(
                *(pair[0] for pair in pairs), **{name: pair[0] for name, pair in named.items()}
            )
        )
        try:
            with numpy_defaults(), self.recorder:
                found = implementation(
                    *(pair[1] for pair in pairs), **{name: pair[1] for name, pair in named.items()}
                )
        except GraphBreak:
            raise
        except Exception as error:
            raise GraphBreak(
                "unknown-call", f"numpy.{self.name} ({type(error).__name__}: {error})"
            ) from error
        self.refuse_other_values(args, expected)
        self.refuse_reversed_memory(expected)
        for fact, otherwise in self.recorder.expected:
            self.tx.graph.expect(fact, GraphBreak("unknown-call", f"numpy.{self.name} {otherwise}"))
        return self.result(expected, found)  # outside: errors in it are framejit's own

    def refuse_other_values(self, args: list[Value], expected: Any) -> None:
        """Breaks where torch's functions have other values, or no error, for some dtypes."""
        integers = getattr(expected, "dtype", None) in INTEGERS_OF_NUMPY
        negative = self.name in POWERS and integers and not args[1].is_constant()
        rounded = self.name in ("round", "around") and integers
        masked = self.name in TAKES and any(one.fake.dtype is torch.bool for one in self.arrays)
        if negative or rounded or masked:
            raise GraphBreak("unknown-call", f"numpy.{self.name} of these dtypes")

    def refuse_reversed_memory(self, expected: Any) -> None:
        """Breaks where a call writes into a reversed array, or returns a part of it."""
        results = expected if type(expected) in (tuple, list) else [expected]
        for array in self.in_order.values():
            stand_in = self.made[id(array)]
            if is_written(array.tensor.node, for_sure=True) or any(
                is_array(one) and numpy().may_share_memory(one, stand_in) for one in results
            ):
                raise GraphBreak("unsupported-value", f"numpy.{self.name} of a reversed array")

    def operand(self, value: Value) -> tuple[Any, Any]:
        """An operand for NumPy, and for torch._numpy."""
        return self.known_operand(self.tx.look(value))

    @singledispatchmethod
    def known_operand(self, value: Value) -> tuple[Any, Any]:
        raise value.unsupported_use(f"as an argument of numpy.{self.name}")

    @known_operand.register
    def _(self, value: ArrayValue) -> tuple[Any, Any]:
        return self.array(value)

    @known_operand.register
    def _(self, value: ReversedArray) -> tuple[Any, Any]:
        return self.array(self.in_order[id(value)])

    @known_operand.register
    def _(self, value: VaryingScalar) -> tuple[Any, Any]:
        return value.cls(number_now(value.number)), self.varying(value)

    @known_operand.register
    def _(self, value: SymbolicNumber) -> tuple[Any, Any]:
        if value.sym.node.hint is not None:
            return number_now(value), value.sym
        if value.python_type() is not float:
            raise value.unsupported_use(f"as an argument of numpy.{self.name}")
        return 1.5, value.sym

    @known_operand.register(ListValue)
    @known_operand.register(sequence.TupleValue)
    def _(self, value: sequence.Sequence) -> tuple[Any, Any]:
        pairs = [self.operand(item) for item in value.all(self.tx)]
        make = list if isinstance(value, ListValue) else tuple
        return make(stand_in for stand_in, _ in pairs), make(given for _, given in pairs)

    @known_operand.register
    def _(self, value: SliceValue) -> tuple[Any, Any]:
        pairs = [self.operand(part) for part in value.parts]
        return slice(*(stand_in for stand_in, _ in pairs)), slice(*(given for _, given in pairs))

    @known_operand.register
    def _(self, value: ClassValue) -> tuple[Any, Any]:
        return value.cls, self.dtype(value.cls)

    @known_operand.register
    def _(self, value: Constant) -> tuple[Any, Any]:
        literal = value.object
        if isinstance(literal, numpy().dtype):
            return literal, self.dtype(literal)
        if not is_scalar(literal):
            return literal, literal
        tensor = literal_tensor(self.tx, numpy().asarray(literal))
        return literal, torch_numpy().ndarray(self.recorder.object(tensor))

    def array(self, value: ArrayValue) -> tuple[Any, Any]:
        if id(value) not in self.made:
            # one number fits any elements that are written
            written = self.name == "setitem" and value is self.arrays[-1] is not self.arrays[0]
            array = self.stand_ins.make(value.fake, 1 if written else EXAMPLE_SIZE)
            if value.backwards:
                array = reverse(array, value.backwards)
            if value.read_only:
                array.flags.writeable = False
            self.made[id(value)] = array[()] if value.is_scalar else array
            self.wrapped[id(value)] = torch_numpy().ndarray(value.fake)
        return self.made[id(value)], self.wrapped[id(value)]

    def varying(self, value: VaryingScalar) -> Any:
        """The tensor of a scalar that varies."""
        name = value.cls.__name__
        if name not in ("float64", "float32", "int64"):
            raise value.unsupported_use(f"as an argument of numpy.{self.name}")
        dtype = Constant(getattr(torch, name))
        tensor = self.tx.graph.function(torch.scalar_tensor, value.number, dtype=dtype)
        return torch_numpy().ndarray(self.recorder.object(tensor))

    def dtype(self, given: Any) -> str:
        """The name of a dtype, by which torch._numpy knows it."""
        try:
            name: str = numpy().dtype(given).name
        except TypeError as error:
            raise GraphBreak("unsupported-value", f"{given!r} as a dtype") from error
        if name not in ARRAY_DTYPES:
            raise GraphBreak("unsupported-value", f"NumPy's dtype {name}")
        return name

    def result(self, expected: Any, found: Any) -> Value:
        """The value of a result of torch._numpy, which has to be like NumPy's."""
        if is_array(expected) or is_scalar(expected):
            return self.array_result(expected, found)
        if type(expected) in (tuple, list) and isinstance(found, tuple | list):
            if len(expected) == len(found):
                items = [self.result(*pair) for pair in zip(expected, found, strict=True)]
                make = self.tx.make
                return make.list_of(items) if type(expected) is list else make.tuple_of(items)
        if expected is None:  # torch._numpy may return what it has written into
            return Constant(None)
        raise GraphBreak("unsupported-value", f"a {type(expected).__name__} from numpy.{self.name}")

    def array_result(self, expected: Any, found: Any) -> Value:
        """The value of an array or scalar. expected: NumPy's result for stand-ins, found:
        torch's."""
        if not isinstance(found, torch_numpy().ndarray):
            raise GraphBreak(
                "unsupported-value", f"a {type(expected).__name__} from numpy.{self.name}"
            )
        same = next((one for one in self.arrays if self.made.get(id(one)) is expected), None)
        if same is not None and is_array(expected):
            if found.tensor is not same.fake and not is_same_view(found.tensor, same.fake):
                raise same.unsupported_use(f"as the result of numpy.{self.name}")
            self.expect_no_warning(same)
            return same
        tensor = self.recorder.value(found.tensor)
        assert isinstance(tensor, TensorValue)
        if has_unknown_sizes(self.tx, tensor.fake) and not expected.size:
            raise GraphBreak("data-dependent-shape", f"numpy.{self.name}")
        layout = compare_results(expected, tensor.fake, self.stand_ins)
        read_only = is_array(expected) and not expected.flags.writeable
        operands = [array.fake for array in self.arrays]
        laid_out = lay_out_result(self.tx, tensor, layout, operands, self.stand_ins)
        result = ArrayValue(laid_out, type(expected), None, read_only)
        self.expect_no_warning(result)
        return result

    def expect_no_warning(self, result: ArrayValue) -> None:
        """Expects that NumPy does not warn of a result, or raise, as numpy.errstate says."""
        fake = result.fake
        if self.name not in WITHOUT_WARNINGS and (fake.is_floating_point() or fake.is_complex()):
            expect_finite(self.tx, result.tensor, self.name)
