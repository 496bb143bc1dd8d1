"""The meaning of guards, in Python: slow, obvious, and the oracle of the native evaluator. In: a
source or a guard, and a frame. Out: the object, or whether the guard holds. A guard on a path that
cannot be followed fails."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from . import source as s
from .caches import cached_result
from .failure import Failure
from .guard import Guard
from .iterators import part, peek
from .kinds import kind_of
from .kinds.containers import keys_of
from .native import UNBOUND
from .proxies import mapping_behind

if TYPE_CHECKING:
    from .program import GuardProgram


class PathEnds(Exception):
    """The path ends before its object."""


@dataclass(frozen=True)
class FrameView:
    """The part of a frame that guards read."""

    slots: tuple[Any, ...]
    function: FunctionType


def load(source: s.Source, frame: FrameView) -> Any:
    """The object at the end of the source; raises Unwalkable."""
    walk = LOADS.get(type(source))
    if walk is None:
        raise PathEnds(f"no load for {type(source).__name__}")
    try:
        return walk(source, frame)
    except (PathEnds, RecursionError):  # the stack's end says nothing of the path
        raise
    except Exception as error:
        raise PathEnds(source.name) from error


def check(guard: Guard, frame: FrameView) -> bool:
    """Whether the guard holds for the frame. Never raises."""
    kind = kind_of(guard)
    try:
        subjects = [load(source, frame) for source in kind.subjects(guard)]
        return bool(kind.holds(guard.expected, *subjects))
    except Exception:  # the meaning of any error in a check is: no
        return False


def first_failure(program: GuardProgram, frame: FrameView) -> Failure | None:
    """The first guard of the program, in its order, that does not hold."""
    for guard in program.guards:
        if not check(guard, frame):
            return explain(guard, frame)
    for source in program.lifted:
        try:
            load(source, frame)
        except PathEnds:
            return Failure(None, source.name, "found", "gone")
    return None


def explain(guard: Guard, frame: FrameView) -> Failure:
    """The failure of this guard, in words."""
    kind = kind_of(guard)
    for source in kind.subjects(guard):
        try:
            load(source, frame)
        except PathEnds:
            return Failure(guard, source.name, kind.old(guard), "gone")
    subjects = [load(source, frame) for source in kind.subjects(guard)]
    try:
        return Failure(guard, *kind.difference(guard, *subjects))
    except Exception as error:  # a user's __repr__ or attribute; the report must not raise
        return Failure(
            guard, guard.source.name, kind.old(guard), f"unreadable ({type(error).__name__})"
        )


# ---- loads
# ----------------------------------------------------------------------------------------------------------


def slot(source: s.SlotSource, frame: FrameView) -> Any:
    if not 0 <= source.index < len(frame.slots) or frame.slots[source.index] is UNBOUND:
        raise PathEnds(source.name)
    return frame.slots[source.index]


def closure(source: s.ClosureSource, frame: FrameView) -> CellType:
    return (frame.function.__closure__ or ())[source.index]


def global_names(source: s.GlobalsSource, frame: FrameView) -> dict:
    return frame.function.__globals__


def builtin_names(source: s.BuiltinsSource, frame: FrameView) -> dict:
    function: Any = frame.function
    return function.__builtins__


def module(source: s.ModuleSource, frame: FrameView) -> Any:
    return sys.modules[source.module]


def torch_state(source: s.TorchStateSource, frame: FrameView) -> None:
    return None  # no object: the guard asks torch itself


def cell_contents(source: s.CellContents, frame: FrameView) -> Any:
    cell = load(source.of, frame)
    if type(cell) is not CellType:
        raise PathEnds(source.name)
    return cell.cell_contents


def attribute(source: s.AttrSource, frame: FrameView) -> Any:
    return getattr(load(source.of, frame), source.attr)


def iterator_item(source: s.IteratorItem, frame: FrameView) -> Any:
    return peek(load(source.of, frame), source.index)


def iterator_part(source: s.IteratorPart, frame: FrameView) -> Any:
    return part(load(source.of, frame), source.place, source.ahead)


def referent(source: s.Referent, frame: FrameView) -> Any:
    return weakref.ReferenceType.__call__(load(source.of, frame))


def proxied_mapping(source: s.ProxiedMapping, frame: FrameView) -> Any:
    return mapping_behind(load(source.of, frame))


def cached_result_at(source: s.CachedResult, frame: FrameView) -> Any:
    return cached_result(load(source.of, frame), source.args, source.kwargs)


def calculated_number(source: s.Calculated, frame: FrameView) -> Any:
    return source.calculate(load(source.of, frame))


def address_of(source: s.AddressOf, frame: FrameView) -> int:
    return id(load(source.of, frame))


def handled_outside(source: s.HandledOutside, frame: FrameView) -> BaseException | None:
    return handled_now(None)


def handled_now(nothing: None) -> BaseException | None:
    """The exception that the thread is handling."""
    return sys.exc_info()[1]


def entered_random_state(source: s.EnteredRandomState, frame: FrameView) -> torch.Tensor:
    return random_state_now(None)


def random_state_now(nothing: None) -> torch.Tensor:
    """The state of torch's CPU generator."""
    return torch.get_rng_state()


