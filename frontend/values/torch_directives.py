"""What a program has said to torch.compile about functions and tensors: torch.compiler's
allow_in_graph, disallow_in_graph, assume_constant_result and substitute_in_graph, and the mark_*
functions of torch._dynamo. Where nothing of torch._dynamo is loaded, nothing was said."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

COMPILER = "torch._dynamo"
RULES = "torch._dynamo.trace_rules"
FUNCTIONS = "torch._dynamo.variables.functions"


def is_allowed(function: Any) -> bool:
    """Whether torch.compiler.allow_in_graph was applied to a function of the program's."""
    return is_listed("_allowed_callable_ids", function) and not is_torchs(function)


def is_disallowed(function: Any) -> bool:
    """Whether torch._dynamo.disallow_in_graph was applied to a function by the program."""
    module = str(getattr(function, "__module__", ""))
    return is_listed("_disallowed_callable_ids", function) and not module.startswith(COMPILER)


def is_listed(name: str, function: Any) -> bool:
    listed = getattr(sys.modules.get(RULES), name, None)
    return id(function) in (getattr(listed, "function_ids", None) or ())


def is_torchs(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"


def is_constant(function: Any) -> bool:
    """Whether torch.compiler.assume_constant_result was applied to a function of the program's."""
    return getattr(function, "_dynamo_marked_constant", False) is True and not is_torchs(function)


def substitute_for(function: Any) -> Callable[..., Any] | None:
    """The Python function that the program gave for one written in C, by
    torch.compiler.substitute_in_graph."""
    family = getattr(sys.modules.get(FUNCTIONS), "PolyfilledFunctionVariable", None)
    if family is None:
        return None
    handler = family._get_polyfill_handlers().get(function)
    found = getattr(handler, "__torch_dynamo_polyfill__", None)
    return None if found is None or is_torchs(found) else found


def dimensions_marked(tensor: torch.Tensor, kind: str) -> frozenset[int]:
    """The dimensions that torch._dynamo has marked: "static", "dynamic", "weak_dynamic" or
    "unbacked"."""
    return frozenset(getattr(tensor, f"_dynamo_{kind}_indices", ()))


def marked_range(tensor: torch.Tensor, dim: int) -> tuple[int | None, int | None]:
    """The range that torch._dynamo.mark_dynamic was given for a dimension."""
    for found in getattr(tensor, "_dynamo_dynamic_range", ()):
        if found.dim == dim:
            return found.min, found.max
    return None, None
