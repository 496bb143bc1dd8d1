"""torch.optim: steps that read numbers from tensors, captured without reading them."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import CellType, FunctionType
from typing import Any

import torch
from torch.optim import _adafactor, asgd, optimizer, radam

from ....errors import GraphBreak
from ....guards.guard import Guard, Kind
from ....guards.source import (
    CellContents,
    ClosureSource,
    DictItem,
    GlobalsSource,
    InstanceDict,
    Source,
)
from ..base import Value
from ..constant import Constant
from ..containers.list import ListValue
from ..context import TraceContext
from ..functions.function import FunctionValue
from ..objects.attribute_storage import instance_dict
from ..registry import models
from ..tensor.tensor import TensorValue


@models(optimizer._get_value)
def get_value(tx: TraceContext, number: Value) -> Value:
    """Returns the tensor instead of its number, in the precision of Python's floats."""
    if isinstance(number, TensorValue) and number.fake.dtype in (
        torch.float32,
        torch.float16,
        torch.bfloat16,
    ):
        return number.method(tx, "double", [], {})
    return number


@models(optimizer._stack_if_compiling)
def stack_if_compiling(tx: TraceContext, numbers: Value) -> Value:
    """Returns the numbers as they are, as in eager: one tensor of them would be taken apart."""
    return numbers


def _without_branches(function: Callable[..., Any]) -> None:
    """Inlines a step that branches on the number of steps in the form that torch uses for CUDA
    graphs, with counts in Python's precision."""

    @models(function)
    def step(tx: TraceContext, *columns: Value, **settings: Value) -> Value:
        inner = tx.wrap(function, None)
        assert isinstance(inner, FunctionValue)
        if any(settings[name].truth(tx) for name in ("capturable", "differentiable")):
            return tx.calls.inline(inner, list(columns), settings)
        counts = columns[-1].unpack(tx)
        precise: list[Value] = [count.method(tx, "double", [], {}) for count in counts]
        result = tx.calls.inline(
            inner, [*columns[:-1], ListValue(precise)], {**settings, "capturable": Constant(True)}
        )
        for count in counts:
            count.method(tx, "add_", [Constant(1)], {})
        return result


for _function in (
    radam._single_tensor_radam,
    radam._multi_tensor_radam,
    asgd._single_tensor_asgd,
    asgd._multi_tensor_asgd,
):
    _without_branches(_function)


CHECKS = {
    check
    for name in ("_cuda_graph_capture_health_check", "_accelerator_graph_capture_health_check")
    if (check := vars(optimizer.Optimizer).get(name)) is not None
}
FIRST_STEP = (
    "this call creates the state of an optimizer, which later ones find: it runs in eager, and a "
    "later one is compiled"
)


def _before_first_step(function: Callable[..., Any]) -> None:
    """Leaves the first step of an optimizer to Python. What is called here is what each torch.optim
    class that creates its state in its first step calls before that."""

    @models(function)
    def check(tx: TraceContext, self: Value) -> Value:
        real = tx.objects.real_object(self)
        if has_no_state(real):
            guard = None if self.source is None else without_state(self.source)
            tx.work.leave_first_run_to_python(real, FIRST_STEP, guard)
        inner = tx.wrap(function, None)
        assert isinstance(inner, FunctionValue)
        return tx.calls.inline(inner, [self], {})


def without_state(source: Source) -> Guard:
    """The guard by which another process knows a call with an optimizer that has made no step."""
    return Guard(DictItem(InstanceDict(source), "state"), Kind.LENGTH, 0)


def has_no_state(optimizer_or_none: object) -> bool:
    """Whether an object is an optimizer that has made no step. Runs none of its code."""
    if not issubclass(type(optimizer_or_none), optimizer.Optimizer):
        return False
    state = vars(optimizer_or_none).get("state")
    return type(state) in (dict, defaultdict) and not state


for _check in CHECKS:
    _before_first_step(_check)


def optimizer_without_state(
    function: FunctionType, arguments: Mapping[Source, Any]
) -> tuple[Source, Any] | None:
    """An optimizer that has made no step, and where it is found, where a call of a function is
    likely to make it: the function calls a `step`, and it names the optimizer, or an argument has
    it as an attribute."""
    code = function.__code__
    if "step" not in code.co_names:
        return None
    found: dict[Source, Any] = dict(arguments)
    for number, cell in enumerate(function.__closure__ or ()):
        found[CellContents(ClosureSource(number, code.co_freevars[number]))] = contents_of(cell)
    for name in code.co_names:
        found[DictItem(GlobalsSource(), name)] = function.__globals__.get(name)
    for source, one in arguments.items():
        for name, item in list((instance_dict(one) or {}).items()):
            found[DictItem(InstanceDict(source), name)] = item
    optimizers = (
        item for item in found.items() if has_no_state(item[1]) and checks_first(type(item[1]))
    )
    return next(optimizers, None)


def checks_first(cls: type[optimizer.Optimizer]) -> bool:
    """Whether the steps of a class of optimizers begin with one of CHECKS, and create state."""
    code = getattr(inspect.unwrap(cls.step), "__code__", None)
    return code is not None and any(check.__name__ in code.co_names for check in CHECKS)


def contents_of(cell: CellType) -> object | None:
    """The object in a cell; None for an empty one."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


@models(_adafactor._single_tensor_adafactor)
def step_with_numbers(tx: TraceContext, *columns: Value, **settings: Value) -> Value:
    raise GraphBreak("data-dependent-value", "a step of Adafactor")
