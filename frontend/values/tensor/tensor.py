"""Tensors: a graph node with a fake tensor, which has all properties but the values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.fx
from torch._C._functorch import is_functorch_wrapped_tensor

from ....backends.graph.memory import share_memory
from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, DictItem, InstanceDict, Source
from ..base import Args, Kwargs, Value
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import IdentityKey
from ..mutable import Mutable
from ..named_method import NamedMethod
from ..numpy.numpy_number import written_number
from ..operation import UnaryOperation
from ..registry import accepts, method_of
from .index_by_tensors import index_by_tensors
from .known_comparison import known_answer
from .varying_index import read_indices, select_beside_tensors, select_varying

CONSTANT_ATTRIBUTES = frozenset(
    "dtype device layout ndim requires_grad is_cuda is_cpu is_sparse is_quantized is_meta is_mps "
    "is_mkldnn is_nested is_xpu "
    "itemsize names is_sparse_csr is_mtia is_ipu is_xla is_maia is_vulkan".split()
)
GRAPH_ATTRIBUTES = frozenset("T mT H mH real imag data".split())
# in the meta of a node that operators take in place of a tensor with other data
STANDS_FOR_ANOTHER = "stands_for_another"
PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)


class TensorValue(Value):
    """A tensor. `cls` is the class that Python code sees (Parameter, Tensor, ...). `gradient` is
    the stored .grad, `data` the stored .data, if the program stored one."""

    __slots__ = ("node", "fake", "cls", "real", "gradient", "data")

    def __init__(
        self,
        node: torch.fx.Node,
        fake: torch.Tensor,
        source: Source | None = None,
        cls: type = torch.Tensor,
        real: torch.Tensor | None = None,
    ) -> None:
        super().__init__(source)
        self.node, self.fake, self.cls, self.real = node, fake, cls, real
        self.gradient: Gradient | None = None
        self.data: Data | None = None

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        if self.data is not None and self.data.stored is not None:
            return self.data.graph_argument(tx)
        return self.node, self.fake

    def require_own_data(self) -> None:
        """Breaks where the program has replaced its data, for uses of its node."""
        if self.current_data() is not self:
            raise self.unsupported_use("after its .data was replaced")

    def current_data(self) -> TensorValue:
        """The tensor on whose memory it is: itself, or what the program has stored as its data."""
        return self if self.data is None or self.data.stored is None else self.data.stored

    def as_seen(self) -> Value:
        """The value that the program sees, given the one that operators take."""
        return self

    def describe(self) -> str:
        where = f" '{self.source.name}'" if self.source is not None else ""
        return f"a tensor{where}"

    def key(self, tx: TraceContext) -> Any:
        if self.real is not None:
            tx.objects.identity_key(self, self.real)
        return IdentityKey(self)

    def truth(self, tx: TraceContext) -> bool:
        answer = known_answer(self.node) if self.fake.numel() == 1 else None
        if answer is not None:
            return answer
        raise GraphBreak(
            "data-dependent-branch", f" '{self.source.name}'" if self.source is not None else ""
        )

    def attribute(self, tx: TraceContext, name: str) -> Value:
        """By what its name is in the tables: computed here, equal for equal metadata, a node, a
        method, or an attribute that the program stored."""
        handler = ATTRIBUTES.get(name)
        if handler is not None:
            return handler(tx, self)
        if name in CONSTANT_ATTRIBUTES and hasattr(self.fake, name):
            return tx.wrap(getattr(self.fake, name), None)
        if name == "data":
            return tx.graph.function(getattr, self.current_data(), Constant(name))
        if name in GRAPH_ATTRIBUTES:
            return tx.graph.function(getattr, self, Constant(name))
        if not hasattr(self.cls, name):
            return self.own_attribute(tx, name)
        if name.startswith("__") or not callable(getattr(self.cls, name)):
            raise self.unsupported_use(f"attribute {name}")
        return TensorMethod(self, name)

    def own_attribute(self, tx: TraceContext, name: str) -> Value:
        """An attribute that the program has stored on the tensor, which its class does not
        define."""
        path = self.source and InstanceDict(self.source)
        own = {} if self.real is None else self.real.__dict__
        if name in own:
            return tx.wrap(own[name], path and DictItem(path, name))
        tx.guards.add(path, Kind.ABSENT, name)
        raise tx.exceptions.no_attribute(self.cls.__name__, name)

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if name == "requires_grad" and value.python_type() is bool and self.is_leaf(tx):
            self.method(tx, "requires_grad_", [value], {})
            return
        if name == "data" and isinstance(value, TensorValue):
            self._set_data(tx, value)
            return
        if name != "grad" or not self._takes_gradient(tx, value):
            raise GraphBreak("unsupported-mutation", f"of attribute '{name}' of {self.describe()}")
        if self.gradient is None:
            self.gradient = Gradient(self)
        tx.effects.change(self.gradient)
        self.gradient.stored = value

    def _set_data(self, tx: TraceContext, value: TensorValue) -> None:
        """self.data = value, which is done after the graph has run."""
        before, after = self.current_data().fake, value.fake
        if is_same_window(before, after):  # `p.data -= x` stores what it has written into
            return
        if not self._takes_data(value):
            raise GraphBreak("unsupported-mutation", f"of attribute 'data' of {self.describe()}")
        if self.data is None:
            self.data = Data(self)
        tx.effects.change(self.data)
        self.data.stored = value

    def _takes_data(self, value: TensorValue) -> bool:
        """Whether a tensor can be the data of this existing one, with nothing of it known by now
        that would change."""
        mine, its = self.fake, value.fake
        return (
            self.source is not None
            and self.cls in PLAIN_CLASSES
            and value.current_data() is value
            and type(mine) is type(its)
            and mine.layout is its.layout is torch.strided
            and all(type(size) is int for size in (*mine.shape, *its.shape))
            and (mine.dtype, mine.device, mine.shape) == (its.dtype, its.device, its.shape)
            and mine.stride() == its.stride()
            and mine.storage_offset() == its.storage_offset()
            and not (mine.is_inference() or its.is_inference())
            and not (its.is_conj() or its.is_neg() or mine.is_conj() or mine.is_neg())
            and torch._C._functorch.maybe_current_level() is None
        )

    def del_attribute(self, tx: TraceContext, name: str) -> None:
        if name != "grad":
            super().del_attribute(tx, name)
        self.set_attribute(tx, name, Constant(None))  # as torch does

    def _takes_gradient(self, tx: TraceContext, value: Value) -> bool:
        """Whether torch would accept this as the .grad of an existing tensor."""
        if self.source is None or not self.is_leaf(tx) or self.fake.is_inference():
            return False
        if not isinstance(value, TensorValue):
            return value.is_none()
        if not self._plain_gradient(tx):
            return False
        mine, its = ((fake.dtype, fake.device, *fake.shape) for fake in (self.fake, value.fake))
        plain = not any(
            isinstance(size, torch.SymInt) for size in (*mine, *its)
        ) and not is_functorch_wrapped_tensor(value.fake)
        return plain and mine == its and not self.is_same(value)

    def is_leaf(self, tx: TraceContext) -> bool:
        """Whether the tensor is a leaf of autograd now; whether an existing one was is guarded
        (where it takes no gradients it always is)."""
        if self.source is not None and self.real is not None and self.real.requires_grad:
            self.ask_autograd(tx, "is_leaf")
        return self.fake.is_leaf

    def ask_autograd(self, tx: TraceContext, name: str) -> bool:
        """The value of an attribute of an existing tensor before the frame that guards on tensors
        do not cover; guarded."""
        assert self.source is not None and self.real is not None
        return tx.wrap(getattr(self.real, name), AttrSource(self.source, name)).truth(tx)

    def _plain_gradient(self, tx: TraceContext) -> bool:
        """Whether gradients must have the tensor's own dtype; guarded."""
        path = AttrSource(self.source, "grad_dtype") if self.source is not None else None
        real: Any = self.real
        return (
            not hasattr(real, "grad_dtype")
            or tx.wrap(real.grad_dtype, path).constant() == self.fake.dtype
        )

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        handler = method_of(torch.Tensor, name)
        if handler is not None and accepts(handler, len(args) + 2, kwargs):
            return handler(tx, self, *args, **kwargs)
        if not hasattr(self.cls, name):
            return self.own_attribute(tx, name).call(tx, args, kwargs)
        return tx.graph.call("call_method", name, [self, *args], kwargs)

    def iterator(self, tx: TraceContext) -> Value:
        return self.method(tx, "unbind", [], {}).iterator(tx)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return self.method(tx, "__reversed__", [], {})  # a tensor, of which no iterator is made

    def length(self, tx: TraceContext) -> Value:
        if self.fake.dim() == 0:
            raise tx.exceptions.new(TypeError, "len() of a 0-d tensor")
        return tx.wrap(self.fake.shape[0], None)

    def item(self, tx: TraceContext, key: Value) -> Value:
        if tx.modes.indexes_by_tensors:
            found = index_by_tensors(tx, self, key)
            if found is not None:
                return found
        self._check_rows(tx, key)
        key = read_indices(tx, key)
        found = select_varying(tx, self, self.fake.shape, key)
        if found is not None:
            return found
        of, key = select_beside_tensors(tx, self, self.fake.shape, key) or (self, key)
        return tx.graph.function(operator.getitem, of, key)

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        self._check_rows(tx, key)
        key = read_indices(tx, key)
        self._check_mask(tx, key)
        found = select_varying(tx, self, self.fake.shape, key)
        if found is not None:
            found.set_item(tx, Constant(...), value)
            return
        of, key = select_beside_tensors(tx, self, self.fake.shape, key) or (self, key)
        tx.graph.function(operator.setitem, of, key, written_number(tx, tx.look(value)))

    def _check_mask(self, tx: TraceContext, key: Value) -> None:
        """Checks the sizes of a mask, which fake tensors do not: an assignment to what nothing
        reads may be dropped, and its error with it."""
        key = tx.look(key)
        if not isinstance(key, TensorValue) or key.fake.dtype is not torch.bool:
            return
        sizes = zip(key.fake.shape, self.fake.shape, strict=False)
        fits = key.fake.dim() <= self.fake.dim() and not any(
            type(one) is type(other) is int and one != other for one, other in sizes
        )
        if not fits:
            raise GraphBreak(
                "exception-leaves", "IndexError of a mask that does not fit its tensor"
            )

    def _check_rows(self, tx: TraceContext, key: Value) -> None:
        """Checks a list of numbers as index, which fake tensors do not: a graph that raises may
        have changed inputs before."""
        if key.python_type() is not list or self.fake.device.type != "cpu" or not self.fake.dim():
            return
        items = key.unpack(tx)
        rows = [item.constant() for item in items if item.is_constant()]
        if not rows or len(rows) < len(items) or not all(type(row) is int for row in rows):
            return
        if not -self.fake.shape[0] <= min(rows) <= max(rows) < self.fake.shape[0]:
            size = int(self.fake.shape[0])
            wrong = next(row for row in rows if not -size <= row < size)
            sentence = f"index {wrong} is out of bounds for dimension 0 with size {size}"
            raise tx.exceptions.new(
                IndexError, sentence if size else "index is out of bounds for dimension with size 0"
            )

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return tx.graph.call("call_method", "__contains__", [self, item], {})

    def is_same(self, other: Value) -> bool:
        # Two values of one node are one object: in-place methods return the node they were called
        # on.
        return isinstance(other, TensorValue) and self.node is other.node

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_output(self, self.node)

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value:
        return tx.graph.function(op.function, self)


