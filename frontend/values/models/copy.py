"""copy.copy and copy.deepcopy of containers, literals and plain objects."""

from __future__ import annotations

import collections
import copy
import copyreg
import functools
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import InstanceDict
from ..base import CannotReconstruct, ObservedException, Value
from ..constant import Constant
from ..containers.deque import DequeValue
from ..containers.mapping import DictValue
from ..containers.sequence import ListValue, TupleValue
from ..containers.set import SetValue
from ..functions.builtin_function import BuiltinValue
from ..functions.function import FunctionValue
from ..objects.mro import HEAP_TYPE, IMMUTABLE_TYPE, lookup
from ..objects.user_object import UserObject, instance_dict
from ..registry import models
from ..tensor.tensor import TensorValue

if TYPE_CHECKING:
    from ..context import TraceContext
    from ..emitter import Emitter

Each = Callable[[Value], Value]  # what becomes of a part of the copied object: itself, or a copy
NO_OWN_WAY = (None, object)


def in_python(cls: type, name: str) -> bool:
    """Whether a class's method is written in Python, or is only the one of object."""
    owner, raw = lookup(cls, name)
    return owner in NO_OWN_WAY or type(raw) is FunctionType


def is_captured(obj: UserObject) -> bool:
    """Whether an object is copied by methods in Python and by state that is known."""
    cls = obj.cls
    if type(obj) is not UserObject or type(cls).__module__ == "torch":
        return False
    if cls in copyreg.dispatch_table or cls.__reduce_ex__ is not object.__reduce_ex__:
        return False
    builtin = (object,) if obj.base is None else (object, obj.base.python_type())
    by_statement = all(
        base in builtin or base.__flags__ & (HEAP_TYPE | IMMUTABLE_TYPE) == HEAP_TYPE
        for base in cls.__mro__
    )
    inside = obj.base is None or obj.base.python_type() in (list, dict)
    ways = ("__copy__", "__deepcopy__", "__reduce__", "__getstate__", "__setstate__")
    return (
        by_statement
        and inside
        and all(in_python(cls, name) for name in ways)
        and lookup(cls, "__getnewargs_ex__")[0] is None
    )


def reconstruct(
    tx: TraceContext, obj: UserObject, each: Each, note: Callable[[Value], Any]
) -> Value:
    """What the copy module makes of an object that has no __copy__ or __deepcopy__. `note` hears of
    the copy before it is filled."""
    if lookup(obj.cls, "__reduce__")[0] is not object:
        return by_reduction(tx, obj, obj.method(tx, "__reduce__", [], {}), each, note)
    if lookup(obj.cls, "__getnewargs__")[0] is not None:
        raise GraphBreak("unknown-call", f"a copy of {obj.describe()}, which has __getnewargs__()")
    made = tx.wrap(obj.cls, None).attribute(tx, "__new__").call(tx, [tx.wrap(obj.cls, None)], {})
    note(made)
    if lookup(obj.cls, "__getstate__")[0] is not object:
        set_state(tx, made, each(obj.method(tx, "__getstate__", [], {})))
    elif lookup(obj.cls, "__setstate__")[0] is not None:
        set_state(tx, made, each(state_of(tx, obj)))
    else:
        copy_attributes(tx, obj, made, each)
    if isinstance(obj.base, ListValue):
        for item in obj.unpack(tx):
            made.method(tx, "append", [each(item)], {})
    elif isinstance(obj.base, DictValue):
        for pair in obj.method(tx, "items", [], {}).unpack(tx):
            key, value = pair.unpack(tx)
            made.set_item(tx, each(key), each(value))
    return made


def slots_of(tx: TraceContext, obj: UserObject) -> dict[str, Value]:
    """The contents of an object's slots, as copyreg finds them."""
    names = copyreg._slotnames(obj.cls)  # type: ignore[attr-defined]
    found = {}
    for name in names:
        try:
            found[name] = obj.attribute(tx, name)
        except ObservedException as error:
            if not issubclass(error.cls, AttributeError):
                raise
    return found


def state_of(tx: TraceContext, obj: UserObject) -> Value:
    """object.__getstate__(obj)."""
    attributes: Value = Constant(None)
    if obj.cls.__dictoffset__ and obj.names(tx):
        attributes = tx.make.dict_of(
            [(Constant(name), obj.own_attribute(tx, name)) for name in obj.names(tx)]  # type: ignore[misc]
        )
    slots = slots_of(tx, obj)
    return (
        attributes
        if not slots
        else TupleValue(
            [attributes, tx.make.dict_of([(Constant(name), item) for name, item in slots.items()])]
        )
    )


