"""Python functions that are not inlined, by the module that defines them or what they are given."""

from __future__ import annotations

import types

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import rnn

from ..base import Value
from ..disabled import disabled_reason, is_disabled
from .function import FunctionValue

OPAQUE_MODULES = frozenset(
    "logging warnings threading subprocess socket asyncio multiprocessing importlib io random "
    "time tempfile shutil pickle json "
    "unittest pdb traceback linecache signal ctypes tokenize ast dis torch._dynamo "
    "torch.multiprocessing torch.distributed torch.nn.parallel.distributed "
    "torch.utils.data torch.utils.tensorboard torch._inductor torch.fx torch._subclasses "
    "torch.profiler torch.jit._script torch.jit._trace torch.onnx "
    "torch.ao.quantization.observer torch.ao.quantization.fake_quantize "
    "numpy scipy sklearn torch.serialization torch.cuda.random torch._ops "
    "torch._higher_order_ops.invoke_subgraph torch._higher_order_ops.wrap rich sympy networkx "
    "filelock tqdm matplotlib pandas IPython pluggy tensorboard wandb mlflow "
    "framejit.frontend framejit.guards framejit.backends framejit.options framejit.events".split()
)

# Of these, the modules whose functions write output.
WRITERS = frozenset({"logging", "warnings", "tqdm", "torch.utils.tensorboard"})

# Functions of those modules that are, by module and how their names begin: what a call of a
# torch.fx.GraphModule goes through, what code for one process asks as well, and a fake quantizer
# that is one operator.
LOOKED_INTO = {
    "torch.fx.graph_module": (
        "GraphModule.recompile.<locals>.call_wrapped", "_WrappedCall.__call__",
    ),
    "torch.fx._pytree": (
        "tree_flatten_spec",
        *(f"_{kind}_flatten_spec" for kind in ("dict", "list", "tuple", "namedtuple")),
    ),
    "torch.fx._symbolic_trace": ("is_fx_symbolic_tracing",),
    "torch.fx.traceback": ("annotate",),
    "torch.ao.quantization.fake_quantize": ("FusedMovingAvgObsFakeQuantize.",),
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

# Modules whose functions may prepare something in their first call, in many steps without tensors:
# they are inlined, but a break in one of them is made at its call, which Python runs.
PREPARING_MODULES = frozenset({"einops._backends"})

# Batches of sequences whose lengths are the values of a tensor: what packs them, and the layers
# that take them packed, would break at several lines.
PACKING = (rnn.pack_padded_sequence.__code__, rnn.pad_packed_sequence.__code__)
RECURRENT_FORWARDS = tuple(
    layer.forward.__code__ for layer in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU)
)

# The hook that gives a lazy module its parameters in its first call, and its final class.
LAZY_INITIALIZATION = LazyModuleMixin._infer_parameters.__code__


def opaque_reason(function: FunctionValue, args: list[Value]) -> tuple[str, str] | None:
    """Why a function is not inlined in a call: (break reason, detail); None if it is."""
    if any(function.code is code for code in PACKING):
        return "data-dependent-shape", f"{function.name}()"
    if any(function.code is code for code in RECURRENT_FORWARDS) and any(
        arg.python_type() is rnn.PackedSequence for arg in args
    ):
        return "data-dependent-value", f"{function.name}() of a packed batch"
    if function.code is LAZY_INITIALIZATION:
        return "unknown-call", f"{function.name}() of a lazy module"
    real = function.real
    if real is not None and is_disabled(real):
        return "disabled-call", disabled_reason(real, function.name)
    module = function.globals.get("__name__", "")
    found = opaque_module(module, function.name)
    if found is None:
        return None
    return "output" if found in WRITERS else "unknown-call", f"{module}.{function.name}"


def breaks_at_its_call(module: object) -> bool:
    """Whether the functions that a module of this name defines are left to Python as a whole where
    they break."""
    return module in PREPARING_MODULES


def opaque_module(module: object, name: str) -> str | None:
    """The entry of OPAQUE_MODULES for a function of this name that a module defines; None if it is
    inlined."""
    parts = module.split(".") if isinstance(module, str) else []
    if name.startswith(LOOKED_INTO.get(".".join(parts), ())):
        return None
    beginnings = (".".join(parts[:end]) for end in range(1, min(len(parts), 4) + 1))
    return next((beginning for beginning in beginnings if beginning in OPAQUE_MODULES), None)


def is_opaque(function: object) -> bool:
    """Whether a Python function is not inlined because of the module that defines it."""
    return isinstance(function, types.FunctionType) and (
        opaque_module(function.__globals__.get("__name__"), function.__qualname__) is not None
    )
