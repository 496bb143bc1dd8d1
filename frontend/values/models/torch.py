"""torch's Python-level functions and types that are not operators: modes, queries, tensor methods
with Python results."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
import torch.compiler

from ....backends.graph.exact_strides import has_exact_strides
from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import TensorProperty
from ..base import Value
from ..constant import Constant, call_now, fold
from ..containers.sequence import Sequence, TupleValue
from ..context import TraceContext
from ..modes.context_manager import ManagerMethod
from ..modes.mode_manager import AUTOCASTS, GRAD_MODES, ModeManager
from ..registry import method, models
from ..tensor.number_arithmetic import calculate
from ..tensor.read_number import can_be_node
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import TensorValue

# modes


def _manager(cls: type) -> None:
    @models(cls)
    def make(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        if args and not args[0].is_constant():  # used as a decorator without parentheses
            raise GraphBreak("unknown-call", f"{cls.__name__} as a decorator made inside")
        manager = ModeManager(
            cls, [a.constant() for a in args], {k: v.constant() for k, v in kwargs.items()}
        )
        if cls is torch.set_grad_enabled:
            manager.switch(tx)
        return manager


MANAGERS = (*GRAD_MODES, torch.inference_mode, *dict.fromkeys(AUTOCASTS))
for _cls in MANAGERS:
    _manager(_cls)


def _manager_function(function: FunctionType) -> None:
    @models(function)
    def call(tx: TraceContext, manager: Value, *args: Value) -> Value:
        """`type(manager).__enter__(manager)` and the same for __exit__, as ExitStack calls them."""
        if isinstance(manager, ModeManager):
            return ManagerMethod(manager, function.__name__).call(tx, list(args), {})
        return tx.calls.inline(tx.wrap(function, None), [manager, *args], {})


@method(torch.device, "__enter__", "__exit__")
def switch_device(tx: TraceContext, device: Constant, *args: Value) -> Value:
    """Left to Python: it decides where tensors are made that are made later without a device."""
    raise GraphBreak("unknown-call", f"entering or leaving {device.describe()}")


for _function in {getattr(_cls, name) for _cls in MANAGERS for name in ("__enter__", "__exit__")}:
    _manager_function(_function)


@models(torch._C._set_grad_enabled)
def set_grad_enabled(tx: TraceContext, enabled: Value) -> Value:
    tx.modes.set_grad(tx, enabled.truth(tx))
    return Constant(None)


# what is true while tracing


def _always(value: Any, *functions: Any) -> None:
    @models(*functions)
    def answer(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        return Constant(value)


@models(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def is_compiling(tx: TraceContext) -> Value:
    """True, except where nn.Module tests whether it may leave out hooks that are always called."""
    if tx.frames.innermost_globals() is vars(torch.nn.modules.module):
        return Constant(False)
    tx.frames.note_is_compiling()
    return Constant(True)


_always(
    False,
    torch.jit.is_scripting,
    torch.jit.is_tracing,
    torch.compiler.is_exporting,
    torch._C._is_tracing,
    ("torch.fx._symbolic_trace", "is_fx_tracing"),
    ("torch.onnx", "is_in_onnx_export"),
)
FUNCTIONAL: Any = torch.nn.functional
_always(
    None, torch._C._get_tracing_state, torch._C._log_api_usage_once,
    torch._C._functorch.maybe_get_level, torch._C._functorch.peek_interpreter_stack,
    FUNCTIONAL._verify_batch_size, FUNCTIONAL._verify_spatial_size,
)  # fmt: skip


# answered by a call now: guards cover the modes and the devices


def _call_now(function: Any) -> None:
    @models(function)
    def call(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        return fold(tx, function, list(args), kwargs)


@models(torch.is_grad_enabled)
def is_grad_enabled(tx: TraceContext) -> Value:
    tx.modes.require_known_grad_mode()
    return Constant(torch.is_grad_enabled())


for _function in (
    torch.is_inference_mode_enabled, torch.is_autocast_enabled,
    torch.get_autocast_dtype, torch.get_default_dtype, torch.are_deterministic_algorithms_enabled,
    torch.cuda.is_available, torch.accelerator.is_available, torch.accelerator.current_accelerator,
    torch.finfo, torch.iinfo, torch.device,
    torch._C._are_functorch_transforms_active,
):  # fmt: skip
    _call_now(_function)


@models(torch._C._nn._parse_to)
def parse_to(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
    """The arguments of to(), which may be a tensor whose device and dtype are meant."""
    like = tx.look(args[0]) if args else None
    if isinstance(like, TensorValue):
        args = (Constant(like.fake.device), Constant(like.fake.dtype), *args[1:])
    return fold(tx, torch._C._nn._parse_to, list(args), kwargs)


@models(torch.Size)
def size(tx: TraceContext, items: Value | None = None) -> Value:
    return TupleValue([] if items is None else list(items.unpack(tx)), None, torch.Size)


@models(torch.is_tensor)
def is_tensor(tx: TraceContext, obj: Value) -> Value:
    return Constant(issubclass(obj.python_type(), torch.Tensor))


@models(torch.get_default_device)
def get_default_device(tx: TraceContext) -> Value:
    if tx.modes.open:
        raise GraphBreak(
            "unknown-call", "torch.get_default_device() beside modes that are entered here"
        )
    return Constant(torch.get_default_device())  # guarded with the modes


@models(torch.nn.Parameter)
def parameter(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
    raise GraphBreak("unknown-call", "torch.nn.Parameter() inside a compiled function")


@models(torch._assert)
def torch_assert(tx: TraceContext, condition: Value, message: Value) -> Value:
    if isinstance(condition, TensorValue):
        if condition.fake.dim() != 0 or not can_be_node(tx, condition):
            return tx.graph.function(torch._assert, condition, message)
        fact = tx.graph.function(torch.ne, condition, Constant(0))
        condition = fact.method(tx, "item", [], {})
    if expect_true(tx, condition).constant():
        return Constant(None)
    raise tx.exceptions.new_of_values(AssertionError, [message])


@models(torch._check)
def torch_check(tx: TraceContext, condition: Value, message: Value | None = None) -> Value:
    if expect_true(tx, condition).constant():
        return Constant(None)
    raise GraphBreak("exception-leaves", "RuntimeError of torch._check")


@models(torch._check_is_size)
def check_is_size(
    tx: TraceContext, number: Value, message: Value | None = None, *, max: Value | None = None
) -> Value:
    torch_check(tx, tx.objects.compare(">=", number, Constant(0)))
    if max is not None and not max.is_none():
        torch_check(tx, tx.objects.compare("<=", number, max))
    return Constant(None)


@models(("torch.fx.experimental.symbolic_shapes", "expect_true"))
def expect_true(tx: TraceContext, condition: Value, skip: Value | None = None) -> Value:
    """The truth of a condition that torch._check and its kind ask for. They raise where it is
    wrong, so it is assumed of a number that only values tell, and checked by each call."""
    if isinstance(condition, SymbolicNumber):
        return Constant(condition.expect(True))
    return Constant(condition.truth(tx))


@models(torch.diff)
def torch_diff(
    tx: TraceContext,
    input: Value,
    n: Value | None = None,
    dim: Value | None = None,
    prepend: Value | None = None,
    append: Value | None = None,
) -> Value:
    """torch.diff by slices where sizes vary: some versions of torch read the sizes as numbers."""
    parts = [part for part in (prepend, input, append) if part is not None and not part.is_none()]
    n, dim = n or Constant(1), dim or Constant(-1)
    times, along = n.constant(), dim.constant()
    varies = all(isinstance(part, TensorValue) for part in parts) and any(
        has_symbols(part) for part in parts
    )
    if not varies or type(times) is not int or times < 1 or type(along) is not int:
        more = {"prepend": prepend, "append": append}
        given = {name: value for name, value in more.items() if value is not None}
        return tx.graph.function(torch.diff, input, n, dim, **given)
    value = input if len(parts) == 1 else tx.graph.function(torch.cat, TupleValue(parts), dim)
    for _ in range(times):
        later = tx.graph.function(SLICE, value, dim, Constant(1))
        earlier = tx.graph.function(SLICE, value, dim, Constant(0), Constant(-1))
        boolean = isinstance(value, TensorValue) and value.fake.dtype is torch.bool
        value = tx.graph.function(torch.logical_xor if boolean else torch.sub, later, earlier)
    return value


SLICE = torch.ops.aten.slice.Tensor


@models(torch._C._nn.pad_sequence)
def pad_sequence(
    tx: TraceContext,
    sequences: Value,
    batch_first: Value | None = None,
    padding_value: Value | None = None,
    padding_side: Value | None = None,
) -> Value:
    """torch.nn.utils.rnn.pad_sequence. Where lengths vary by writes into the padded tensor, as
    torch's own reads the lengths as numbers; on the left too, which its decomposition of 2.11 does
    not know."""
    batch_first, padding_value = batch_first or Constant(False), padding_value or Constant(0.0)
    padding_side = padding_side or Constant("right")
    items = [tx.look(item) for item in sequences.unpack(tx)]
    tensors = [item for item in items if isinstance(item, TensorValue)]
    alike = {(one.fake.dtype, one.fake.device, one.fake.dim()) for one in tensors}
    on_the_left = padding_side.constant() == "left"
    by_writes = on_the_left or any(map(has_symbols, tensors))
    if len(tensors) < len(items) or len(alike) != 1 or not by_writes:
        given = (sequences, batch_first, padding_value, *[padding_side] * on_the_left)
        return tx.graph.function(torch._C._nn.pad_sequence, *given)
    lengths = [tensor_size(tx, one, Constant(0)) for one in tensors]
    longest = lengths[0]
    for length in lengths[1:]:
        longest = calculate(tx, torch.sym_max, longest, length) or longest
    sizes = [tensor_size(tx, tensors[0], Constant(dim)) for dim in range(tensors[0].fake.dim())]
    rows = [Constant(len(tensors)), longest]
    if not batch_first.truth(tx):
        rows.reverse()
    shape = TupleValue([*rows, *sizes[1:]])
    padded = tx.graph.call("call_method", "new_full", [tensors[0], shape, padding_value], {})
    along = Constant(int(rows[0] is longest))
    for index, (one, length) in enumerate(zip(tensors, lengths, strict=True)):
        first: Value = Constant(None)
        last: Value = length
        if on_the_left:
            first, last = tx.objects.operate("-", longest, length), Constant(None)
        row = tx.graph.function(SELECT, padded, along, Constant(index))
        part = tx.graph.function(SLICE, row, Constant(0), first, last)
        tx.graph.call("call_method", "copy_", [part, one], {})
    return padded


SELECT = torch.ops.aten.select.int


def has_symbols(value: Value) -> bool:
    return isinstance(value, TensorValue) and not all(
        isinstance(size, int) for size in value.fake.shape
    )


# tensor methods with Python results


@method(torch.Tensor, "size")
def tensor_size(tx: TraceContext, self: TensorValue, dim: Value | None = None) -> Value:
    if dim is None or dim.is_none():
        return tx.wrap(self.fake.shape, None)
    return fold(tx, self.fake.size, [dim], {})


@method(torch.Tensor, "stride")
def tensor_stride(tx: TraceContext, self: TensorValue, dim: Value | None = None) -> Value:
    if (
        self.source is None
        and tx.symbols.exist
        and any(type(size) is int and size == 1 for size in self.fake.shape)
        and not has_exact_strides(self.node)
    ):
        # symbolic shapes give it another
        raise self.unsupported_use("the stride of a dimension of one element, where sizes vary")
    if dim is None or dim.is_none():
        return tx.wrap(self.fake.stride(), None)
    return fold(tx, self.fake.stride, [dim], {})


def _query(name: str) -> None:
    @method(torch.Tensor, name)
    def query(tx: TraceContext, self: TensorValue, *args: Value, **kwargs: Value) -> Value:
        # refused in the words for a method that is looked up to be called: those for a bound one
        # name the class
        if args or kwargs:
            call_now(tx, getattr(torch._C.TensorBase, name), self.fake, *args, **kwargs)
            raise GraphBreak("exception-leaves", f"TypeError of Tensor.{name}()")
        return fold(tx, getattr(self.fake, name), [], {})


for _name in "dim ndimension numel nelement element_size get_device __len__".split():
    _query(_name)


@method(torch.Tensor, "storage_offset")
def tensor_storage_offset(tx: TraceContext, self: TensorValue) -> Value:
    """The storage offset, guarded here: that of a result may follow from that of an input."""
    offset = self.fake.storage_offset()
    if self.source is None:
        raise GraphBreak("data-dependent-value", f"`.storage_offset()` of {self.describe()}")
    if isinstance(offset, int):
        tx.guards.add(TensorProperty(self.source, "storage_offset", 0), Kind.EQUALS, offset)
    return fold(tx, self.fake.storage_offset, [], {})


def _reads_value(name: str, text: str) -> None:
    @method(torch.Tensor, name)
    def read(tx: TraceContext, self: TensorValue, **kwargs: Value) -> Value:
        raise GraphBreak("data-dependent-value", f"`{text}` of {self.describe()}")


for _name in ("bool", "index"):
    _reads_value(f"__{_name}__", f"{_name}()")


@method(torch.Tensor, "data_ptr", "untyped_storage", "storage", "storage_type", "__dlpack__")
@method(torch.Tensor, "register_post_accumulate_grad_hook")
def tensor_memory(tx: TraceContext, self: TensorValue, *args: Value, **kwargs: Value) -> Value:
    raise self.unsupported_use("memory or hooks")


@method(torch.Tensor, "requires_grad_")
def tensor_requires_grad(
    tx: TraceContext, self: TensorValue, requires_grad: Value | None = None
) -> Value:
    if requires_grad is not None and requires_grad.python_type() is not bool:
        raise GraphBreak("exception-leaves", "TypeError of Tensor.requires_grad_()")
    wanted = requires_grad is None or requires_grad.truth(tx)
    if wanted == self.fake.requires_grad:
        return self
    if self.source is not None or not self.fake.is_leaf:
        raise GraphBreak("unsupported-mutation", f"of the metadata of {self.describe()}")
    return tx.graph.call("call_method", "requires_grad_", [self, Constant(wanted)], {})


@method(torch.Tensor, "addcdiv_")
def tensor_addcdiv(
    tx: TraceContext,
    self: TensorValue,
    tensor1: Value,
    tensor2: Value,
    *,
    value: Value | None = None,
) -> Value:
    """addcdiv where `value` is a tensor, which eager reads as a number: multiplied in the order of
    the CPU kernel."""
    named = {} if value is None else {"value": value}
    parts = [self, tensor1, tensor2, value]
    if not isinstance(value, TensorValue) or not all(
        isinstance(part, TensorValue) for part in parts
    ):
        return tx.graph.call("call_method", "addcdiv_", [self, tensor1, tensor2], named)
    fakes = [part.fake for part in parts if isinstance(part, TensorValue)]
    gradients = torch.is_grad_enabled() and any(fake.requires_grad for fake in fakes)
    # what Python would calculate; the kernel takes it as precise as the tensors are
    if value.fake.dtype is torch.float64:
        value = tx.graph.call("call_method", "to", [value, Constant(self.fake.dtype)], {})
        assert isinstance(value, TensorValue)
        fakes[-1] = value.fake
    alike = (
        {fake.dtype for fake in fakes},
        {fake.device for fake in fakes if fake is not value.fake or fake.device.type != "cpu"},
    )
    if (
        max(len(alike[0]), len(alike[1])) > 1
        or gradients
        or value.fake.dim()
        or self.fake.dtype not in (torch.float32, torch.float64)
    ):
        return tx.graph.call("call_method", "addcdiv_", parts[:3], named)  # type: ignore[arg-type]
    scaled = tx.graph.function(torch.mul, value, tensor1)
    return tx.graph.call(
        "call_method",
        "add_",
        [self, tx.graph.function(torch.div, scaled, tensor2)],
        {},
    )


@models(torch._foreach_addcdiv_)
def foreach_addcdiv(
    tx: TraceContext,
    selves: Value,
    tensors1: Value,
    tensors2: Value,
    *scalars: Value,
    **named: Value,
) -> Value:
    """_foreach_addcdiv_ whose factors are tensors: one addcdiv_ for each tensor (see
    tensor_addcdiv)."""
    factors = (
        scalars[0].unpack(tx) if scalars and isinstance(scalars[0], Sequence | TensorValue) else []
    )
    if named or not any(isinstance(factor, TensorValue) for factor in factors):
        return tx.graph.function(
            torch._foreach_addcdiv_, selves, tensors1, tensors2, *scalars, **named
        )
    columns = [part.unpack(tx) for part in (selves, tensors1, tensors2)]
    if any(len(column) != len(factors) for column in columns):
        raise GraphBreak("exception-leaves", "RuntimeError of _foreach_addcdiv_")
    for tensor, first, second, factor in zip(*columns, factors, strict=True):
        tensor.method(tx, "addcdiv_", [first, second], {"value": factor})
    return Constant(None)


@method(torch.Tensor, "set_", "resize_", "resize_as_", "t_", "transpose_", "squeeze_", "unsqueeze_",
"swapaxes_",
        "swapdims_", "as_strided_", "swap_tensors", "share_memory_", "rename_", "detach_",
        "apply_", "map_")  # fmt: skip
def tensor_metadata(tx: TraceContext, self: TensorValue, *args: Value, **kwargs: Value) -> Value:
    raise GraphBreak("unsupported-mutation", f"of the metadata of {self.describe()}")


@method(torch.Tensor, "_is_view")
def tensor_is_view(tx: TraceContext, self: TensorValue) -> Value:
    if self.source is not None:  # guards on tensors do not cover it
        raise self.unsupported_use("_is_view()")
    return Constant(self.fake._is_view())


@method(torch.Tensor, "is_shared", "is_pinned")
def tensor_kind_of_memory(tx: TraceContext, self: TensorValue, *args: Value) -> Value:
    raise self.unsupported_use("is_shared() or is_pinned()")  # a view of an input has the input's


@method(torch.Tensor, "type")
def tensor_type(
    tx: TraceContext, self: TensorValue, dtype: Value | None = None, **kwargs: Value
) -> Value:
    if dtype is None or dtype.is_none():
        return Constant(self.fake.type())
    return tx.graph.call("call_method", "type", [self, dtype], kwargs)


@method(torch.Tensor, "new")
def tensor_new(tx: TraceContext, self: TensorValue, *args: Value) -> Value:
    """Tensor.new(*sizes); of data it is left to Python."""
    given = [tx.look(arg) for arg in args]
    if len(given) == 1 and given[0].python_type() is torch.Size:
        return self.method(tx, "new_empty", given, {})
    if not all(issubclass(one.python_type(), int) for one in given):
        raise self.unsupported_use("Tensor.new")
    return self.method(tx, "new_empty", [TupleValue(given or [Constant(0)])], {})


@method(torch.Tensor, "__class_getitem__", "__deepcopy__", "__reduce_ex__", "__torch_function__")
def tensor_protocol(tx: TraceContext, self: TensorValue, *args: Value, **kwargs: Value) -> Value:
    raise self.unsupported_use("a protocol method")
