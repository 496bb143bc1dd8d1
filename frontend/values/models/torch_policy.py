"""Which callables become graph nodes, and which are pure on literals."""

from __future__ import annotations

import abc
import bisect
import enum
import functools
import operator
import os
import sys
import types
import typing
from typing import Any

import torch
import torch._ops
import torch.functional
import torch.nn.functional as F

from ....errors import GraphBreak
from ..torch_directives import is_allowed, is_disallowed

# ids of functions declared by allow_in_graph; they are kept alive by ALLOWED_OBJECTS
ALLOWED: set[int] = set()
ALLOWED_OBJECTS: list[Any] = []

# Functions of torch's namespaces that look like operators and are not: they change modes, answer
# about the world, or (those of multi-head attention) are interpreted, so that the graph has
# operators that can be fused and traced one by one.
NOT_OPERATORS = frozenset(
    """set_grad_enabled _set_grad_enabled is_grad_enabled set_default_dtype get_default_dtype
    set_num_threads get_num_threads
    manual_seed seed initial_seed get_rng_state set_rng_state set_printoptions compile load save
    handle_torch_function
    has_torch_function has_torch_function_unary has_torch_function_variadic
    is_inference_mode_enabled boolean_dispatch
    _overload assert_int_or_pair grad_enabled is_autocast_enabled set_autocast_enabled typename
    is_tensor is_storage
    use_deterministic_algorithms are_deterministic_algorithms_enabled from_numpy from_file
    frombuffer
    set_flush_denormal is_warn_always_enabled set_warn_always get_device_module set_default_device
    get_default_device
    multi_head_attention_forward _mha_shape_check _in_projection_packed _in_projection
    _canonical_mask _none_or_dtype
    vmap import_ir_module parse_ir parse_schema fork wait triplet_margin_with_distance_loss
    gaussian_nll_loss""".split()
)


def _namespaces() -> list[Any]:
    bindings: Any = torch._C
    return [
        torch, torch.nn.functional, torch.functional, bindings._VariableFunctions, bindings._nn,
        bindings._fft, bindings._linalg, bindings._special, bindings._sparse, torch.special,
        torch.fft, torch.linalg,
    ]  # fmt: skip


@functools.cache
def operators() -> frozenset[int]:
    """ids of torch's own operators: its C functions, and the Python ones of torch.nn.functional and
    torch.functional."""
    found: set[int] = {id(torch.nested.to_padded_tensor)}
    for namespace in _namespaces():
        for name in dir(namespace):
            if name in NOT_OPERATORS or name.startswith("__"):
                continue
            function = getattr(namespace, name, None)
            if isinstance(function, types.BuiltinFunctionType) or (
                isinstance(function, types.FunctionType)
                and (function.__module__ in OPERATOR_MODULES or namespace is F)
            ):
                found.add(id(function))
    return frozenset(found)


OPERATOR_MODULES = frozenset({"torch.functional", "torch.nn.functional", "torch._jit_internal"})


def goes_into_graph(function: Any) -> bool:
    """Whether a call becomes one node."""
    if isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return True
    return id(function) in operators() or id(function) in ALLOWED or is_allowed(function)


def refuse_disallowed(function: Any) -> None:
    """Raises GraphBreak for a function that the program keeps out of graphs."""
    if is_disallowed(function):
        name = getattr(function, "__name__", str(function))
        raise GraphBreak("disabled-call", f"{name} (disallow_in_graph)")


def allow(function: Any) -> None:
    """Declares that calls of a function become nodes of the graph."""
    ALLOWED.add(id(function))
    ALLOWED_OBJECTS.append(function)


PURE_MODULES = frozenset({"math", "_operator", "cmath", "_struct", "_bisect"})
PURE = frozenset(
    id(f)
    for f in (
        abs, ascii, bin, chr, divmod, format, hash, hex, len, max, min, oct, ord, pow, repr, round,
        sorted, sum,
        operator.index, os.fspath, sys.intern, str.join, dict.fromkeys, str.maketrans,
        bytes.fromhex, float.fromhex,
        int.from_bytes,
        torch._C._get_privateuse1_backend_name, torch.promote_types, torch.result_type,
        torch.can_cast,
    )
)  # fmt: skip


# Functions of pure modules that change an argument.
IMPURE = frozenset(map(id, (
    bisect.insort_left, bisect.insort_right, operator.iconcat, operator.setitem, operator.delitem,
)))  # fmt: skip
PURE_TYPES = (  # all of whose methods are pure
    str, int, float, complex, bytes, bool, tuple, frozenset, torch.Size, torch.dtype, type,
)  # fmt: skip


def is_pure(function: Any) -> bool:
    """Whether a call on literals, or on containers of literals, returns a literal and has no side
    effects."""
    if id(function) in IMPURE:
        return False
    if id(function) in PURE:
        return True
    if isinstance(function, types.BuiltinFunctionType | types.BuiltinMethodType):
        receiver = function.__self__
        # another copy of a module has functions that IMPURE and models do not know
        if isinstance(receiver, types.ModuleType):
            return (
                receiver.__name__ in PURE_MODULES and sys.modules.get(receiver.__name__) is receiver
            )
        return isinstance(receiver, type) and receiver in (str, int, float, bytes, dict)
    if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
        return function.__objclass__ in PURE_TYPES
    return False


NAMED_TUPLE_META: type = vars(typing)["NamedTupleMeta"]


def is_plain_metaclass(meta: type) -> bool:
    """Whether a metaclass's __call__ makes instances as type does."""
    return meta.__call__ in (abc.ABCMeta.__call__, type.__call__) or issubclass(
        meta, enum.EnumMeta | NAMED_TUPLE_META
    )
