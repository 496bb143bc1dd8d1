"""Which frames to compile: those that may have tensor work (`TraceRule.COMPILE`)."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import types

import torch
from torch.utils import checkpoint

from ..values.disabled import is_disabled, is_shallow_wrapper, is_wrapper
from ..values.functions.trace_rules import TraceRule, rule_of_function

KINDS = {
    inspect.CO_COROUTINE: "an async function",
    inspect.CO_ASYNC_GENERATOR: "an async generator",
    inspect.CO_GENERATOR: "a generator",
}
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
TORCH = os.path.dirname(torch.__file__) + os.sep
# where functions are passed to torch.compile
TORCH_COMPILE = (TORCH + "_dynamo" + os.sep, TORCH + "_higher_order_ops" + os.sep)
DATACLASS_METHOD = "__create_fn__"  # the name of each method's code that dataclasses writes
NAMEDTUPLE_MODULE = "namedtuple_"


# Functions under which everything stays in Python: the code inside runs again in the backward pass,
# where the hook is off, and torch counts the tensors that both runs save.
IN_PYTHON = (inspect.unwrap(checkpoint.checkpoint).__code__,)
# Methods that torch calls inside an operator, and the function by which a subclass is made.
INSIDE_OPERATORS = frozenset(
    {"__torch_function__", "__torch_dispatch__", "__tensor_flatten__", "__tensor_unflatten__"}
)
MAKES_WRAPPERS = "_make_wrapper_subclass"


def stays_in_python(code: types.CodeType) -> bool:
    """Whether a frame and everything it calls run with the hook off. A function passed to
    torch.compile is compiled by torch.compile; two frame evaluators that start and stop in a
    different order may leave one of them installed. Callbacks of the garbage collector may run
    between any two instructions; they do not belong to the function that they interrupt. A
    notebook's or a program's own standard output is called by each print()."""
    return (
        any(code is other for other in IN_PYTHON)  # by identity: constants may have no hash
        or any(code is getattr(callback, "__code__", None) for callback in gc.callbacks)
        or writes_output(code)
        or code.co_name in INSIDE_OPERATORS
        or MAKES_WRAPPERS in code.co_names
        or is_wrapper(code, TORCH)
        or (code.co_filename.startswith(TORCH_COMPILE) and not is_shallow_wrapper(code, TORCH))
    )


def writes_output(code: types.CodeType) -> bool:
    """Whether a code object is a method by which the standard streams are written."""
    methods = [
        getattr(type(stream), name, None)
        for stream in (sys.stdout, sys.stderr)
        for name in ("write", "flush")
    ]
    return any(code is getattr(method, "__code__", None) for method in methods)


def worth_compiling(
    code: types.CodeType, function: types.FunctionType, caller: types.CodeType | None = None
) -> bool:
    """Whether frames of a code object may contain tensor work that is worth compiling. `caller`:
    the calling code."""
    if code.co_flags & GENERATORS or not code.co_flags & inspect.CO_OPTIMIZED:
        return False
    if is_disabled(function) or (caller is not None and is_shallow_wrapper(caller, TORCH)):
        return False
    if code.co_filename == "<string>" and is_written_by_python(function):
        return False
    return rule_of_function(function) is TraceRule.COMPILE


def is_written_by_python(function: types.FunctionType) -> bool:
    """Whether code without a file is a method of a dataclass or a namedtuple."""
    module = function.__globals__.get("__name__")
    return function.__code__.co_name == DATACLASS_METHOD or (
        isinstance(module, str) and module.startswith(NAMEDTUPLE_MODULE)
    )


def why_never_compiled(code: types.CodeType) -> str:
    """Why the frames of a function stay in Python; "" for a plain function."""
    kind = next((kind for flag, kind in KINDS.items() if code.co_flags & flag), "")
    return f"{kind} runs in Python; compile the functions that it calls" if kind else ""


def place_of(code: types.CodeType) -> str:
    """file:line of a function."""
    return f"{code.co_filename}:{code.co_firstlineno}"
