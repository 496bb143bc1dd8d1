"""torch.distributed: collectives become operators of the graph; ranks and sizes are constants.

The graph names a process group by its name, and guards say that it is the group of the capture.
What is not known here (other collectives, lists of ranks, tensors with gradients that a collective
would write) runs in Python, after a break.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import DictItem, InstanceDict, ModuleSource
from ..base import Value
from ..constant import Constant
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..registry import models
from ..tensor.async_work import AsyncWork, wait_for
from ..tensor.tensor import TensorValue

OPERATORS: Any = torch.ops._c10d_functional
C10D, FUNCTIONAL = c10d.__name__, "torch.distributed._functional_collectives"
WORLD = InstanceDict(DictItem(InstanceDict(ModuleSource(C10D)), "_world"))
DEFAULT_GROUP = DictItem(WORLD, "_default_pg")
REDUCTIONS: dict[Any, str] = {
    getattr(dist.ReduceOp, name): name.lower()
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
}
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@lru_cache(1)
def functional_collectives() -> Any:
    """torch's module, loaded at the first collective. It has the rules for fake tensors, too."""
    return importlib.import_module(FUNCTIONAL)


# groups and reductions


def refuse(what: str) -> GraphBreak:
    return GraphBreak("unknown-call", what)


def guarded_object(tx: TraceContext, value: Value) -> Any:
    """The object behind a value that has a path; guarded by identity."""
    value = tx.look(value)
    real = tx.objects.real_object(value)
    if real is None or value.source is None:
        raise refuse(f"a collective with {value.describe()}")
    tx.guards.add(value.source, Kind.IS, real)
    return real


def group_of(tx: TraceContext, group: Value | None) -> dist.ProcessGroup:
    """The process group that an argument stands for; guarded. Raises GraphBreak where this process
    is in none."""
    if group is not None and not group.is_none():
        real = guarded_object(tx, group)
    elif dist.is_initialized():
        real = c10d._get_default_group()
        tx.guards.add(DEFAULT_GROUP, Kind.IS, real)
    else:
        raise refuse("torch.distributed before init_process_group()")
    if not isinstance(real, dist.ProcessGroup) or c10d._rank_not_in_group(real):
        raise refuse("a collective in a group without this process")
    return real


def reduction_of(tx: TraceContext, op: Value | None) -> Constant:
    """The name of a reduction among the operators of the graph."""
    real = dist.ReduceOp.SUM if op is None else guarded_object(tx, op)
    try:
        return Constant(REDUCTIONS[real])
    except (KeyError, TypeError):
        raise refuse("a collective with this reduction") from None


@models((C10D, "get_rank"))
def get_rank(tx: TraceContext, group: Value | None = None) -> Value:
    return Constant(dist.get_rank(group_of(tx, group)))


@models((C10D, "get_world_size"))
def get_world_size(tx: TraceContext, group: Value | None = None) -> Value:
    return Constant(dist.get_world_size(group_of(tx, group)))


# collectives that write into a tensor


def operator_named(name: str) -> Any:
    functional_collectives()
    found = getattr(OPERATORS, name, None)
    if found is None:
        raise refuse(f"a collective without the operator {name}")
    return found


def plain_tensor(tx: TraceContext, value: Value) -> TensorValue:
    """The value of a tensor that a collective takes as it is."""
    value = tx.look(value)
    if not isinstance(value, TensorValue) or value.cls not in PLAIN_TENSORS:
        raise refuse(f"a collective on {value.describe()}")
    fake = value.fake
    plain = (
        torch._C._functorch.maybe_current_level() is None
        and fake.layout is torch.strided
        and not fake.is_complex()
        and fake.dtype.itemsize > 1 - (not fake.is_floating_point())  # fp8 is sent as bytes
        and fake.is_contiguous()
    )
    if not plain or (torch.is_grad_enabled() and fake.requires_grad):
        raise refuse("a collective on a tensor that is complex, not contiguous, or has gradients")
    return value


def refuse_coalescing(tx: TraceContext) -> None:
    """Breaks inside of torch's manager that gathers collectives; guarded."""
    if c10d._world.pg_coalesce_state:
        raise refuse("a collective that is coalesced with others")
    tx.guards.add(DictItem(WORLD, "_pg_coalesce_state"), Kind.LENGTH, 0)


def start(
    tx: TraceContext,
    result: TensorValue,
    operator: str,
    args: list[Value],
    async_op: Value | None,
    named: dict[str, Value] | None = None,
) -> Value:
    """Adds an operator that writes `result`, and returns what the function of torch.distributed
    returns; it waits, unless async_op is true."""
    refuse_coalescing(tx)
    created_at = tx.frames.break_position()
    later = async_op is not None and async_op.truth(tx)
    tx.graph.function(operator_named(operator), *args, **named or {})
    if later:
        return AsyncWork(result, created_at)
    wait_for(tx, result)
    return Constant(None)


@models((C10D, "all_reduce"))
def all_reduce(
    tx: TraceContext,
    tensor: Value,
    op: Value | None = None,
    group: Value | None = None,
    async_op: Value | None = None,
) -> Value:
    result, name = plain_tensor(tx, tensor), Constant(group_of(tx, group).group_name)
    return start(tx, result, "all_reduce_", [result, reduction_of(tx, op), name], async_op)


