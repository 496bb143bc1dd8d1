"""What a capture does with Python functions of libraries, and whether their frames are compiled.

A table by module answers for the standard library, torch and known packages. Another installed
package is asked for torch: loggers, progress bars and web frameworks run between the tensor work of
a program. A package none of whose modules has anything of torch does no such work itself: its
frames are not compiled, and no break is made inside them, as the code after it would be compiled
for nothing.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from enum import Enum, auto
from functools import lru_cache
from typing import Any


class TraceRule(Enum):
    """How the functions of a module are called in a capture. Only the frames of COMPILE are
    compiled by themselves."""

    COMPILE = auto()  # inlined; a break may be made inside
    INLINE = auto()  # the same, but they only call other functions that are worth compiling
    BREAK_AT_CALL = auto()  # inlined if that needs no break; else Python runs the whole call
    SKIP = auto()  # Python runs the call
    OUTPUT = auto()  # Python runs the call, which writes output


def table(**modules: str) -> dict[str, TraceRule]:
    return {name: TraceRule[rule] for rule, names in modules.items() for name in names.split()}


# by the module's name or the beginning of it; the longest one counts
RULES = table(
    COMPILE="framejit.benchmarks framejit.examples framejit.tests",
    INLINE="contextlib framejit functools torch",
    # einops._backends searches for a class in its first call, in many steps without tensors
    BREAK_AT_CALL="_distutils_hack _pytest einops._backends ipykernel joblib jupyter_client pytest "
    "setuptools torch.ao.quantization.fake_quantize torch.ao.quantization.observer tornado "
    "traitlets typing_extensions zmq",
    SKIP="ast asyncio ctypes dis importlib io json linecache multiprocessing pdb pickle random "
    "shutil signal socket subprocess tempfile threading time tokenize traceback unittest "
    "IPython filelock matplotlib mlflow networkx numpy pandas pluggy rich scipy sklearn sympy "
    "tensorboard wandb "
    "framejit.backends framejit.events framejit.frontend framejit.guards framejit.options "
    "torch._dynamo torch._higher_order_ops.invoke_subgraph torch._higher_order_ops.wrap "
    "torch._inductor torch._ops torch._subclasses torch.ao.nn.intrinsic.quantized "
    "torch.ao.nn.quantized torch.cuda.random torch.distributed torch.fx "
    "torch.jit._script torch.jit._trace torch.multiprocessing torch.nn.parallel.distributed "
    "torch.onnx torch.optim._functional torch.optim.sparse_adam torch.profiler "
    "torch.serialization torch.utils.data",
    OUTPUT="logging torch.utils.tensorboard tqdm warnings",
)

# Functions that are inlined from modules that are skipped, by module and how their names begin:
# what a call of a torch.fx.GraphModule goes through, what code for one process asks as well, and
# operators with an observer.
INLINED_FUNCTIONS = {
    "torch.fx.graph_module": (
        "GraphModule.recompile.<locals>.call_wrapped", "_WrappedCall.__call__",
    ),
    "torch.fx._pytree": (
        "tree_flatten_spec",
        *(f"_{kind}_flatten_spec" for kind in ("dict", "list", "tuple", "namedtuple")),
    ),
    "torch.fx._symbolic_trace": ("is_fx_symbolic_tracing",),
    "torch.ao.nn.quantized.modules.functional_modules": ("FloatFunctional.",),
    "torch.distributed": ("is_available",),
    "torch.distributed._functional_collectives": (
        "all_gather_", "all_reduce", "all_to_all_single", "broadcast", "reduce_scatter_",
        "wait_tensor", "_maybe_view_chunk_cat", "_chunk_or_narrow_cat",
    ),
    "torch._higher_order_ops.invoke_subgraph": (
        "mark_compile_region.<locals>.wrap.<locals>.inner",
    ),
    "torch.distributed.tensor._api": ("distribute_module.<locals>.<lambda>",),
    "torch.distributed.tensor.parallel.style": tuple(
        f"{style}.{part}"
        for style in (
            "ColwiseParallel", "RowwiseParallel", "SequenceParallel", "PrepareModuleInput",
            "PrepareModuleOutput",
        )
        for part in ("_prepare_", "_apply.<locals>.<lambda>")
    ),
    "torch._utils": ("_maybe_view_chunk_cat", "_chunk_or_narrow_cat"),
    "torch.distributed.distributed_c10d": (
        "is_initialized", "_WorldMeta.WORLD", "_World.default_pg",
    ),
}  # fmt: skip

SITE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
STANDARD_LIBRARY = (sysconfig.get_path("stdlib") + os.sep, "<frozen")
# File names of code that a backend or torch.fx has generated. autograd calls it while the program's
# code runs; a checkpointed region must save the same tensors when it runs again, and a backward
# pass is compiled already.
GENERATED = ("<framejit ", "<eval_with_key>")
TORCH = "torch"
# by package: how many modules were loaded when it was looked at, and what was found
_found: dict[str, tuple[int, bool]] = {}


def trace_rule(module: object, name: str, filename: str) -> TraceRule:
    """The rule for a function of this qualified name; `module` is its globals' `__name__`."""
    found = rule_or_package(module if isinstance(module, str) else "", name, filename)
    if isinstance(found, TraceRule):
        return found
    return TraceRule.COMPILE if may_work_on_tensors(found) else TraceRule.BREAK_AT_CALL