def copy_attributes(tx: TraceContext, obj: UserObject, made: Value, each: Each) -> None:
    """Copies the attributes of an object into its copy."""
    assert isinstance(made, UserObject)
    slots = slots_of(tx, obj)
    if obj.cls.__dictoffset__:
        for name, value in [(name, each(obj.own_attribute(tx, name))) for name in obj.names(tx)]:  # type: ignore[arg-type]
            made.store(tx, name, value)
    for name, value in [(name, each(value)) for name, value in slots.items()]:
        made.set_attribute(tx, name, value)


def set_state(tx: TraceContext, made: Value, state: Value) -> None:
    if state.is_none():
        return
    if lookup(made.python_type(), "__setstate__")[0] is not None:
        made.method(tx, "__setstate__", [state], {})
        return
    slots = None
    if isinstance(state, TupleValue) and len(state.items) == 2:
        state, slots = state.all(tx)
    if state.truth(tx):
        made.attribute(tx, "__dict__").method(tx, "update", [state], {})
    if slots is not None and slots.truth(tx):
        for name, value in slots.mapping_pairs(tx):
            made.set_attribute(tx, name.constant(), value)


def by_reduction(
    tx: TraceContext, obj: UserObject, reduced: Value, each: Each, note: Callable[[Value], Any]
) -> Value:
    """Copies an object by the result of its class's __reduce__."""
    if reduced.python_type() is str:
        return obj
    if not isinstance(reduced, TupleValue) or not 2 <= len(reduced.items) <= 3:
        raise GraphBreak("unknown-call", f"a copy of {obj.describe()}, by its __reduce__()")
    function, arguments, *state = reduced.all(tx)
    made = function.call(tx, [each(item) for item in arguments.unpack(tx)], {})
    note(made)
    if state and not state[0].is_none():
        set_state(tx, made, each(state[0]))
    return made


def made_anew(tx: TraceContext, obj: TupleValue, items: list[Value]) -> Value:
    """Copies a tuple of a subclass by __new__ with its items."""
    if obj.cls in (tuple, torch.Size) or not hasattr(obj.cls, "_make"):
        return TupleValue(items, None, obj.cls)
    of = tx.wrap(obj.cls, None)
    return of.attribute(tx, "__new__").call(tx, [of, *items], {})


@models(copy.copy)
def shallow(tx: TraceContext, obj: Value) -> Value:
    if isinstance(obj, TupleValue) and hasattr(obj.cls, "_make"):
        return made_anew(tx, obj, obj.all(tx))
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue | TupleValue):
        return obj
    if isinstance(obj, ListValue | DictValue | SetValue):
        must_be_bare(tx, obj)
        return obj.method(tx, "copy", [], {})
    if isinstance(obj, UserObject) and type(getattr(obj.cls, "__copy__", None)) is FunctionType:
        return obj.method(tx, "__copy__", [], {})
    if isinstance(obj, UserObject) and is_captured(obj):
        return reconstruct(tx, obj, lambda part: part, lambda made: None)
    raise GraphBreak("unknown-call", f"copy.copy() of {obj.describe()}")


def must_be_bare(tx: TraceContext, obj: Value) -> None:
    """Guards that an OrderedDict has no attributes, since a copy would have them too."""
    if isinstance(obj, DictValue) and obj.cls is collections.OrderedDict:
        if obj.attributes or instance_dict(obj.real):
            raise GraphBreak("unknown-call", f"a copy of {obj.describe()} with attributes")
        tx.guards.add(obj.source and InstanceDict(obj.source), Kind.KEYS, ())


class Memo(DictValue):
    """The dictionary that __deepcopy__ is given. Objects copied before are found there by the same
    call of copy.deepcopy."""

    __slots__ = ("of",)

    def __init__(self, of: DeepCopy) -> None:
        super().__init__({})
        self.of = of

    def reconstruct(self, emit: Emitter) -> None:
        raise CannotReconstruct(self)


@models(copy.deepcopy)
def deep(tx: TraceContext, obj: Value, memo: Value | None = None) -> Value:
    if isinstance(memo, Memo):
        return memo.of.copy(obj)
    if memo is not None and not memo.is_none():
        raise GraphBreak("unknown-call", "copy.deepcopy() with a memo of the program's own")
    return DeepCopy(tx).copy(obj)