class StoredAttribute(Mutable):
    """An attribute of a tensor that existed before the frame. `stored` is the new one, None while
    it is unchanged."""

    __slots__ = ("of", "stored")
    state = ("stored",)
    name: str
    stored: Any  # a Value or None

    def __init__(self, of: TensorValue) -> None:
        super().__init__(of.source)
        self.of, self.stored = of, None

    def python_type(self) -> type:
        return self.of.cls  # of the two objects it is the tensor that must be no other

    def emit_changes(self, emit: Emitter) -> None:
        emit.push(self.stored)
        emit.push(self.of)
        emit.builder.store_attr(self.name)


class Gradient(StoredAttribute):
    """The .grad of a tensor."""

    __slots__ = ()
    name = "grad"

    def lost_objects(self, tx: TraceContext) -> Iterable[Any] | None:
        return None if self.of.real is None else [self.of.real.grad]


class Data(StoredAttribute):
    """The .data of a tensor: `stored` is the tensor whose memory it shares since."""

    __slots__ = ()
    name = "data"

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        """What operators take for the tensor: a tensor on its new memory. With gradients it would
        have to be the leaf, which has other data while the graph runs."""
        if self.of.fake.requires_grad and torch.is_grad_enabled():
            raise self.of.unsupported_use("with gradients, after its .data was replaced")
        taken: Value = self.stored
        if self.stored.fake.requires_grad:
            taken = tx.graph.function(getattr, self.stored, Constant("data"))
        node, fake = tx.graph.argument(taken)
        node.meta[STANDS_FOR_ANOTHER] = True
        return node, fake