@lru_cache(4096)
def rule_or_package(module: str, name: str, filename: str) -> TraceRule | str:
    """The rule that the tables have for a function; else the installed package that it is of."""
    if module:
        if name.startswith(INLINED_FUNCTIONS.get(module, ())):
            return TraceRule.INLINE
        rule = rule_of_module(module)
        if rule is not None:
            return rule
    if filename.startswith(GENERATED):
        return TraceRule.INLINE
    package = package_with(module, filename)
    if not package:
        library = filename.startswith(STANDARD_LIBRARY)
        return TraceRule.BREAK_AT_CALL if library else TraceRule.COMPILE
    return RULES.get(package, package)


def rule_of_function(function: types.FunctionType) -> TraceRule:
    return trace_rule(
        function.__globals__.get("__name__"), function.__qualname__, function.__code__.co_filename
    )


def is_of_library(function: types.FunctionType) -> bool:
    """Whether a function is of the standard library or of an installed package."""
    filename = function.__code__.co_filename
    return filename.startswith(STANDARD_LIBRARY) or bool(
        package_with(function.__module__ or "", filename)
    )


def rule_of_module(module: str) -> TraceRule | None:
    """The rule of RULES for a module; None if there is none."""
    return next((RULES[name] for name in names_from_longest(module) if name in RULES), None)


def names_from_longest(module: str) -> Iterator[str]:
    """A module's name and those of the packages that it is in."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def package_with(module: str, filename: str) -> str:
    """The installed package that a module is of; "" for other modules."""
    return package_of(filename) or package_installed_elsewhere(module, filename)


def package_of(filename: str) -> str:
    """The installed package that a file belongs to; "" for other files."""
    for folder in SITE_FOLDERS:
        _, installed, inside = filename.rpartition(folder)
        if installed:
            return inside.split(os.sep)[0].removesuffix(".py")
    return ""


def package_installed_elsewhere(module: str, filename: str) -> str:
    """The package that a module is of, if it was installed into another folder, as by pip's
    --target; "" for other modules."""
    package = module.partition(".")[0]
    origin = getattr(sys.modules.get(package), "__file__", None)
    if package == "__main__" or not isinstance(origin, str):
        return ""
    folder = os.path.dirname(origin)
    if os.path.basename(origin).startswith("__init__."):
        folder = os.path.dirname(folder)
    is_of_folder = filename.startswith(folder + os.sep)
    return package if is_of_folder and has_installed_packages(folder) else ""


@lru_cache(256)
def has_installed_packages(folder: str) -> bool:
    """Whether an installer has left a description of a package in a folder."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


def may_work_on_tensors(package: str) -> bool:
    """Whether a module of an installed package has something of torch."""
    loaded = len(sys.modules)
    known = _found.get(package)
    if known is None or (known[0] != loaded and not known[1]):
        known = _found[package] = loaded, has_torch(package)
    return known[1]


def has_torch(package: str) -> bool:
    """Whether a global name of a loaded module of a package is torch, or something of it; True
    where none is loaded."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == package and isinstance(module, types.ModuleType)
    ]
    return not modules or any(
        is_of_torch(value) for module in modules for value in list(vars(module).values())
    )


def is_of_torch(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        name = value.__name__
    elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        name = value.__module__
    else:
        return False
    return type(name) is str and name.partition(".")[0] == TORCH
