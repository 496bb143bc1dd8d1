"""Which frames to compile: the user's code, not libraries without tensor work."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import sysconfig
import types

import torch
from torch.utils import checkpoint

from ..values.disabled import is_disabled, is_shallow_wrapper, is_wrapper
from ..values.functions.installed_code import may_work_on_tensors, package_of
from ..values.functions.opaque_function import breaks_at_its_call

KINDS = {
    inspect.CO_COROUTINE: "an async function",
    inspect.CO_ASYNC_GENERATOR: "an async generator",
    inspect.CO_GENERATOR: "a generator",
}
GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
TORCH = os.path.dirname(torch.__file__) + os.sep
# where functions are passed to torch.compile
TORCH_COMPILE = (TORCH + "_dynamo" + os.sep, TORCH + "_higher_order_ops" + os.sep)
FOLDERS = ("frontend", "guards", "backends", "cli")
FILES = (
    "clock", "errors", "events", "factory_call", "garbage_collection", "generated_source",
    "options", "overlap", "records", "tier", "torch_compat",
)  # fmt: skip
OURS = (
    *(PACKAGE + folder + os.sep for folder in FOLDERS),
    *(PACKAGE + name + ".py" for name in FILES),
)
# File names of code that a backend or torch.fx has generated. autograd calls it while the program's
# code runs; a checkpointed region must save the same tensors when it runs again, and a backward
# pass is compiled already.
GENERATED = ("<framejit ", "<eval_with_key>")
LIBRARIES = (
    "numpy", "scipy", "sklearn", "joblib", "sympy", "typing_extensions", "networkx", "rich",
    "IPython", "ipykernel", "jupyter_client", "traitlets", "tornado", "zmq", "pytest", "_pytest",
    "pluggy", "tqdm", "matplotlib", "pandas", "filelock", "tensorboard", "wandb", "mlflow",
    "setuptools", "_distutils_hack",
)  # fmt: skip


def written_by_library(function: types.FunctionType) -> bool:
    """Whether code without a file belongs to torch or to a class that a library or framejit wrote:
    namedtuple, dataclass."""
    module = str(function.__globals__.get("__name__", ""))
    package, _, below = module.partition(".")
    ours = package == "framejit" and below.partition(".")[0] in (*FOLDERS, *FILES)
    if function.__code__.co_name == "__create_fn__":  # dataclasses makes methods by calling it
        return True
    return ours or module.startswith("namedtuple_") or package in ("torch", *LIBRARIES)


# Functions under which everything stays in Python: the code inside runs again in the backward pass,
# where the hook is off, and torch counts the tensors that both runs save.
IN_PYTHON = (inspect.unwrap(checkpoint.checkpoint).__code__,)
# Methods that torch calls inside its dispatcher, and the function by which a subclass is made.
BELOW_DISPATCHER = frozenset({"__torch_dispatch__", "__tensor_flatten__", "__tensor_unflatten__"})
MAKES_WRAPPERS = "_make_wrapper_subclass"


def stays_in_python(code: types.CodeType) -> bool:
    """Whether a frame and everything it calls run with the hook off. A function passed to
    torch.compile is compiled by torch.compile; two frame evaluators that start and stop in a
    different order may leave one of them installed. Callbacks of the garbage collector run between
    any two instructions and are no part of the function that they interrupt. A notebook's or a
    program's own standard output is called by each print()."""
    return (
        any(code is other for other in IN_PYTHON)  # by identity: constants may have no hash
        or any(code is getattr(callback, "__code__", None) for callback in gc.callbacks)
        or writes_output(code)
        or code.co_name in BELOW_DISPATCHER
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
    name = code.co_filename
    if name == "<string>" and written_by_library(function):
        return False
    if name.startswith(("<frozen", *GENERATED)) or name.startswith(OURS):
        return False
    if name.startswith(TORCH) or breaks_at_its_call(function.__globals__.get("__name__")):
        return False
    package = package_of(name)
    if not package:
        return not name.startswith(STANDARD_LIBRARY)
    return package not in LIBRARIES and may_work_on_tensors(name)


def why_never_compiled(code: types.CodeType) -> str:
    """Why the frames of a function stay in Python; "" for a plain function."""
    kind = next((kind for flag, kind in KINDS.items() if code.co_flags & flag), "")
    return f"{kind} runs in Python; compile the functions that it calls" if kind else ""


def place_of(code: types.CodeType) -> str:
    """file:line of a function."""
    return f"{code.co_filename}:{code.co_firstlineno}"