class DeepCopy:
    """One call of copy.deepcopy: an object that occurs twice is copied once."""

    def __init__(self, tx: TraceContext) -> None:
        self.tx, self.memo = tx, Memo(self)
        self.made: dict[Value, Value] = {}
        self.storages: set[int] = set()  # of the fakes of tensors copied so far
        self.outside = 0  # how many of those tensors lie in memory that was there before

    def copy(self, obj: Value) -> Value:
        obj = self.tx.look(obj)
        if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue):
            return obj
        if obj not in self.made and obj.source is not None and self.memo.entries:
            noted = self.memo.entries.get(
                id(self.tx.objects.real_object(obj))
            )  # the program's own __deepcopy__ put it there
            if noted is not None:
                self.made[obj] = noted[1]
        if obj not in self.made:
            rule = next((rule for family, rule in RULES if isinstance(obj, family)), None)
            if rule is None:
                raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
            self.made[obj] = rule(self, obj)
        return self.made[obj]

    def list(self, obj: ListValue) -> Value:
        if obj.cls not in (list, collections.deque):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        made = self.made[obj] = (
            DequeValue([], obj.maxlen) if isinstance(obj, DequeValue) else ListValue([])
        )
        for item in obj.iterate_live(self.tx):
            made.items.append(self.copy(item))
        return made

    def tuple(self, obj: TupleValue) -> Value:
        items = obj.all(self.tx)
        copied = [self.copy(item) for item in items]
        if obj in self.made:  # it holds itself
            return self.made[obj]
        same = all(a is b for a, b in zip(items, copied, strict=True))
        return obj if same and not hasattr(obj.cls, "_make") else made_anew(self.tx, obj, copied)

    def dict(self, obj: DictValue) -> Value:
        must_be_bare(self.tx, obj)
        made = self.made[obj] = DictValue({}, cls=obj.cls, default_factory=obj.default_factory)
        for key, value in obj.pairs(self.tx):
            made.put(self.tx, self.copy(key), self.copy(value))
        return made

    def set(self, obj: SetValue) -> Value:
        if not obj.is_known():
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        return obj.method(self.tx, "copy", [], {})

    def tensor(self, obj: TensorValue) -> Value:
        """Copies a tensor into memory of its own. Breaks for tensors that share memory, since their
        copies would share it too."""
        fake, tx = obj.fake, self.tx
        plain = obj.cls is torch.Tensor and not (
            fake.requires_grad or fake.is_inference() or fake.device.type == "meta"
        )
        if not plain or not fills_its_storage(fake):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        gradient = obj.attribute(tx, "grad")
        storage = fake.untyped_storage()._cdata
        if (
            not gradient.is_none()
            or storage in self.storages
            or getattr(obj.real, "__dict__", None)
        ):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        self.storages.add(storage)
        existing = {
            item.value.fake.untyped_storage()._cdata
            for item in tx.graph.inputs
            if isinstance(item.value, TensorValue)
        }
        self.outside += storage in existing
        if self.outside > 1:
            raise GraphBreak(
                "unknown-call",
                f"copy.deepcopy() of {obj.describe()}, which may share memory with another",
            )
        if obj.source is not None:
            tx.guards.add(obj.source, Kind.PYTHON, ("fills its storage", fills_its_storage))
            tx.guards.add(InstanceDict(obj.source), Kind.KEYS, ())
        return tx.graph.call(
            "call_method", "clone", [obj], {"memory_format": Constant(torch.preserve_format)}
        )

    def object(self, obj: UserObject) -> Value:
        if type(getattr(obj.cls, "__deepcopy__", None)) is FunctionType:
            return obj.method(self.tx, "__deepcopy__", [self.memo], {})
        if not is_captured(obj):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        return reconstruct(self.tx, obj, self.copy, functools.partial(self.made.__setitem__, obj))


def fills_its_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor covers all of its memory, each element once, so that a clone is a complete
    deep copy."""
    if is_functorch_wrapped_tensor(tensor):
        return False
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    if tensor.is_conj() or tensor.is_neg() or tensor.storage_offset() != 0:
        return False
    size = tensor.untyped_storage().nbytes()
    if (
        isinstance(tensor, FakeTensor) and size == 0
    ):  # torch does not measure what a trace with symbols has made
        return not tensor._is_view()
    return bool(size == tensor.numel() * tensor.element_size())


RULES: tuple[tuple[type, Any], ...] = (
    (ListValue, DeepCopy.list), (TupleValue, DeepCopy.tuple), (DictValue, DeepCopy.dict), (SetValue, DeepCopy.set),
    (UserObject, DeepCopy.object), (TensorValue, DeepCopy.tensor),
)  # fmt: skip