@models((C10D, "broadcast"))
def broadcast(
    tx: TraceContext,
    tensor: Value,
    src: Value | None = None,
    group: Value | None = None,
    async_op: Value | None = None,
    group_src: Value | None = None,
) -> Value:
    """Starts a collective that gives each rank the tensor of `src`, or of `group_src` within the
    group."""
    result, real = plain_tensor(tx, tensor), group_of(tx, group)
    of_world, of_group = (None if rank is None else rank.constant() for rank in (src, group_src))
    try:
        root = c10d._canonicalize_group_rank(real, of_world, of_group, return_global=False)
    except Exception as error:
        raise refuse("broadcast() from this rank") from error
    args = [result, Constant(root), Constant(real.group_name)]
    return start(tx, result, "broadcast_", args, async_op)


@models((C10D, "all_gather_into_tensor"), (C10D, "all_gather_single"))
def all_gather_into_tensor(
    tx: TraceContext,
    output_tensor: Value,
    input_tensor: Value,
    group: Value | None = None,
    async_op: Value | None = None,
) -> Value:
    result, given = plain_tensor(tx, output_tensor), plain_tensor(tx, input_tensor)
    real = group_of(tx, group)
    args = [given, Constant(real.size()), Constant(real.group_name)]
    return start(tx, result, "all_gather_into_tensor_out", args, async_op, {"out": result})


@models((C10D, "reduce_scatter_tensor"), (C10D, "reduce_scatter_single"))
def reduce_scatter_tensor(
    tx: TraceContext,
    output: Value,
    input: Value,
    op: Value | None = None,
    group: Value | None = None,
    async_op: Value | None = None,
) -> Value:
    result, given = plain_tensor(tx, output), plain_tensor(tx, input)
    real = group_of(tx, group)
    args = [given, reduction_of(tx, op), Constant(real.size()), Constant(real.group_name)]
    return start(tx, result, "reduce_scatter_tensor_out", args, async_op, {"out": result})


@models((C10D, "all_to_all_single"))
def all_to_all_single(
    tx: TraceContext,
    output: Value,
    input: Value,
    output_split_sizes: Value | None = None,
    input_split_sizes: Value | None = None,
    group: Value | None = None,
    async_op: Value | None = None,
) -> Value:
    """Of equal splits: an operator that makes a new tensor, which is copied."""
    result, given = plain_tensor(tx, output), plain_tensor(tx, input)
    real = group_of(tx, group)
    sizes = [split for split in (output_split_sizes, input_split_sizes) if split is not None]
    if not all(split.is_none() for split in sizes) or (async_op and async_op.truth(tx)):
        raise refuse("all_to_all_single() with splits, or async_op=True")
    if result.fake.shape != given.fake.shape or result.fake.dtype != given.fake.dtype:
        raise refuse("all_to_all_single() of tensors that differ")
    refuse_coalescing(tx)
    count = real.size()
    length = given.fake.shape[0] if given.fake.dim() else 0
    if not isinstance(length, int) or length % count:
        raise refuse("all_to_all_single() of a size that the group does not divide")
    splits = TupleValue([Constant(length // count)] * count)
    made = tx.graph.function(
        operator_named("all_to_all_single"), given, splits, splits, Constant(real.group_name)
    )
    assert isinstance(made, TensorValue)
    wait_for(tx, made)
    result.method(tx, "copy_", [made], {})
    return Constant(None)


# functional collectives: their functions are inlined, down to these


@models((FUNCTIONAL, "_resolve_group"), (FUNCTIONAL, "_resolve_group_name"))
def resolve_group(tx: TraceContext, group: Value, tag: Value | None = None) -> Value:
    """The name of a group, a group, a mesh of one dimension, or a mesh and a dimension."""
    group = tx.look(group)
    real: Any
    if isinstance(group, TupleValue):
        mesh, dim = (tx.look(item) for item in group.unpack(tx))
        real = (guarded_object(tx, mesh), dim.constant())
    elif group.is_constant() and isinstance(group.constant(), str):
        real = group.constant()
        if real != group_of(tx, None).group_name:  # names are given anew when groups are
            tx.guards.process_bound = "the name of a process group"
    else:
        real = guarded_object(tx, group)
    first = real[0] if isinstance(real, tuple) else real
    if not isinstance(first, str | dist.ProcessGroup | DeviceMesh):
        raise refuse("a collective of a list of ranks")
    module = functional_collectives()
    resolve = getattr(module, "_resolve_group", None) or module._resolve_group_name
    found = resolve(real, "")
    return Constant(str(found) if isinstance(found, str) else found.group_name)


@models((FUNCTIONAL, "_group_or_group_name"))
def group_or_group_name(tx: TraceContext, group: Value) -> Value:
    return group


@models((C10D, "_get_group_size_by_name"))
def get_group_size_by_name(tx: TraceContext, group_name: Value) -> Value:
    return Constant(c10d._get_group_size_by_name(group_name.constant()))


@models((FUNCTIONAL, "_are_we_tracing"))
def are_we_tracing(tx: TraceContext) -> Value:
    return Constant(False)  # as in eager; what it would change is modelled here


@models(
    ("torch.fx.experimental.symbolic_shapes", "guard_or_false"),
    ("torch.fx.experimental.symbolic_shapes", "guard_or_true"),
)
def guard_or(tx: TraceContext, condition: Value) -> Value:
    return Constant(condition.truth(tx))


@models((FUNCTIONAL, "_maybe_wrap_tensor"), OPERATORS.wait_tensor, OPERATORS.wait_tensor.default)
def wait_tensor(tx: TraceContext, tensor: Value) -> Value:
    """Waits for a result where it is used first. (In eager it is an AsyncCollectiveTensor, which
    does the same.)"""
    tensor = tx.look(tensor)
    if not isinstance(tensor, TensorValue):
        raise refuse(f"a wait for {tensor.describe()}")
    wait_for(tx, tensor)
    return tensor
