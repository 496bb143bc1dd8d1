"""Wrapper subclasses: tensors made of inner tensors, by `__tensor_flatten__` and
`__torch_dispatch__`.

The graph holds operators on the wrapper itself. Its fake is an instance of the same class around
fake tensors, so the class's own `__torch_dispatch__` says what an operator gives. A backend gets
the operators on the inner tensors (backends/autograd/inner_graphs.py).
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ....backends.graph.wrappers import (
    WrapperDescription,
    is_distributed,
    is_wrapper,
    names_of_tensors,
)
from ....errors import GraphBreak
from ....guards.guard import Kind, TensorSpec
from ....guards.source import AttrSource, ClassAttribute, Source, TypeOf
from ....records import record
from ..base import Args, Kwargs, Value
from ..constant import LITERAL_TYPES, Constant
from ..context import TraceContext
from ..objects.class_value import ClassValue, bind, raw_attribute
from ..objects.mro import MISSING, lookup
from .distribution_guards import guard_distribution
from .opaque_tensor import why_opaque
from .tensor import TensorValue
from .tensor_subclass import DISABLED, TORCHS

# torch's own subclasses stay in Python: collectives, functional tensors, masked ones
CAPTURED_PARTS_OF_TORCH = ("torch.testing.", "torch.nested.", "torch.distributed.tensor.")
# whose `__torch_function__` calls operators, and nothing of the program: it runs as
# `__torch_dispatch__` does
PURE = ("torch.nested.", "torchao.")
HOOKS = ("__torch_dispatch__", "__torch_function__", "__tensor_flatten__", "__tensor_unflatten__")


def is_captured_wrapper(cls: type) -> bool:
    """Whether instances of a class are captured as wrappers of inner tensors."""
    module = cls.__module__ + "."
    ours = module.partition(".")[0] != "torch" or module.startswith(CAPTURED_PARTS_OF_TORCH)
    return (
        ours
        and is_wrapper(cls)
        and lookup(cls, "__getattribute__")[0] in TORCHS
        and lookup(cls, "__getattr__")[0] is None
        and (has_known_torch_function(cls) or overrides_torch_function(cls))
    )


def overrides_torch_function(cls: type) -> bool:
    """Whether a wrapper class has a `__torch_function__` that is interpreted."""
    raw = lookup(cls, "__torch_function__")[1]
    function = getattr(raw, "__func__", None)
    return isinstance(raw, classmethod) and isinstance(function, types.FunctionType)


def has_known_torch_function(cls: type) -> bool:
    """Whether operators reach `__torch_dispatch__` as they are: by torch's own
    `__torch_function__`, or by none."""
    raw = lookup(cls, "__torch_function__")[1]
    return raw is DISABLED or needs_torch_function(cls)


def needs_torch_function(cls: type) -> bool:
    """Whether torch calls the class's `__torch_function__` while a graph is captured, compiled and
    run: it calls operators, and nothing of the program."""
    raw = lookup(cls, "__torch_function__")[1]
    function = getattr(raw, "__func__", None)
    in_library = (getattr(function, "__module__", None) or "").startswith(PURE)
    return in_library or raw is vars(torch.Tensor)["__torch_function__"]


@record
class FlatForm(WrapperDescription):
    """What an instance of a wrapper class flattens to: the names of its inner tensors and what
    `__tensor_flatten__` gives beside them, a copy. objects: what it names that is no tensor."""

    cls: type
    names: tuple[str, ...]
    metadata: Any
    is_parameter: bool
    objects: tuple[Any, ...] = ()

    @classmethod
    def of(cls, wrapper: Any) -> FlatForm:
        names, metadata = wrapper.__tensor_flatten__()
        return FlatForm(
            type(wrapper),
            tuple(names),
            copy_metadata(metadata),
            getattr(wrapper, "_is_param", False),
            objects_in(wrapper, names),
        )

    def matches(self, found: object) -> bool:
        """Whether an object flattens to the same, by the class's own comparison where it has
        one."""
        if self.cls is not type(found):
            return False
        wrapper: Any = found
        names, metadata = wrapper.__tensor_flatten__()
        if tuple(names) != self.names or getattr(wrapper, "_is_param", False) != self.is_parameter:
            return False
        if self.objects and self.objects != objects_in(wrapper, names):
            return False
        compare: Callable[[Any, Any], bool] | None = getattr(self.cls, "__metadata_guard__", None)
        return compare(self.metadata, metadata) if compare else bool(self.metadata == metadata)


def objects_in(wrapper: Any, names: Iterable[str]) -> tuple[Any, ...]:
    """What a wrapper names as its parts that is no tensor, such as the mesh of a DTensor."""
    parts = (getattr(wrapper, name) for name in names)
    return tuple(part for part in parts if not isinstance(part, torch.Tensor))


def copy_metadata(metadata: Any) -> Any:
    """A copy of metadata, around the same meshes: these hold the groups of processes."""
    memo: dict[int, Any] = {}
    for item in tree_leaves(metadata):
        mesh = getattr(item, "mesh", None)
        memo[id(mesh)] = mesh
    return copy.deepcopy(metadata, memo)


class WrapperTensor(TensorValue):
    """An instance of a wrapper class: a node of the graph like other tensors. `fake` is an instance
    around fake tensors."""

    __slots__ = ()

    def attribute(self, tx: TraceContext, name: str) -> Value:
        owner, raw = lookup(self.cls, name)
        if self.has_own(name, raw):
            return self.own_attribute(tx, name)
        if owner in TORCHS:
            return super().attribute(tx, name)
        raw, source = raw_attribute(tx, self.cls, name, self.source and TypeOf(self.source))
        return bind(tx, raw, self, tx.wrap(self.cls, None), source)

    def has_own(self, name: str, raw: Any) -> bool:
        """Whether an attribute is the instance's, given what its class has under the name. (A
        class in C has a method `inner`.)"""
        if raw is MISSING:
            return True
        return name in vars(self.fake) and not (is_code(raw) or hasattr(type(raw), "__set__"))

    def own_attribute(self, tx: TraceContext, name: str) -> Value:
        """An attribute of the instance: an inner tensor, or what its constructor stored."""
        if self.real is not None and self.source is not None:
            return super().own_attribute(tx, name)
        if name not in vars(self.fake):
            raise tx.exceptions.no_attribute(self.cls.__name__, name)
        found = vars(self.fake)[name]
        if isinstance(found, torch.Tensor):
            return tx.graph.function(getattr, self, Constant(name))
        if not is_immutable(found):
            raise self.unsupported_use(f"attribute {name}")
        return tx.wrap(found, None)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if lookup(self.cls, name)[0] in TORCHS:
            return super().method(tx, name, args, kwargs)
        return self.attribute(tx, name).call(tx, args, kwargs)


def is_code(raw: Any) -> bool:
    """Whether an attribute of a class precedes one of the instance, or is a method."""
    return isinstance(raw, types.FunctionType | classmethod | staticmethod | property)


def is_immutable(obj: Any) -> bool:
    """Whether an attribute cannot change: a literal, or a tuple of literals."""
    if isinstance(obj, tuple):
        return all(map(is_immutable, obj))
    return isinstance(obj, (*LITERAL_TYPES, torch.dtype, torch.device, torch.layout))


def construct_wrapper(tx: TraceContext, cls: ClassValue, args: Args, kwargs: Kwargs) -> Value:
    """cls(*args, **kwargs) for a wrapper class: one node of the graph."""
    for name in ("__new__", "__init__"):
        raw, source = raw_attribute(tx, cls.cls, name, cls.path(tx))
        tx.guards.add(source, Kind.IS, raw)
    choose_torch_function(tx, cls.cls)
    made = tx.graph.function(cls.cls, *args, **kwargs)
    if not isinstance(made, WrapperTensor):
        raise GraphBreak("subclass", f"{cls.cls.__name__}() that gives {made.describe()}")
    if made.fake.requires_grad:  # a new leaf, which a compiled graph would not return as one
        raise GraphBreak("subclass", f"{cls.cls.__name__}() that requires a gradient")
    return made.as_seen()


def choose_torch_function(tx: TraceContext, cls: type) -> None:
    """Notes who calls the `__torch_function__` of wrapper classes in this capture. Breaks where
    torch calls that of one class, and another is interpreted."""
    if has_known_torch_function(cls):
        if needs_torch_function(cls) and not tx.modes.torch_function.leave_to_torch():
            raise GraphBreak("subclass", f"{cls.__name__} beside an interpreted __torch_function__")
    elif not tx.modes.torch_function.interpret():
        raise GraphBreak("subclass", f"{cls.__name__} beside a wrapper of a library")


def wrap_wrapper(tx: TraceContext, real: torch.Tensor, source: Source) -> Value:
    """The value of a wrapper that existed before the frame."""
    cls = type(real)
    choose_torch_function(tx, cls)
    tx.guards.add(source, Kind.TYPE, cls)
    for name in HOOKS:
        tx.guards.add(ClassAttribute(TypeOf(source), name), Kind.IS, lookup(cls, name)[1])
    guard_parts(tx, real, source)
    value = tx.graph.input(tx, real, source)
    guard_distributions(tx, real, value.fake, source)
    return value.as_seen()


def guard_flat_form(tx: TraceContext, real: torch.Tensor, source: Source) -> None:
    """Guards what a wrapper flattens to beside its inner tensors."""
    try:
        form = FlatForm.of(real)
    except Exception as error:
        raise GraphBreak(
            "subclass", f"{type(real).__name__}, whose parts cannot be read"
        ) from error
    tx.guards.add(source, Kind.PYTHON, ("has the same inner tensors and metadata", form.matches))


def guard_parts(tx: TraceContext, real: torch.Tensor, source: Source) -> None:
    """Guards the inner tensors of a wrapper, recursively, and its metadata."""
    if not is_distributed(type(real)):
        guard_flat_form(tx, real, source)
    for name in names_of_tensors(real):
        inner = getattr(real, name)
        if is_captured_wrapper(type(inner)):
            guard_parts(tx, inner, AttrSource(source, name))
        elif why_opaque(inner) is not None:
            raise GraphBreak("subclass", f"{type(real).__name__} of a {type(inner).__name__}")
        tx.guards.add(AttrSource(source, name), Kind.TENSOR, TensorSpec.of(inner))


def guard_distributions(
    tx: TraceContext, real: torch.Tensor, fake: torch.Tensor, source: Source
) -> None:
    """Guards how a wrapper and its inner tensors are distributed, recursively. fake: it tells which
    sizes may vary."""
    if is_distributed(type(real)):
        guard_distribution(tx, real, fake, source)
    for name in names_of_tensors(real):
        inner = getattr(real, name)
        if is_captured_wrapper(type(inner)):
            guard_distributions(tx, inner, getattr(fake, name), AttrSource(source, name))
