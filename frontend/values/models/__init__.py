"""Models of known callables, one file a Python module. Importing a file registers its models."""

from __future__ import annotations

import functools
import importlib

from ....torch_compat import switch_off
from .. import registry

# Of Python's language and library: framejit is wrong without them, whatever torch has.
NEEDED = (
    "bisect", "builtins", "class_checks", "collections", "construction", "contextlib", "copy",
    "dataclasses", "frame_calls", "functools", "inspect", "itertools", "math", "operator",
    "os_path", "packages", "pickle", "sys", "tensor_numbers", "text", "torch",
)  # fmt: skip
OF_TORCH = (
    "arithmetic_of_numbers", "autograd", "backward", "checkpoint", "correlation", "distributed",
    "distributions", "foreach", "framejit", "functorch", "higher_order", "indexing_mode", "logging",
    "masked", "numpy", "optimizers", "overrides", "pooling", "profiler", "random",
    "scalar_tensor_arguments", "take_along_dim", "tensor_data", "warnings",
)  # fmt: skip


@functools.cache
def ensure_models() -> None:
    """Registers all models, once. Done at the first capture, so that importing framejit is fast.

    A file that needs something which this torch lacks registers nothing: calls of its functions
    break the graph.
    """
    for name in NEEDED + OF_TORCH:
        register_file(name)


def register_file(name: str) -> None:
    """Registers the models of one file: all of them, or none where the file cannot be imported and
    is not needed."""
    before = registry.keys_so_far()
    try:
        importlib.import_module(f"{__name__}.{name}")
    except (ImportError, AttributeError) as error:
        if name in NEEDED:
            raise
        registry.forget_since(before)
        switch_off(f"what torch.{name} does", f"{type(error).__name__}: {error}")
