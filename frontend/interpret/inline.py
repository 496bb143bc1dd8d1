"""Calls of Python functions: arguments to slots, then a nested interpreter (or a suspended one, for a generator)."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ...errors import GraphBreak
from ..pycode.decode import decode
from ..values.base import Value
from ..values.constant import Constant
from ..values.function import FunctionValue
from ..values.generator import GeneratorValue
from ..values.mapping import DictValue
from ..values.models.torch_policy import opaque_reason
from ..values.sequence import TupleValue
from .interpreter import Interpreter

if TYPE_CHECKING:
    from .trace import Trace


def inline(tx: Trace, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result of function(*args, **kwargs)."""
    reason = opaque_reason(function)
    if reason is not None:
        raise GraphBreak(*reason)
    if len(tx.frames) >= tx.options.inline_depth:
        raise GraphBreak("too-deep", str(len(tx.frames)))
    slots = bind(tx, function, args, kwargs)
    frame = Interpreter(tx, decode(function.code), function.globals, tx.globals_path(function.globals, function), slots)
    frame.bind_cells(function.closure)
    flags = function.code.co_flags
    if flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise GraphBreak("generator", f"{function.describe()} is asynchronous")
    if flags & inspect.CO_GENERATOR:
        return GeneratorValue(frame, tx.step)
    return frame.run()


def bind(tx: Trace, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> list[Value | None]:
    """Slot contents of the new frame, arguments first."""
    code = function.code
    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    slots: list[Value | None] = [None] * (code.co_nlocals + len(code.co_cellvars) + len(code.co_freevars))
    slots[: min(positional, len(args))] = args[:positional]
    extra = args[positional:]
    by_name: dict[str, Value] = {}
    allowed = {name: i for i, name in enumerate(names[: positional + keyword_only]) if i >= code.co_posonlyargcount}
    for name, value in kwargs.items():
        index = allowed.get(name)
        if index is None:
            by_name[name] = value
        elif slots[index] is not None:
            raise tx.throw(TypeError, f"{function.name}() got multiple values for argument '{name}'")
        else:
            slots[index] = value
    _defaults(tx, function, slots)
    after = positional + keyword_only
    if code.co_flags & inspect.CO_VARARGS:
        slots[after] = TupleValue(list(extra))
        after += 1
    elif extra:
        raise tx.throw(TypeError, f"{function.name}() takes {positional} positional arguments but {len(args)} were given")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        slots[after] = DictValue({name: (Constant(name), value) for name, value in by_name.items()})
    elif by_name:
        raise tx.throw(TypeError, f"{function.name}() got an unexpected keyword argument '{next(iter(by_name))}'")
    return slots


def _defaults(tx: Trace, function: FunctionValue, slots: list[Value | None]) -> None:
    code = function.code
    first_default = code.co_argcount - len(function.defaults)
    missing = []
    for index in range(code.co_argcount + code.co_kwonlyargcount):
        if slots[index] is not None:
            continue
        name = code.co_varnames[index]
        if first_default <= index < code.co_argcount:
            slots[index] = function.defaults[index - first_default]
        elif index >= code.co_argcount and name in function.kwdefaults:
            slots[index] = function.kwdefaults[name]
        else:
            missing.append(name)
    if missing:
        listed = " and ".join(f"'{name}'" for name in missing)
        raise tx.throw(TypeError, f"{function.name}() missing {len(missing)} required arguments: {listed}")
