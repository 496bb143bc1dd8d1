"""Python functions that are not inlined: by their module, their code, or what they are given."""

from __future__ import annotations

import types

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import rnn

from ..base import Value
from ..disabled import disabled_reason, is_disabled
from .function import FunctionValue
from .trace_rules import TraceRule, rule_of_function, trace_rule

# Batches of sequences whose lengths are the values of a tensor: what packs them, and the layers
# that take them packed, would break at several lines.
# By id, as equal code is compared item by item.
PACKING = frozenset(
    id(function.__code__) for function in (rnn.pack_padded_sequence, rnn.pad_packed_sequence)
)
RECURRENT_FORWARDS = frozenset(
    id(layer.forward.__code__) for layer in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU)
)

# The hook that gives a lazy module its parameters in its first call, and its final class.
LAZY_INITIALIZATION = LazyModuleMixin._infer_parameters.__code__

BREAK_REASONS = {TraceRule.SKIP: "unknown-call", TraceRule.OUTPUT: "output"}


def skip_reason(function: FunctionValue, args: list[Value]) -> tuple[str, str] | None:
    """Why a function is not inlined in a call: (break reason, detail); None if it is."""
    code = id(function.code)
    if code in PACKING:
        return "data-dependent-shape", f"{function.name}()"
    if code in RECURRENT_FORWARDS and any(arg.python_type() is rnn.PackedSequence for arg in args):
        return "data-dependent-value", f"{function.name}() of a packed batch"
    if function.code is LAZY_INITIALIZATION:
        return "unknown-call", f"{function.name}() of a lazy module"
    real = function.real
    if real is not None and is_disabled(real):
        return "disabled-call", disabled_reason(real, function.name)
    module = function.globals.get("__name__", "")
    reason = BREAK_REASONS.get(trace_rule(module, function.name, function.code.co_filename))
    return None if reason is None else (reason, f"{module}.{function.name}")


def is_skipped(function: object) -> bool:
    """Whether an object is a Python function that is not inlined because of its module."""
    return isinstance(function, types.FunctionType) and rule_of_function(function) in BREAK_REASONS
