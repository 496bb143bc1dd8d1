"""torch.profiler.record_function while no profiler runs, and the switches around it."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.autograd.profiler

from ....errors import GraphBreak
from ....guards.source import DictItem, InstanceDict, ModuleSource
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..functions.function import FunctionValue
from ..modes.context_manager import OneFrameManager
from ..modes.profiler_range import Annotation
from ..registry import models

MONITOR = InstanceDict(ModuleSource("torch.profiler._cupti_monitor"))
PROFILER = InstanceDict(ModuleSource("torch.autograd.profiler"))


def without_profiler(tx: TraceContext) -> None:
    """Guards that no profiler runs."""
    enabled = torch.autograd.profiler._is_profiler_enabled
    if (
        tx.wrap(enabled, DictItem(PROFILER, "_is_profiler_enabled")).truth(tx)
        or torch.autograd._profiler_enabled()
    ):
        raise GraphBreak("unknown-call", "a range of a profiler that runs")


@models(torch.ops.profiler._record_function_enter_new)
def enter(tx: TraceContext, name: Value, arguments: Value | None = None) -> Value:
    without_profiler(tx)
    return Annotation(name, arguments or Constant(None))


@models(torch.ops.profiler._record_function_exit._RecordFunction)
def leave(tx: TraceContext, annotation: Value) -> Value:
    if not isinstance(annotation, Annotation):  # opened before a break
        raise GraphBreak("unknown-call", "the end of a profiler's range")
    without_profiler(tx)
    return Constant(None)


@models(torch.autograd.profiler.record_function.__exit__)
def end(tx: TraceContext, manager: Value, *error: Value) -> Value:
    """Closes the range. A range that Python has opened, before a break, is closed by Python."""
    if manager.source is not None and not isinstance(manager.attribute(tx, "record"), Annotation):
        raise GraphBreak("unknown-call", "the end of a profiler's range")
    inner = tx.wrap(torch.autograd.profiler.record_function.__exit__, None)
    assert isinstance(inner, FunctionValue)
    return tx.calls.inline(inner, [manager, *error], {})


@models(("torch.autograd.profiler", "_maybe_cupti_monitor"))
def maybe_cupti_monitor(tx: TraceContext) -> Value:
    """None: a monitor that collects nothing takes no annotations. Calls it for real, as its first
    call imports the monitor's module."""
    if vars(torch.autograd.profiler)["_maybe_cupti_monitor"]() is not None:
        monitor = sys.modules["torch.profiler._cupti_monitor"]._monitor_singleton
        if monitor is not None:
            raise GraphBreak("unknown-call", "a range of a profiler that runs")
        tx.wrap(monitor, DictItem(MONITOR, "_monitor_singleton"))
    return Constant(None)


class DispatchWithoutSubclasses(OneFrameManager):
    """torch._C.DisableTorchFunctionSubclass(): tensor subclasses are plain tensors inside."""

    __slots__ = ()
    cls: Any = torch._C.DisableTorchFunctionSubclass

    def enter(self, tx: TraceContext) -> Value:
        tx.modes.subclasses_off += 1
        return Constant(None)

    def exit(self, tx: TraceContext) -> Value:
        tx.modes.subclasses_off -= 1
        return Constant(None)


@models(torch._C.DisableTorchFunctionSubclass)
def dispatch_without_subclasses(tx: TraceContext) -> Value:
    return DispatchWithoutSubclasses(tx.frames.break_position())
