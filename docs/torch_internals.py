"""Generates docs/torch-internals.md, the list of private names of torch that framejit uses.

Run `python docs/torch_internals.py` to update the page; a test compares it with the code.

A name is private if a part of it begins with an underscore. It may be imported from torch, reached
through one of torch's modules, an attribute of tensors, or a symbol of torch's libraries. What does
not work without a name follows from the file that uses it, and from whether the file does so when
it is imported, or later.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from framejit.frontend.values.models import NEEDED

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("torch-internals.md")
PLACES = ("*.py", "frontend/**/*.py", "guards/**/*.py", "backends/**/*.py", "cli/*.py")
ON_TENSORS = frozenset(name for name in dir(torch.Tensor) if re.match("_[a-z]", name)) - {
    "_version"
} | {"_version", "_cdata"}

# Why, by the beginning of a name; the longest that fits counts.
WHY = {
    "_ZN": "a getter of a mode, called by guards in C",
    "_ZN3c104impl26raw_local_dispatch_key_setE": "the thread's dispatch keys, read by guards in C",
    "_ZN5torch3jit6tracer15getTracingStateEv": (
        "whether torch.jit.trace records, asked at each call"
    ),
    "_ZNK3c1010TensorImpl13requires_gradEv": (
        "whether a tensor that is no leaf requires a gradient, asked by guards in C"
    ),
    "torch.nn.parallel.DistributedDataParallel._get_active_ddp_module": (
        "the size of the buckets in which gradients are reduced"
    ),
    "torch.Tensor._base": "which tensor another one is a view of",
    "torch.Tensor._cdata": (
        "the address of the C++ tensor or storage: memory that is shared, facts that guards read"
    ),
    "torch.Tensor._has_symbolic_sizes_strides": "whether sizes of a fake tensor are symbols",
    "torch.Tensor._make_subclass": "makes a tensor an instance of a subclass",
    "torch.Tensor._is_view": "whether a tensor is a view to autograd",
    "torch.Tensor._view_func": "creates a view anew, of another base",
    "torch.Tensor._version": "how often a tensor was written into",
    "torch._C.DisableTorchFunction": "runs operators without tensor subclasses and function modes",
    "torch._C._EnableTorchFunction": "calls `__torch_function__` where it was switched off",
    "torch._C.DispatchKey": "names of dispatch keys",
    "torch._C.ScriptMethod": "knows what TorchScript has compiled",
    "torch._C.TensorBase": "methods of tensors that are written in C",
    "torch._C._TensorBase": "methods of tensors that are written in C",
    "torch._C._DisableAutocast": (
        "runs compiled graphs without autocast, which their operators contain already"
    ),
    "torch._C._DisablePythonDispatcher": (
        "gives views on fake tensors the strides of their C++, also while a graph is traced"
    ),
    "torch._C._autograd._unsafe_set_version_counter": (
        "writes through `.data` do not count as writes, as in eager"
    ),
    "torch._C._functionalization": "results that are views, created after a compiled graph",
    "torch._C._is_view_replay_enabled": "results that are views, created after a compiled graph",
    "torch._C._set_view_replay_enabled": "results that are views, created after a compiled graph",
    "torch._functorch.config": "compiles the backward graph together with the forward graph",
    "torch._C._TorchDispatchModeKey": (
        "a mode where torch keeps that of fake tensors, to see whether the fingerprint shows it"
    ),
    "torch._C._AutoDispatchBelowADInplaceOrView": (
        "results on one memory that autograd does not see as views of each other"
    ),
    "torch._C._DisableFuncTorch": "runs operators below the levels of torch.func",
    "torch._C._DisableTorchDispatch": "makes tensors without dispatch modes",
    "torch._C._ExcludeDispatchKeyGuard": "makes tensors without the levels of torch.func",
    "torch._C._FunctionBase": "attributes of an autograd.Function's context",
    "torch._C._VariableFunctions": "torch's operators as functions in C",
    "torch._C._fft": "torch's operators as functions in C",
    "torch._C._linalg": "torch's operators as functions in C",
    "torch._C._nn": "torch's operators as functions in C",
    "torch._C._sparse": "torch's operators as functions in C",
    "torch._C._special": "torch's operators as functions in C",
    "torch._C._WeakTensorRef": "knows whether a tensor still lives",
    "torch._C._storage_Use_Count": "whether something else refers to the memory of a result",
    "torch._C._autograd.CreationMeta": (
        "how a view was made, which decides whether it may be written into"
    ),
    "torch._C._autograd._get_creation_meta": (
        "how a view was made, which decides whether it may be written into"
    ),
    "torch._C._autograd._get_current_graph_task_keep_graph": (
        "whether saved tensors are needed after this backward pass"
    ),
    "torch._C._autograd._top_saved_tensors_default_hooks": (
        "whether hooks of the program's see what autograd saves"
    ),
    "torch._C._autograd._pop_saved": "hooks on saved tensors, taken off while a graph is captured",
    "torch._C._autograd._push_saved": "hooks on saved tensors, taken off while a graph is captured",
    "torch._C._autograd._saved_tensors_hooks": (
        "whether hooks on saved tensors are allowed, for torch.func"
    ),
    "torch._C._construct_storage_from_data_pointer": (
        "leaves the memory of recorded inputs and results to their pool"
    ),
    "torch._C._create_graph_by_tracing": "makes the TorchScript graph",
    "torch._C._cuda_endAllocateToPool": "ends a recording's use of its memory pool",
    "torch._C._cuda_getCurrentRawStream": "the stream that kernels are launched on",
    "torch._C._data_address": "the address of a tensor's memory, without a check that costs time",
    "torch._C._disabled_torch_function_impl": "knows subclasses that switch __torch_function__ off",
    "torch._C._dispatch_keys": (
        "which kernels a tensor's operators reach: what kind of tensor it is"
    ),
    "torch._C._dispatch_tls_local": "the thread's dispatch keys",
    "torch._C._dynamo.eval_frame": "switches torch.compile off while a compiled function runs",
    "torch._C._dynamo.guards": "allocates results of kernels without the dispatcher",
    "torch._C._ensureCUDADeviceGuardSet": (
        "what torch.compile's guards ask for, met in torch's own code"
    ),
    "torch._C._enter_dual_level": "forward-mode levels",
    "torch._C._exit_dual_level": "forward-mode levels",
    "torch._C._is_fwd_grad_enabled": "forward-mode levels",
    "torch._C._set_fwd_grad_enabled": "forward-mode levels",
    "torch._C._functions.DelayedError": "gives a fake wrapper a history, as its original has one",
    "torch._C._are_functorch_transforms_active": "whether torch.func transforms the code",
    "torch._C._functorch": "levels of torch.func: which there are, which tensors belong to them",
    "torch._C._get_deterministic": "whether algorithms have to be deterministic",
    "torch._C._get_dispatch_stack_at": "the dispatch modes that are on",
    "torch._C._len_torch_dispatch_stack": "the dispatch modes that are on",
    "torch._C._autograd._set_creation_meta": (
        "marks results that nobody may write into, as eager does"
    ),
    "torch._C._get_fp32_precision_getter": "how precise products are",
    "torch._C._set_fp32_precision_setter": "exact products while a candidate is judged",
    "torch._C._get_function_stack_at": "the function modes that are on",
    "torch._C._len_torch_function_stack": "the function modes that are on",
    "torch._C._is_torch_function": "the function modes that are on",
    "torch._C._get_privateuse1_backend_name": "a function that torch's own Python calls",
    "torch._C._get_tracing_state": "whether torch.jit.trace records",
    "torch._C._is_tracing": "whether torch.jit.trace records",
    "torch._C._group_tensors_by_device_and_dtype": "what optimizers do with lists of tensors",
    "torch._C._has_storage": "whether a tensor has memory of its own",
    "torch._C._infer_size": "a function that torch.distributions calls",
    "torch._C._is_any_autocast_enabled": "whether autocast is on",
    "torch._C._log_api_usage_once": "a function that torch's own Python calls",
    "torch._C._set_grad_enabled": "the grad mode, set without a context manager",
    "torch._C._set_throw_on_mutable_data_ptr": (
        "keeps fake tensors from having memory that can be read"
    ),
    "torch._C._set_warn_deprecated_on_mutable_data_ptr": (
        "keeps fake tensors from having memory that can be read"
    ),
    "torch._C._vmapmode": "levels of torch.func: which there are, which tensors belong to them",
    "torch._assert": "a function that programs and torch's own Python call",
    "torch._check": "a function that programs and torch's own Python call",
    "torch._debug_has_internal_overlap": "whether two elements of a tensor share memory",
    "torch._decomp": "operators in terms of simpler ones",
    "torch._dispatch.python": (
        "kernels of operators that are written in Python, for sizes that are symbols"
    ),
    "torch._foreach": "operators on lists of tensors",
    "torch._disable_functionalization": (
        "a graph without writes, for backends that want ATen graphs"
    ),
    "torch._enable_functionalization": "a graph without writes, for backends that want ATen graphs",
    "torch._from_functional_tensor": "a graph without writes, for backends that want ATen graphs",
    "torch._is_functional_tensor": "a graph without writes, for backends that want ATen graphs",
    "torch._sync": "a graph without writes, for backends that want ATen graphs",
    "torch._to_functional_tensor": "a graph without writes, for backends that want ATen graphs",
    "torch._functorch.aot_autograd": (
        "forward and backward graphs, where framejit's own way does not apply"
    ),
    "torch._functorch.eager_transforms": "what torch.func's transforms call",
    "torch.nn.utils.stateless": "functional_call without the order of a set of names",
    "torch._functorch.partitioners": (
        "divides a joint graph, where framejit's own way does not apply"
    ),
    "torch._functorch.predispatch": "what torch.func's transforms call",
    "torch._guards": "what torch's symbols of sizes and its backends expect around a compilation",
    "torch._higher_order_ops": "rules of higher-order operators for fake tensors",
    "torch._inductor": "the backend itself and its options",
    "torch._is_all_true": "checks of torch.distributions, which ask for values",
    "torch._library": "operators that the program has defined",
    "torch._ops": "classes of operators",
    "torch._logging": "torch's structured log, which otherwise begins with a record of a stack",
    "torch._neg_view": "negated views of one memory, copied together with it",
    "torch._prims_common": (
        "which dtype an operator calculates in, which memory format a tensor has"
    ),
    "torch._subclasses.fake_tensor": (
        "tensors without memory, on which a capture calculates sizes, dtypes and strides"
    ),
    "torch._subclasses.meta_utils": "makes such tensors of real ones that need a description",
    "torch._sym": "functions of numbers that are symbols",
    "torch.amp.autocast_mode": "autocast without a context manager, as graphs contain it",
    "torch.autograd._profiler_enabled": "whether a profiler runs",
    "torch.autograd.profiler": "whether a profiler runs",
    "torch.autograd.forward_ad": "forward-mode levels",
    "torch.autograd.function._SingleLevelFunction": (
        "knows an autograd.Function without setup_context"
    ),
    "torch.autograd.grad_mode": "inference mode without a context manager, as graphs contain it",
    "torch.cuda._sleep": "keeps the device busy while a measurement is queued",
    "torch.distributions": "checks and attributes that would ask a tensor for its value",
    "torch.fx._lazy_graph_module": "graph modules whose code is generated when it is needed",
    "torch.fx._symbolic_trace": "whether torch.fx traces",
    "torch.fx.experimental._config": "how torch's symbols of sizes behave",
    "torch.fx.experimental.symbolic_shapes": (
        "the constructor of torch's symbols, without the import of a module that it seldom needs"
    ),
    "torch.jit._state": "knows what TorchScript has compiled",
    "torch.masked": "masked reductions, which ask for values",
    "torch.nn.Module": "the way from a module's call to its forward",
    "torch.nn.functional": "checks of sizes, which compare symbols",
    "torch.nn.modules._functions": "the nodes of hooks on modules' backward passes",
    "torch.nn.modules.lazy": "the hook that initializes a lazy module, which Python runs",
    "torch.nn.modules.module": "hooks on all modules",
    "torch.optim": "steps of optimizers that ask tensors for their values",
    "torch.utils._device": "the mode of a default device",
    "torch.utils._python_dispatch": "calculates without the dispatch modes that are on",
    "torch.utils._pytree": "containers of tensors, taken apart and put together",
    "torch.utils._sympy": "expressions of sizes, printed and evaluated",
    "torch.distributed": "which group of processes a collective is in",
    "torch.utils.checkpoint": "what ends a recomputation early",
}

# What happens without a name, by the file that uses it: (when it is imported, when it is called).
# The longest beginning counts.
EVERYTHING = "everything runs in eager"
ONE_FRAME = "a frame that needs it runs in eager; everything does where the self-check needs it"
IN_PYTHON = "Python checks these guards, which is slower"
LOST = {
    "": (EVERYTHING, ONE_FRAME),
    "frontend/runtime/dynamo_switch": ("torch.compile stays on under a compiled function",) * 2,
    "backends/autograd/aot_eager": ("the backend aot_eager is off",) * 2,
    "backends/autotune/": ("the backend autotune is off",) * 2,
    "backends/cudagraphs/": ("the backend cudagraphs is off",) * 2,
    "backends/inductor": ("the backend inductor is off",) * 2,
    "backends/native/": ("the backend native is off",) * 2,
    "backends/onnxruntime": ("the backend onnxruntime is off",) * 2,
    "backends/torchscript": ("the backend torchscript is off",) * 2,
    "cli/": ("the command fails",) * 2,
    "frontend/tracing/fake_tensors/fake_execution.py": (EVERYTHING, EVERYTHING),
    "guards/native/": (IN_PYTHON, IN_PYTHON),
    "guards/torch_state.py": (EVERYTHING, EVERYTHING),
}


@dataclass(frozen=True)
class Use:
    """A private name of torch's, in one file. `at_import`: whether importing the file needs it."""

    name: str
    file: str
    at_import: bool


