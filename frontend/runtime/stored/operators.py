"""Operators that the program has registered with torch, and wrapper subclasses: their content as a
digest.

What a graph relies on are an operator's rules for sizes and gradients, and a class's own code,
which tracing has run. The digest covers these functions and all that they name. The operator itself
runs as it is then.
"""

from __future__ import annotations

import copyreg
import functools
import logging
import operator
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
# an object's number in the order in which objects were found, by its id, and the object
Seen = dict[int, tuple[int, Any]]
Reader = Callable[[Any, Seen], Iterator[str]]
EXACT_LITERALS = frozenset({*LITERALS, bool, torch.finfo, torch.iinfo})
MADE = frozenset({"_abc_impl", "_backward_cls"})  # by abc and by autograd.Function
# what pickle asks an object for
PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__",
            "__getattr__", "__getattribute__")  # fmt: skip
REDUCE = operator.methodcaller("__reduce_ex__", 4)
MOST = 1024  # elements of a tensor that is compared


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
    return digest_of_all(parts_of_definition(definition))


def parts_of_definition(definition: Any) -> Iterator[str]:
    yield definition._schema
    yield repr(sorted(map(str, definition._tags)))
    seen: Seen = {}
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
    return digest_of_all(parts_of_object(cls, {}))


def digest_of_all(parts: Iterator[str]) -> str:
    try:
        return digest_of(parts)
    except RecursionError:
        raise Unknown("its functions use objects that are nested too deeply") from None


def parts_of_object(obj: Any, seen: Seen) -> Iterator[str]:
    """Texts that are equal for objects with equal content: of a function also what it names. Raises
    Unknown."""
    kind = type(obj)
    if kind in EXACT_LITERALS:
        yield text_of_constant(obj)
    elif id(obj) in seen:
        yield f"again {seen[id(obj)][0]}"
    elif is_versioned(obj):
        yield f"{getattr(obj, '__module__', '')} {getattr(obj, '__qualname__', obj)}"
    else:
        yield name_of_class(kind)
        if kind not in CONTAINERS:
            seen[id(obj)] = len(seen), obj
        yield from reader_of(obj)(obj, seen)


def reader_of(obj: Any) -> Reader:
    if isinstance(obj, type):
        return parts_of_class
    if is_users_operator(obj):
        return parts_of_operator
    if isinstance(obj, logging.Logger):
        return parts_of_logger
    return READERS.get(type(obj), parts_of_instance)


def parts_of_items(items: Any, seen: Seen) -> Iterator[str]:
    for item in items:
        yield from parts_of_object(item, seen)


def parts_of_dict(items: dict[Any, Any], seen: Seen) -> Iterator[str]:
    yield from parts_of_items(items.items(), seen)


def parts_of_set(items: Any, seen: Seen) -> Iterator[str]:
    """The order of a set varies between processes."""
    yield from sorted(digest_of(parts_of_object(item, {**seen})) for item in items)


def parts_of_class(cls: Any, seen: Seen) -> Iterator[str]:
    yield digest_of_class(cls)
    for base in cls.__mro__:
        own = {} if is_versioned(base) else vars(base)
        for name, value in sorted(own.items()):
            functions = list(functions_in(value))
            if functions or not (name.startswith("__") or is_made_by_python(name, value)):
                yield name
                yield from parts_of_object(functions or value, seen)


def is_made_by_python(name: str, value: Any) -> bool:
    """Whether an item of a class is a slot, or made for every class of its kind."""
    return name in MADE or isinstance(
        value, types.GetSetDescriptorType | types.MemberDescriptorType
    )


def parts_of_method(method: Any, seen: Seen) -> Iterator[str]:
    yield from parts_of_object(method.__func__, seen)
    yield from parts_of_object(method.__self__, seen)


def parts_of_operator(operator: Any, seen: Seen) -> Iterator[str]:
    yield digest_of_operator(operator)


def parts_of_logger(logger: Any, seen: Seen) -> Iterator[str]:
    yield f"{logger.name} {logger.getEffectiveLevel()}"


def parts_of_wrapped(function: Any, seen: Seen) -> Iterator[str]:
    yield from parts_of_object(function.__wrapped__, seen)


def parts_of_tensor(tensor: Any, seen: Seen) -> Iterator[str]:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.numel() > MOST:
        raise unknown_type(tensor)
    yield f"{tensor.dtype} {[*tensor.shape]} {tensor.tolist()}"


def parts_of_instance(obj: Any, seen: Seen) -> Iterator[str]:
    """What pickle would write of an object, unless that is for the program's code to say."""
    reduce = copyreg.dispatch_table.get(type(obj), REDUCE)
    methods = (vars(base).get(name) for base in type(obj).__mro__ for name in PICKLING)
    if isinstance(obj, torch.Tensor) or any(map(is_of_the_program, (reduce, *methods))):
        raise unknown_type(obj)
    try:
        reduced = reduce(obj)
    except Exception as error:
        raise unknown_type(obj) from error
    for part in (type(obj), reduced) if isinstance(reduced, str) else reduced:
        yield from parts_of_object([*part] if isinstance(part, Iterator) else part, seen)


def is_of_the_program(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and not is_versioned(function)


def unknown_type(obj: Any) -> Unknown:
    return Unknown(f"its functions use an object of type {name_of_class(type(obj))}")


def is_versioned(obj: Any) -> bool:
    """Whether it is a module, function or class that changes with versions only."""
    if isinstance(obj, types.ModuleType):
        return root_of(obj.__name__) in VERSIONED
    if isinstance(obj, types.FunctionType):
        # its __module__ is another's after functools.wraps
        return root_of(obj.__globals__.get("__name__")) in VERSIONED
    if is_users_operator(obj):
        return False
    of_torch = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops._OpNamespace,
                torch._ops._Ops)  # fmt: skip
    return isinstance(obj, of_torch) or (
        isinstance(obj, types.BuiltinFunctionType | type)
        and root_of(getattr(obj, "__module__", None)) in VERSIONED
    )


def parts_of_function(function: Any, seen: Seen) -> Iterator[str]:
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


def parts_of_named(obj: Any, names: set[str], seen: Seen) -> Iterator[str]:
    """What a global variable stands for; of a module of the program, what is read of it."""
    if not isinstance(obj, types.ModuleType) or is_versioned(obj):
        yield from parts_of_object(obj, seen)
        return
    yield obj.__name__
    for name in sorted(names):
        if name in vars(obj):
            yield name
            yield from parts_of_named(vars(obj)[name], names - {name}, seen)


CONTAINERS: dict[type, Reader] = {
    tuple: parts_of_items,
    list: parts_of_items,
    dict: parts_of_dict,
    set: parts_of_set,
    frozenset: parts_of_set,
}
READERS: dict[type, Reader] = {
    **CONTAINERS,
    types.FunctionType: parts_of_function,
    types.MethodType: parts_of_method,
    functools._lru_cache_wrapper: parts_of_wrapped,
    torch.Tensor: parts_of_tensor,
}
