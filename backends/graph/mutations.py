"""Which inputs a node of a captured graph writes, from its operator's schema, or from its name if
it has no schema."""

from __future__ import annotations

import inspect
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from .fake_values import fake_of
from .memory import memory_under
from .node_targets import is_foreign, name_of

# `x += y` is operator.iadd
OPERATORS = frozenset(
    "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
)
# functions of Python's operator module with a trailing underscore, which write nothing
KEYWORDS = frozenset({"and_", "or_", "not_", "is_"})
NORMS = ("batch_norm", "instance_norm")  # norms write only running statistics, while training
STATISTICS = ("running_mean", "running_var")
TRAINS = ("training", "train", "use_input_stats")
# parts of the names of norms without running statistics
READS_STATISTICS = ("no_training", "backward")


def named_as_writer(name: str) -> bool:
    """Whether an operator's name follows torch's convention for writing the first argument."""
    return name.endswith("_") and not name.endswith("__") and name not in KEYWORDS


def may_write(node: torch.fx.Node) -> bool:
    """Whether a node may write into an argument: in-place methods, in-place operators, out=.
    (Inputs have names of the program, which say nothing.)"""
    if not node.op.startswith("call_"):
        return False
    name = name_of(node)
    in_place = name == "setitem" or (name.endswith(("_", "_.")) and name not in KEYWORDS)
    operator = name.startswith("i") and name[1:] in OPERATORS
    asked_to = (
        "out" in node.kwargs
        or node.kwargs.get("inplace") is True
        or last_in_place(node)
        or "batch_norm" in name
    )
    return in_place or operator or asked_to or is_foreign(node)


def writes_only_buffers(node: torch.fx.Node) -> bool:
    """Whether all that a norm, or a method such as `add_`, writes is the content of inputs that
    have no gradient."""
    if is_norm(node):
        written = written_by(node)
    elif node.op == "call_method" and keeps_metadata(name_of(node)):
        written = [*node.args[:1]]
    else:
        return False
    return all(
        isinstance(one, torch.fx.Node)
        and one.op == "placeholder"
        and not fake_of(one).requires_grad
        for one in written
    )


@lru_cache(1024)
def keeps_metadata(name: str) -> bool:
    """Whether an operator writes only the content of its arguments: `t_` writes sizes and strides,
    `requires_grad_` what autograd does."""
    packet = getattr(torch.ops.aten, name, None)
    if name == "requires_grad_" or not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    return not any(torch.Tag.inplace_view in overload.tags for overload in overloads)


def last_in_place(node: torch.fx.Node) -> bool:
    """Whether the parameter `inplace` is passed by position; it is always the last."""
    if (
        node.op != "call_function"
        or not node.args
        or node.args[-1] is not True
        or not isinstance(node.target, FunctionType)
    ):
        return False
    code = node.target.__code__
    return code.co_varnames[: code.co_argcount][len(node.args) - 1 : len(node.args)] == ("inplace",)


def is_written(node: torch.fx.Node, *, for_sure: bool = False) -> bool:
    """Whether another node may write a node's memory, also through views. for_sure: whether torch
    records the write, or it may go through `.data`; tensors' version counters do not show
    everything."""
    memory = memory_under(node.meta["example_value"])
    seen, todo = {node}, [(node, not for_sure)]
    while todo:
        one, asked = todo.pop()
        for user in one.users:
            if one in written_by(user):
                return True
            if (
                asked
                and not is_norm(user)
                and may_write(user)
                and (user.op != "call_method" or user.args[0] is one)
            ):
                return True
            if user not in seen and may_show(user, memory):
                seen.add(user)
                todo.append((user, asked or is_data(user)))
    return False


def may_show(node: torch.fx.Node, memory: int) -> bool:
    """Whether a node's result may be in this memory. (Several results have nodes of their own after
    it.)"""
    fake = fake_of(node)
    if isinstance(fake, torch.SymInt | torch.SymFloat | torch.SymBool):
        return False
    if not isinstance(fake, torch.Tensor):
        return node.op != "output"
    return fake.layout == torch.strided and memory_under(fake) == memory


def is_data(node: torch.fx.Node) -> bool:
    """Whether a node is `.data` of a tensor."""
    return node.target is getattr and node.args[1] == "data"


def is_norm(node: torch.fx.Node) -> bool:
    """Whether a node calls a norm with running statistics. (An input may be named like one.)"""
    return node.op.startswith("call_") and any(norm in name_of(node) for norm in NORMS)


def written_by(node: torch.fx.Node) -> list[Any]:
    """The arguments that a call writes by its operator's schema, or as running statistics of a
    training norm."""
    if node.op == "call_function" and is_norm(node):
        return statistics_of(node)
    schema = schema_of(node)
    if schema is None or not schema.is_mutable:
        return []
    parameters = {
        argument.name: argument.alias_info is not None and argument.alias_info.is_write
        for argument in schema.arguments
    }
    given = {**dict(zip(parameters, node.args, strict=False)), **node.kwargs}
    return [
        leaf
        for name, argument in given.items()
        if parameters.get(name)
        for leaf in pytree.tree_leaves(argument)
    ]


def written_nodes(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The nodes that a node writes, if it may write: by its schema, else its first input."""
    found = [leaf for leaf in written_by(node) if isinstance(leaf, torch.fx.Node)]
    return found or node.all_input_nodes[:1]


def statistics_of(norm: torch.fx.Node) -> list[Any]:
    if any(word in name_of(norm) for word in READS_STATISTICS):
        return []
    schema, given = schema_of(norm), dict[str, Any]()
    if isinstance(norm.target, FunctionType):
        given = defaults_of(norm.target)
    elif schema is not None:
        given = {argument.name: argument.default_value for argument in schema.arguments}
    if not given:
        return norm.all_input_nodes
    given = given | {**dict(zip(given, norm.args, strict=False)), **norm.kwargs}
    trains = not any(given.get(name, True) is False for name in TRAINS)
    return [given[name] for name in STATISTICS if given.get(name) is not None] if trains else []


@lru_cache(1024)
def defaults_of(function: FunctionType) -> dict[str, Any]:
    """The parameters of a function, with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


def schema_of(node: torch.fx.Node) -> Any:
    """The schema of the torch operator with a call's name; None for a Python function, or where
    there is none."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema
    if isinstance(node.target, torch._ops.OpOverloadPacket):
        return first_schema(node.target)
    if isinstance(node.target, FunctionType) or is_foreign(node):
        return None
    return schema_named(name_of(node))


@lru_cache(1024)
def schema_named(name: str) -> Any:
    packet = getattr(torch.ops.aten, name, None)
    return first_schema(packet) if isinstance(packet, torch._ops.OpOverloadPacket) else None


def first_schema(packet: torch._ops.OpOverloadPacket) -> Any:
    return getattr(packet, packet.overloads()[0])._schema