def plain_tensor(source: s.PlainTensor, frame: FrameView) -> torch.Tensor:
    return without_class(load(source.of, frame))


def without_class(tensor: torch.Tensor) -> torch.Tensor:
    """An instance of a tensor subclass as a plain tensor."""
    with torch._C.DisableTorchFunctionSubclass(), torch.enable_grad():
        return tensor.as_subclass(torch.Tensor)


def instance_dict(source: s.InstanceDict, frame: FrameView) -> dict | None:
    """None for an object that can have none. Classes have no *instance* dictionary in this sense:
    see ClassDict."""
    of = load(source.of, frame)
    if isinstance(of, type):
        raise PathEnds(source.name)
    try:
        return ctypes.pythonapi.PyObject_GenericGetDict(of, None)
    except AttributeError:
        return None


ctypes.pythonapi.PyObject_GenericGetDict.restype = ctypes.py_object
ctypes.pythonapi.PyObject_GenericGetDict.argtypes = [ctypes.py_object, ctypes.c_void_p]


def type_of(source: s.TypeOf, frame: FrameView) -> type:
    return type(load(source.of, frame))


def class_dict(source: s.ClassDict, frame: FrameView) -> dict:
    """The dictionary itself, which `__dict__` hides behind a mapping proxy."""
    proxy = type.__dict__["__dict__"].__get__(load(source.of, frame))
    return gc.get_referents(proxy)[0]


def class_attribute(source: s.ClassAttribute, frame: FrameView) -> Any:
    for cls in type.__dict__["__mro__"].__get__(load(source.of, frame)):
        found = type.__dict__["__dict__"].__get__(cls)
        if source.attr in found:
            return found[source.attr]
    return UNBOUND


def mro_item(source: s.MroItem, frame: FrameView) -> type:
    return type.__dict__["__mro__"].__get__(load(source.of, frame))[source.index]


def dict_item(source: s.DictItem, frame: FrameView) -> Any:
    of = load(source.of, frame)
    missing = object()  # not dict.__getitem__, which calls a subclass's __missing__
    found = dict.get(of, source.key, missing)
    if found is missing:
        raise PathEnds(source.name)
    return found


def dict_key(source: s.DictKey, frame: FrameView) -> Any:
    of = load(source.of, frame)
    if source.index < 0:
        raise PathEnds(source.name)
    return keys_of(of)[source.index]


def sequence_item(source: s.SequenceItem, frame: FrameView) -> Any:
    of = load(source.of, frame)
    base = list if isinstance(of, list) else tuple
    return base.__getitem__(of, source.index)


def tensor_property(source: s.TensorProperty, frame: FrameView) -> int:
    return TENSOR_PROPERTIES[source.what](load(source.of, frame), source.dim)


def tensor_size(tensor: Any, dim: int) -> int:
    return tensor_number(tensor, torch.Tensor.size)[dim]


def tensor_stride(tensor: Any, dim: int) -> int:
    return tensor_number(tensor, torch.Tensor.stride)[dim]


def tensor_storage_offset(tensor: Any, dim: int) -> int:
    return tensor_number(tensor, torch.Tensor.storage_offset)


def tensor_number(tensor: Any, method: Callable[[torch.Tensor], Any]) -> Any:
    """Without subclasses' __torch_function__; raises for what is no tensor."""
    with torch._C.DisableTorchFunction():
        return method(tensor)


# Also the native evaluator's way for tensors that it cannot read itself.
TENSOR_PROPERTIES: dict[str, Callable[[Any, int], int]] = {
    "size": tensor_size,
    "stride": tensor_stride,
    "storage_offset": tensor_storage_offset,
}

LOADS: dict[type[s.Source], Callable[[Any, FrameView], Any]] = {
    s.SlotSource: slot,
    s.ClosureSource: closure,
    s.GlobalsSource: global_names,
    s.BuiltinsSource: builtin_names,
    s.ModuleSource: module,
    s.TorchStateSource: torch_state,
    s.CellContents: cell_contents,
    s.AttrSource: attribute,
    s.IteratorItem: iterator_item,
    s.IteratorPart: iterator_part,
    s.Referent: referent,
    s.ProxiedMapping: proxied_mapping,
    s.CachedResult: cached_result_at,
    s.Calculated: calculated_number,
    s.AddressOf: address_of,
    s.HandledOutside: handled_outside,
    s.EnteredRandomState: entered_random_state,
    s.PlainTensor: plain_tensor,
    s.InstanceDict: instance_dict,
    s.TypeOf: type_of,
    s.ClassDict: class_dict,
    s.ClassAttribute: class_attribute,
    s.MroItem: mro_item,
    s.DictItem: dict_item,
    s.DictKey: dict_key,
    s.SequenceItem: sequence_item,
    s.TensorProperty: tensor_property,
}
