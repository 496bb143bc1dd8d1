"""Where real objects keep their attributes: the dictionary of an instance, slots, or what a class
written in C does instead."""

from __future__ import annotations

import functools
import sys
import threading
import types
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.source import AttrSource, InstanceDict, Source
from ....guards.source.objects import dictionary_of
from .mro import MISSING, lookup

OWN_LOOKUP = frozenset({types.GenericAlias})
OF_DICTIONARIES = (types.GetSetDescriptorType, types.MemberDescriptorType)
# what forward of an autograd.Function stores in its context, which torch reads later
KEPT_BY_AUTOGRAD = frozenset(
    vars(torch._C._FunctionBase)[name]
    for name in ("to_save", "saved_for_forward", "non_differentiable", "dirty_tensors")
)
GENERIC_LOOKUP = sys.stdlib_module_names | {"torch", "numpy"}


def store_in_dictionary(obj: Any, name: str, item: Any) -> None:
    """Stores an attribute in an object's dictionary, past its class."""
    own = instance_dict(obj)
    assert own is not None, "it has a dictionary"
    own[name] = item


def instance_dict(obj: Any) -> dict[str, Any] | None:
    """The real instance dictionary, whatever `__dict__` the class defines; None if the object has
    none."""
    if obj is None:
        return None
    if is_thread_local(type(obj)):
        return dictionary_of_thread(obj)
    if defines_dict(type(obj)):
        return dictionary_of(obj)
    try:
        return object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return None


def dictionary_of_thread(obj: threading.local) -> dict[str, Any]:
    """The dictionary that an object has in this thread. The thread's first use of the object runs
    its `__init__`, here too."""
    try:
        return obj.__dict__
    except Exception as error:
        raise GraphBreak("exception-leaves", type(error).__name__) from error


def dictionary_path(cls: type, source: Source | None) -> Source | None:
    """The path to the instance dictionary of the object at `source`."""
    if source is None:
        return None
    return AttrSource(source, "__dict__") if is_thread_local(cls) else InstanceDict(source)


def is_thread_local(cls: type) -> bool:
    """Whether instances have a dictionary for each thread."""
    return issubclass(cls, threading.local)


def storage_class(cls: type) -> type:
    """The builtin class whose methods store the attributes of instances."""
    return threading.local if is_thread_local(cls) else object


def defines_dict(cls: type) -> bool:
    """Whether a class defines `__dict__` as an attribute of its own, by a property say."""
    found = lookup(cls, "__dict__")[1]
    return found is not MISSING and type(found) not in OF_DICTIONARIES


@functools.cache
def has_own_lookup(cls: type) -> bool:
    """Whether a class written in C finds attributes differently from object. Of the standard
    library's, of torch's and of builtin containers it is known which ones do."""
    owner, getter = lookup(cls, "__getattribute__")
    if owner in (object, threading.local) or type(getter) is types.FunctionType:
        return False
    module = str(getattr(owner, "__module__", "")).partition(".")[0]
    return owner in OWN_LOOKUP or module not in GENERIC_LOOKUP


def is_slot(raw: Any) -> bool:
    """Whether a class's attribute is a slot of its instances: a store there does nothing else."""
    return isinstance(raw, types.MemberDescriptorType) or (
        type(raw) is types.GetSetDescriptorType and raw in KEPT_BY_AUTOGRAD
    )


def slot_is_bound(slot: types.MemberDescriptorType, bound: bool, obj: Any) -> bool:
    return (slot_of(obj, slot) is not MISSING) is bound


def slot_of(obj: Any, slot: types.MemberDescriptorType) -> Any:
    """The contents of a slot of a real object; MISSING if it is empty."""
    try:
        return MISSING if obj is None else slot.__get__(obj)
    except AttributeError:
        return MISSING
