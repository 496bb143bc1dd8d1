"""Operators that the program has registered with torch, and wrapper subclasses: their content as a
digest.

What a graph relies on are an operator's rules for sizes and gradients, and a class's own code,
which tracing has run. The digest covers these functions and all that they name. The operator itself
runs as it is then.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef

from ....backends.graph.collectives import NAMESPACES as COLLECTIVES
from ....backends.graph.node_targets import TORCHS_OPERATORS
from ...pycode.code_names import names_in
from .content import (
    LITERALS,
    VERSIONED,
    digest_of,
    digest_of_class,
    digest_of_code,
    functions_in,
    name_of_class,
    root_of,
    text_of_constant,
)

OF_TORCH = frozenset({*TORCHS_OPERATORS, *COLLECTIVES, "profiler"})
Operator = torch._ops.OpOverload | torch._ops.OpOverloadPacket | CustomOpDef
KINDS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, CustomOpDef)
# what a definition consists of, each a function or a dictionary of functions
FUNCTIONS = ("_init_fn", "_abstract_fn", "_setup_context_fn", "_backward_fn", "_vmap_fn",
             "_backend_fns", "_torch_dispatch_fns")  # fmt: skip


class Unknown(Exception):
    """An operator's rules cannot be compared; the message says why."""


def is_users_operator(obj: Any) -> bool:
    """Whether it is an operator that is none of torch's own."""
    return isinstance(obj, KINDS) and (
        isinstance(obj, CustomOpDef) or str(obj).partition(".")[0] not in OF_TORCH
    )


def name_of_operator(operator: Any) -> str:
    """An operator's name with its namespace, as torch.ops spells it."""
    return (
        operator._qualname.replace("::", ".")
        if isinstance(operator, CustomOpDef)
        else str(operator)
    )


def digest_of_operator(operator: Any) -> str:
    """The digest of an operator that the program has registered with torch.library.custom_op.
    Raises Unknown."""
    namespace, name = name_of_operator(operator).split(".")[:2]
    definition: Any = OPDEFS.get(f"{namespace}::{name}")
    if definition is None:
        raise Unknown("it is not registered with torch.library.custom_op")
    return digest_of(parts_of_definition(definition))


def parts_of_definition(definition: Any) -> Iterator[str]:
    yield definition._schema
    yield repr(sorted(map(str, definition._tags)))
    seen: dict[int, int] = {}
    for field in FUNCTIONS:
        yield field
        held = getattr(definition, field)
        named = held if isinstance(held, dict) else {"": held}
        for key, function in sorted(named.items(), key=lambda item: str(item[0])):
            yield str(key)
            yield from parts_of_object(function, seen)


def digest_of_wrapper_class(cls: type) -> str:
    """The digest of a wrapper subclass, whose code tracing has run: its functions and attributes,
    and all that they name. Raises Unknown."""

    def parts() -> Iterator[str]:
        seen: dict[int, int] = {}
        yield digest_of_class(cls)
        for base in cls.__mro__:
            own = {} if is_versioned(base) else vars(base)
            for name, value in sorted(own.items()):
                functions = list(functions_in(value))
                if functions or not (name.startswith("__") or is_made_in_c(value)):
                    yield name
                    yield from parts_of_object(functions or value, seen)

    return digest_of(parts())


def is_made_in_c(value: Any) -> bool:
    return isinstance(value, types.GetSetDescriptorType | types.MemberDescriptorType)


def parts_of_object(obj: Any, seen: dict[int, int]) -> Iterator[str]:
    """Texts that are equal for objects with equal content: of a function also what it names. seen:
    objects so far, by their ids."""
    if isinstance(obj, LITERALS):
        yield text_of_constant(obj)
    elif id(obj) in seen:
        yield f"again {seen[id(obj)]}"
    elif isinstance(obj, tuple | list):
        yield type(obj).__name__
        for item in obj:
            yield from parts_of_object(item, seen)
    elif isinstance(obj, dict):
        yield "dict"
        for pair in obj.items():
            yield from parts_of_object(pair, seen)
    elif is_versioned(obj):
        yield f"{getattr(obj, '__module__', '')} {getattr(obj, '__qualname__', obj)}"
    elif isinstance(obj, types.FunctionType):
        seen[id(obj)] = len(seen)
        yield from parts_of_function(obj, seen)
    elif isinstance(obj, type):
        seen[id(obj)] = len(seen)
        yield digest_of_class(obj)
        for function in functions_of_class(obj):
            yield from parts_of_object(function, seen)
    elif isinstance(obj, types.MethodType):
        yield from parts_of_object(obj.__func__, seen)
        yield from parts_of_object(obj.__self__, seen)
    elif is_users_operator(obj):
        seen[id(obj)] = len(seen)
        yield digest_of_operator(obj)
    else:
        raise Unknown(f"its functions use an object of type {name_of_class(type(obj))}")


def functions_of_class(cls: type) -> Iterator[Callable[..., Any]]:
    for _, value in sorted(vars(cls).items()):
        inner = getattr(value, "__func__", value)
        if isinstance(inner, types.FunctionType):
            yield inner


def is_versioned(obj: Any) -> bool:
    """Whether it is a module, function or class that changes with versions only."""
    if isinstance(obj, types.ModuleType):
        return root_of(obj.__name__) in VERSIONED
    kinds = (types.FunctionType, types.BuiltinFunctionType, type, torch._ops.OpOverload,
             torch._ops.OpOverloadPacket, torch._ops._OpNamespace, torch._ops._Ops)  # fmt: skip
    if is_users_operator(obj):
        return False
    return isinstance(obj, kinds) and (
        root_of(getattr(obj, "__module__", None)) in VERSIONED or isinstance(obj, kinds[3:])
    )


def parts_of_function(function: types.FunctionType, seen: dict[int, int]) -> Iterator[str]:
    """What a function's behaviour depends on: its code, defaults, closure, and the globals that it
    names."""
    yield digest_of_code(function.__code__)
    yield from parts_of_object(function.__defaults__, seen)
    for name, value in sorted((function.__kwdefaults__ or {}).items()):
        yield name
        yield from parts_of_object(value, seen)
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:
            raise Unknown("a variable of its functions has no value") from None
        yield from parts_of_object(content, seen)
    names = names_in(function.__code__)
    for name in sorted(names):
        if name in function.__globals__:
            yield name
            yield from parts_of_named(function.__globals__[name], names, seen)


def parts_of_named(obj: Any, names: set[str], seen: dict[int, int]) -> Iterator[str]:
    """What a global variable stands for; of a module of the program, what is read of it."""
    if not isinstance(obj, types.ModuleType) or is_versioned(obj):
        yield from parts_of_object(obj, seen)
        return
    yield obj.__name__
    for name in sorted(names):
        if name in vars(obj):
            yield name
            yield from parts_of_named(vars(obj)[name], names - {name}, seen)