def is_same_window(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two fakes are one part of one memory, and show it in the same way."""
    return (
        share_memory(one, other)
        and one.dtype == other.dtype
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
    )


class TensorMethod(NamedMethod):
    """A method of a tensor."""

    __slots__ = ()

    def python_type(self) -> type:
        return type(getattr(torch.empty(0), self.name))


def _shape(tx: TraceContext, tensor: TensorValue) -> Value:
    return tx.wrap(tensor.fake.shape, None)


def _grad(tx: TraceContext, tensor: TensorValue) -> Value:
    if tensor.gradient is not None and tensor.gradient.stored is not None:
        return tensor.gradient.stored
    if tensor.source is None:
        if tensor.fake.is_leaf and not tensor.fake.requires_grad:
            return Constant(None)
        raise tensor.unsupported_use("attribute grad of a tensor made inside")
    real = tensor.real
    assert real is not None
    if not (tensor.is_leaf(tx) or tensor.ask_autograd(tx, "retains_grad")):
        raise tensor.unsupported_use(
            "attribute grad of a tensor that is no leaf, at which torch warns,"
        )
    return tx.wrap(real.grad, AttrSource(tensor.source, "grad"))


def _is_leaf(tx: TraceContext, tensor: TensorValue) -> Value:
    return Constant(tensor.is_leaf(tx))


def _node_attribute(name: str) -> Callable[[TraceContext, TensorValue], Value]:
    """Returns a rule that reads the autograd node of a tensor; no guard covers existing tensors."""

    def read(tx: TraceContext, tensor: TensorValue) -> Value:
        if tensor.source is not None and tensor.fake.requires_grad:
            raise tensor.unsupported_use(f"attribute {name}")
        return Constant(getattr(tensor.fake, name))

    return read


def _grad_fn(tx: TraceContext, tensor: TensorValue) -> Value:
    if tensor.is_leaf(tx):
        return Constant(None)
    raise tensor.unsupported_use("attribute grad_fn")


def _class(tx: TraceContext, tensor: TensorValue) -> Value:
    return tx.wrap(tensor.cls, None)


ATTRIBUTES = {
    "shape": _shape, "grad": _grad, "grad_fn": _grad_fn, "__class__": _class, "is_leaf": _is_leaf,
    "output_nr": _node_attribute("output_nr"), "retains_grad": _node_attribute("retains_grad"),
}  # fmt: skip
