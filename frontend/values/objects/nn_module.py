"""torch.nn.Module instances: their parameters, buffers and submodules; calls with and without
hooks."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import DictItem, InstanceDict, ModuleSource, Source
from ...pycode.passthrough import PassthroughFrame
from ..base import Args, Kwargs, PendingCall, Value, require_path
from ..constant import Constant
from ..containers.mapping import DictValue
from ..context import TraceContext
from ..registry import models, wraps_subclasses
from .attribute_storage import instance_dict
from .class_value import ClassValue, stored_in_class
from .mro import MISSING, lookup
from .sharded_module import is_sharded
from .user_object import UserObject

# What a call of a module runs before it comes to forward.
MODULE: Any = torch.nn.Module
BETWEEN = (PassthroughFrame(MODULE._wrapped_call_impl, -1), PassthroughFrame(MODULE._call_impl, 0))
TABLES = ("_parameters", "_buffers", "_modules")
OWN_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS = {
    name: DictItem(InstanceDict(ModuleSource(torch_module.__name__)), name)
    for name in (
        "_global_backward_pre_hooks",
        "_global_backward_hooks",
        "_global_forward_hooks",
        "_global_forward_pre_hooks",
    )
}


def has_attribute(tx: TraceContext, cls: type, name: str, path: Source | None) -> bool:
    """Whether a class has a name, including changes of the traced program."""
    return lookup(cls, name)[0] is not None or stored_in_class(tx, cls, name, path) is not MISSING


class ModuleValue(UserObject):
    """A module that existed before the frame, or one made in it, all of whose attributes are in
    `attrs`."""

    __slots__ = ()
    has_plain_dictionary = False

    def generic_attribute(self, tx: TraceContext, name: str) -> Value:
        """As of any instance; where that has none, from the tables of parameters, buffers and
        submodules, as nn.Module.__getattr__ does."""
        own = instance_dict(self.real)
        if (
            name in (own or ())
            or name in self.attrs
            or has_attribute(tx, self.cls, name, self.class_path)
        ):
            return super().generic_attribute(tx, name)
        if own is None:
            held = self._registered_in_frame(tx, name)
            return super().generic_attribute(tx, name) if held is None else held
        for table in TABLES:
            if name in own.get(table, ()):
                known = self.seen.get(name)
                if known is None or table in self.attrs:
                    known = self._from_table(tx, table, name)
                return known
        for table in TABLES:  # that none has the name is guarded: one may be registered later
            if table in own:
                held = self.table(tx, table).get(tx, tx.wrap(name, None))
                if held is not None:
                    return held
        return super().generic_attribute(tx, name)

    def _registered_in_frame(self, tx: TraceContext, name: str) -> Value | None:
        """What a table of a module made in the frame holds under a name, or None."""
        for table in TABLES:
            entries = self.attrs.get(table)
            if isinstance(entries, DictValue):
                value = entries.get(tx, tx.wrap(name, None))
                if value is not None:
                    return value
        return None

    def table(self, tx: TraceContext, name: str) -> DictValue:
        """The dictionary `_parameters`, `_buffers` or `_modules`."""
        found = self.own_attribute(tx, name)
        assert isinstance(found, DictValue)
        return found

    def _from_table(self, tx: TraceContext, table: str, name: str) -> Value:
        path = InstanceDict(self.source) if self.source is not None else None
        tx.guards.add(path, Kind.ABSENT, name)
        entries = self.table(tx, table)
        value = entries.get(tx, tx.wrap(name, None))
        if value is None:
            raise tx.exceptions.no_attribute(self.cls.__name__, name)
        return value

    def attribute(self, tx: TraceContext, name: str) -> Value:
        plain = type(lookup(self.cls, "__getattribute__")[1]) is not types.FunctionType
        if plain and lookup(self.cls, "__getattr__")[1] is torch.nn.Module.__getattr__:
            if name == "__class__":
                return ClassValue(self.cls, self.class_path)
            if name == "__dict__":
                return self.dictionary(tx)
            return self.generic_attribute(tx, name)
        return super().attribute(tx, name)

    def set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if lookup(self.cls, "__setattr__")[1] is not MODULE.__setattr__ or self.real is None:
            super().set_attribute(tx, name, value)
        elif self.registers(tx, name, value):
            raise GraphBreak("unsupported-mutation", f"of parameter or submodule '{name}'")
        else:
            self.set_plainly(tx, name, value)

    def registers(self, tx: TraceContext, name: str, value: Value) -> bool:
        """Whether torch.nn.Module.__setattr__ registers a parameter or submodule, or removes
        one."""
        own = instance_dict(self.real) or {}
        if any(table not in own for table in TABLES):
            raise GraphBreak("unsupported-mutation", f"of {self.describe()}, which is being made,")
        return (
            issubclass(value.python_type(), torch.nn.Module | torch.nn.Parameter)
            or self._holds(tx, "_parameters", name)
            or self._holds(tx, "_modules", name)
        )

    def set_plainly(self, tx: TraceContext, name: str, value: Value) -> None:
        """Stores a buffer, or an attribute that is in none of the tables."""
        if self._holds(tx, "_buffers", name):
            self.table(tx, "_buffers").put(tx, tx.wrap(name, None), value)
        else:
            self.generic_set_attribute(tx, name, value)

    def _holds(self, tx: TraceContext, table: str, name: str) -> bool:
        """Whether a table contains a name, including changes of the traced program."""
        real = (instance_dict(self.real) or {})[table]
        known = tx.objects.find(real)
        if table in self.attrs or known in tx.effects.changed:
            return self.table(tx, table).get(tx, tx.wrap(name, None)) is not None
        return name in real

    def tail_call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> PendingCall:
        if lookup(self.cls, "__call__")[1] is not torch.nn.Module.__call__:
            return super().tail_call(tx, args, kwargs)
        if is_sharded(self.cls):
            what = f"{self.describe()}, whose parameters fully_shard gathers in hooks"
            raise GraphBreak("unknown-call", what)
        own_call = lookup(self.cls, "_call_impl")[1] is not torch.nn.Module._call_impl
        if self.real is None or own_call or self._has_hooks(tx):
            raw, source = self.raw_attribute(tx, "_call_impl")
            return PendingCall(tx.wrap(raw, source), [self, *args], kwargs, BETWEEN[:1])
        return PendingCall(self.attribute(tx, "forward"), args, kwargs, BETWEEN)

    def _has_hooks(self, tx: TraceContext) -> bool:
        """Whether a call must go through _call_impl; guarded either way."""
        own = instance_dict(self.real) or {}
        path: Source | None
        for name, path in GLOBAL_HOOKS.items():
            if self._is_filled(tx, getattr(torch_module, name), path):
                return True
        empty: list[str] = []
        for name in OWN_HOOKS:
            hooks = own.get(name)
            if name in self.attrs:
                return True
            if hooks is None:
                continue
            if not hooks and not isinstance(tx.objects.find(hooks), DictValue):
                empty.append(name)
            elif self._is_filled(
                tx, hooks, self.source and DictItem(InstanceDict(self.source), name)
            ):
                return True
        path = InstanceDict(self.source) if self.source is not None else None
        tx.guards.add(path, Kind.EMPTY_ITEMS, tuple(empty))
        return False

    def _is_filled(self, tx: TraceContext, hooks: dict[Any, Any], path: Source | None) -> bool:
        """Whether an existing table contains hooks, including changes of the traced program."""
        known = tx.objects.find(hooks)
        if isinstance(known, DictValue):
            return known.truth(tx)
        tx.guards.add(path, Kind.LENGTH, len(hooks))
        return bool(hooks)


@wraps_subclasses(torch.nn.Module)
def wrap_nn_module(tx: TraceContext, obj: torch.nn.Module, source: Source | None) -> Value:
    source = require_path(obj, source)
    tx.guards.add(source, Kind.TYPE, type(obj))
    return tx.objects.remember(obj, ModuleValue(type(obj), obj, source))


@models(MODULE.__setattr__)
def set_module_attribute(tx: TraceContext, module: Value, name: Value, value: Value) -> Value:
    """torch.nn.Module.__setattr__, which a class's own __setattr__ calls. What registers something
    is interpreted."""
    if (
        isinstance(module, ModuleValue)
        and module.real is not None
        and not module.registers(tx, name.constant(), value)
    ):
        module.set_plainly(tx, name.constant(), value)
        return Constant(None)
    return tx.calls.inline(tx.wrap(MODULE.__setattr__, None), [module, name, value], {})
