"""What known callables do, one file a Python module. Importing them registers them."""
from __future__ import annotations

import functools
import importlib

FILES = (
    "autograd", "builtins", "checkpoint", "collections", "contextlib", "copy", "dataclasses", "distributions", "factors", "foreach",
    "framejit", "functools", "functorch", "higher_order", "inspect", "itertools", "logging", "masked", "math", "operator",
    "optimizers", "overrides", "profiler", "random", "sys", "torch", "typing", "warnings",
)  # fmt: skip


@functools.cache
def ensure_models() -> None:
    """Registers every model, once. Done at the first capture, so that importing framejit stays cheap."""
    for name in FILES:
        importlib.import_module(f"{__name__}.{name}")