def uses() -> list[Use]:
    """All uses, one for a name and a file; at import if any of them is."""
    found: dict[tuple[str, str], bool] = {}
    for path in sorted({path for place in PLACES for path in ROOT.glob(place)}):
        if path.name == "setup.py":
            continue
        file = str(path.relative_to(ROOT))
        for name, at_import in without_prefixes(private_names(ast.parse(path.read_text()))):
            found[name, file] = found.get((name, file), False) or at_import
    return [Use(name, file, at_import) for (name, file), at_import in sorted(found.items())]


def without_prefixes(names: Iterator[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Names of one file cut behind a class, and without modules of which other names are there."""
    cut = [
        (re.match(r"(?:.*?\._(?:\w+\.)*?[A-Z]\w+)|.*", name)[0], at_import)
        for name, at_import in names
    ]  # type: ignore[index]
    return [
        (name, at_import)
        for name, at_import in cut
        if not any(other.startswith(f"{name}.") for other, _ in cut)
    ]


def private_names(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """(name, whether importing the file needs it) of each use in a file."""
    modules = torch_modules(tree)
    for node, at_import in walk(tree, True):
        if isinstance(node, ast.ImportFrom) and not node.level and is_torchs(node.module or ""):
            yield from (
                (name, at_import)
                for alias in node.names
                if is_private(name := f"{node.module}.{alias.name}")
            )
        elif isinstance(node, ast.Import):
            yield from (
                (alias.name, at_import)
                for alias in node.names
                if is_torchs(alias.name) and is_private(alias.name)
            )
        elif isinstance(node, ast.Attribute):
            name = dotted_name(node, modules)
            if name is not None and is_private(name):
                yield name, at_import
            elif name is None and node.attr in ON_TENSORS and not is_self(node.value):
                yield f"torch.Tensor.{node.attr}", at_import
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"_ZNK?\d\w+", node.value)
        ):
            yield node.value, at_import


def walk(node: ast.AST, at_import: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Nodes, of a chain of attributes the outermost, and whether importing the file runs them.
    Types do not run."""
    yield node, at_import
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        later = (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            and field == "body"
        )
        for child in value if isinstance(value, list) else [value]:
            while isinstance(node, ast.Attribute) and isinstance(child, ast.Attribute):
                child = child.value
            if isinstance(child, ast.AST):
                yield from walk(child, at_import and not later)


def torch_modules(tree: ast.Module) -> dict[str, str]:
    """The names in a file that stand for modules or members of torch, with what they stand for."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if is_torchs(alias.name) and alias.asname:
                    found[alias.asname] = alias.name
                elif is_torchs(alias.name):
                    found["torch"] = "torch"
        elif isinstance(node, ast.ImportFrom) and not node.level and is_torchs(node.module or ""):
            found.update(
                {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            )
        elif isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Attribute):
            module, targets = (
                ast.unparse(node.value),
                [node.target] if isinstance(node, ast.AnnAssign) else node.targets,
            )
            if is_torchs(module) and module in sys.modules:
                found.update(
                    {target.id: module for target in targets if isinstance(target, ast.Name)}
                )
    return found


def dotted_name(node: ast.Attribute, modules: dict[str, str]) -> str | None:
    """The whole name of a chain of attributes that starts at something of torch's, else None."""
    parts: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in modules:
        return None
    return f"{modules[inner.id]}.{'.'.join(reversed(parts))}"


def loss(use: Use) -> str:
    """What happens without a name where one file uses it."""
    model = re.fullmatch(r"frontend/values/models/(\w+)\.py", use.file)
    if model is not None and model[1] not in NEEDED and use.at_import:
        return f"calls of what `torch.{model[1]}` has break the graph"
    beginning = max(filter(use.file.startswith, LOST), key=len)
    return LOST[beginning][0 if use.at_import else 1]


def reason(name: str) -> str | None:
    """Why a name is used, None where nobody has said it."""
    beginning = max(filter(name.startswith, WHY), key=len, default=None)
    return None if beginning is None else WHY[beginning]


def page() -> str:
    """The text of the page."""
    found = uses()
    rows = [f"| `{use.name}` | `{use.file}` | {reason(use.name)} | {loss(use)} |" for use in found]
    return (
        HEAD.format(names=len({use.name for use in found}), files=len({use.file for use in found}))
        + "\n".join(rows)
        + "\n"
    )


HEAD = """# The private parts of torch that framejit uses

{names} names in {files} files. `python docs/torch_internals.py` finds them in the code and
generates this page. Differences between torch's versions are probed in `torch_compat.py`. The
layout of C++ objects is determined by experiment, in `guards/native/layout.py` and
`guards/native/fingerprint.py`. With a torch newer than the tested versions, a self-check finds out
at the first `compile()` what still works, and `framejit doctor` repeats its result.

Where something "runs in eager", there is a warning, and `framejit explain` shows the name.

| name | file | why | without it |
|--|--|--|--|
"""


def is_torchs(module: str) -> bool:
    return module.split(".")[0] == "torch"


def is_private(name: str) -> bool:
    """Whether a part begins with one underscore; operators and dunders do not count."""
    return any(re.match("_(?!_)", part) for part in name.split(".")) and not name.startswith(
        "torch.ops."
    )


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


if __name__ == "__main__":
    PAGE.write_text(page())
