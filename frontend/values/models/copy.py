"""copy.copy and copy.deepcopy of containers, literals and plain objects."""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import InstanceDict
from ..base import Value
from ..constant import Constant
from ..function import BuiltinValue, FunctionValue
from ..klass import HEAP_TYPE, IMMUTABLE_TYPE, MISSING, lookup
from ..mapping import DictValue, SetValue
from ..registry import models
from ..sequence import ListValue, TupleValue
from ..tensor import TensorValue
from ..user_object import UserObject

if TYPE_CHECKING:
    from ..context import TraceContext

HOOKS = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")


def plain_object(obj: Value) -> bool:
    """Whether copies of an object are made of its instance dictionary and nothing else."""
    if type(obj) is not UserObject or obj.base is not None or type(obj.cls).__module__ == "torch":
        return False
    ways = [lookup(obj.cls, name)[0] for name in HOOKS]
    slots = any("__slots__" in vars(base) for base in obj.cls.__mro__)
    by_statement = all(base is object or base.__flags__ & (HEAP_TYPE | IMMUTABLE_TYPE) == HEAP_TYPE for base in obj.cls.__mro__)
    own = [lookup(obj.cls, name)[1] for name in ("__copy__", "__deepcopy__")]
    in_python = all(way is MISSING or type(way) is type(shallow) for way in own)
    plain = by_statement and in_python and obj.cls.__dictoffset__ != 0
    return plain and all(owner in (None, object) for owner in ways) and not slots


@models(copy.copy)
def shallow(tx: TraceContext, obj: Value) -> Value:
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue | TupleValue):
        return obj
    if isinstance(obj, ListValue | DictValue | SetValue):
        return obj.method(tx, "copy", [], {})
    if isinstance(obj, UserObject) and type(getattr(obj.cls, "__copy__", None)) is type(shallow):
        return obj.method(tx, "__copy__", [], {})
    if isinstance(obj, UserObject) and plain_object(obj):
        made = tx.new_object(obj.cls, [])
        assert isinstance(made, UserObject)
        for name in obj.names(tx):
            made.store(tx, name, obj.own_attribute(tx, name))
        return made
    raise GraphBreak("unknown-call", f"copy.copy() of {obj.describe()}")


@models(copy.deepcopy)
def deep(tx: TraceContext, obj: Value, memo: Value | None = None) -> Value:
    return DeepCopy(tx, memo or DictValue({})).copy(obj)


class DeepCopy:
    """One call of copy.deepcopy: what is met twice is copied once."""

    def __init__(self, tx: TraceContext, memo: Value) -> None:
        self.tx, self.memo = tx, memo
        self.made: dict[Value, Value] = {}
        self.storages: set[int] = set()  # of the fakes of tensors copied so far
        self.outside = 0  # how many of those tensors lie in memory that was there before

    def copy(self, obj: Value) -> Value:
        obj = self.tx.look(obj)
        if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue):
            return obj
        if obj not in self.made:
            rule = next((rule for family, rule in RULES if isinstance(obj, family)), None)
            if rule is None:
                raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
            self.made[obj] = rule(self, obj)
        return self.made[obj]

    def list(self, obj: ListValue) -> Value:
        if obj.cls is not list:
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        made = self.made[obj] = ListValue([])
        made.items = [self.copy(item) for item in obj.all(self.tx)]
        return made

    def tuple(self, obj: TupleValue) -> Value:
        items = obj.all(self.tx)
        copied = [self.copy(item) for item in items]
        same = all(a is b for a, b in zip(items, copied, strict=True))
        return obj if same else TupleValue(copied, None, obj.cls)

    def dict(self, obj: DictValue) -> Value:
        if obj.attributes:
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()} with attributes")
        made = self.made[obj] = DictValue({}, cls=obj.cls, default_factory=obj.default_factory)
        for key, value in obj.pairs(self.tx):
            made.put(self.tx, self.copy(key), self.copy(value))
        return made

    def set(self, obj: SetValue) -> Value:
        if not obj.is_known():
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        return obj.method(self.tx, "copy", [], {})

    def tensor(self, obj: TensorValue) -> Value:
        """Each in memory of its own: copies of tensors that share theirs would share, too."""
        fake, tx = obj.fake, self.tx
        plain = obj.cls is torch.Tensor and not (fake.requires_grad or fake.is_inference() or fake.device.type == "meta")
        if not plain or not fills_its_storage(fake):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        gradient = obj.attribute(tx, "grad")
        storage = fake.untyped_storage()._cdata
        if not gradient.is_constant() or gradient.constant() is not None or storage in self.storages or getattr(obj.real, "__dict__", None):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        self.storages.add(storage)
        existing = {item.value.fake.untyped_storage()._cdata for item in tx.graph.inputs if isinstance(item.value, TensorValue)}
        self.outside += storage in existing
        if self.outside > 1:
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}, which may share memory with another")
        if obj.source is not None:
            tx.guard(obj.source, Kind.PYTHON, ("fills its storage", fills_its_storage))
            tx.guard(InstanceDict(obj.source), Kind.KEYS, ())
        return tx.graph.call("call_method", "clone", [obj], {"memory_format": Constant(torch.preserve_format)})

    def object(self, obj: UserObject) -> Value:
        if type(getattr(obj.cls, "__deepcopy__", None)) is type(shallow):
            return obj.method(self.tx, "__deepcopy__", [self.memo], {})
        if not plain_object(obj):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        made = self.made[obj] = self.tx.new_object(obj.cls, [])
        assert isinstance(made, UserObject)
        for name in obj.names(self.tx):
            value = obj.own_attribute(self.tx, name)
            assert value is not None
            made.store(self.tx, name, self.copy(value))
        return made


def fills_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in all of its memory, each item once, so that a clone is all that a deep copy is."""
    if is_functorch_wrapped_tensor(tensor) or any(isinstance(n, torch.SymInt) for n in (*tensor.shape, *tensor.stride())):
        return False
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    plain = not tensor.is_conj() and not tensor.is_neg() and tensor.storage_offset() == 0
    return plain and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


RULES: tuple[tuple[type, Any], ...] = (
    (ListValue, DeepCopy.list), (TupleValue, DeepCopy.tuple), (DictValue, DeepCopy.dict), (SetValue, DeepCopy.set),
    (UserObject, DeepCopy.object), (TensorValue, DeepCopy.tensor),
)  # fmt: skip
