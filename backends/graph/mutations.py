"""Which inputs a node of a captured graph writes into, from its operator's schema, or from its name
where there is no schema."""

from __future__ import annotations

import inspect
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from .node_targets import is_foreign, name_of
from .passes.memory import memory_under

# `x += y` is operator.iadd
OPERATORS = frozenset(
    "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
)
# functions of Python's operator module, which write nothing
KEYWORDS = frozenset({"and_", "or_", "not_", "is_"})
NORMS = ("batch_norm", "instance_norm")  # what they write, while training, are statistics
STATISTICS = ("running_mean", "running_var")
TRAINS = ("training", "train", "use_input_stats")
READS_STATISTICS = ("no_training", "backward")  # in the names of norms that write none


def named_as_writer(name: str) -> bool:
    """Whether an operator is called as torch calls those that write into their first argument."""
    return name.endswith("_") and not name.endswith("__") and name not in KEYWORDS


def may_write(node: torch.fx.Node) -> bool:
    """Whether a node may write into an argument: in-place methods, in-place operators, out=."""
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


def last_in_place(node: torch.fx.Node) -> bool:
    """Whether a function's parameter `inplace` is given by position: it is the last where there is
    one."""
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
    """Whether another node may write into the memory of one, seen through views, too. for_sure:
    whether torch says that one does, or may do so through `.data`. Tensors' versions do not tell of
    all that."""
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
    """Whether a node's result may lie in a memory; of several results, each has a node of its own
    behind this one."""
    fake = node.meta.get("example_value")
    if not isinstance(fake, torch.Tensor):
        return node.op != "output"
    return fake.layout == torch.strided and memory_under(fake) == memory


def is_data(node: torch.fx.Node) -> bool:
    """Whether a node is `.data` of a tensor."""
    return node.target is getattr and node.args[1] == "data"


def is_norm(node: torch.fx.Node) -> bool:
    return any(norm in name_of(node) for norm in NORMS)


def written_by(node: torch.fx.Node) -> list[Any]:
    """The arguments that a call writes into by the schema of torch's operator, or as running
    statistics of a norm that trains."""
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
    """The nodes that one writes into, if it may write: those of its schema, or the first that it
    takes."""
    found = [leaf for leaf in written_by(node) if isinstance(leaf, torch.fx.Node)]
    return found or node.all_input_nodes[:1]


def statistics_of(norm: torch.fx.Node) -> list[Any]:
    if any(word in name_of(norm) for word in READS_STATISTICS):
        return []
    schema, given = schema_of(norm), dict[str, Any]()
    if isinstance(norm.target, FunctionType):
        given = {
            parameter.name: parameter.default
            for parameter in inspect.signature(norm.target).parameters.values()
        }
    elif schema is not None:
        given = {argument.name: argument.default_value for argument in schema.arguments}
    if not given:
        return norm.all_input_nodes
    given |= {**dict(zip(given, norm.args, strict=False)), **norm.kwargs}
    trains = not any(given.get(name, True) is False for name in TRAINS)
    return [given[name] for name in STATISTICS if given.get(name) is not None] if trains else []


def schema_of(node: torch.fx.Node) -> Any:
    """The schema of torch's operator of a call's name; None for a function that is written in
    Python, and where there is none."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema
    if isinstance(node.target, torch._ops.OpOverloadPacket):
        return first_schema(node.target)
    return (
        None
        if isinstance(node.target, FunctionType) or is_foreign(node)
        else schema_named(name_of(node))
    )


@lru_cache(1024)
def schema_named(name: str) -> Any:
    packet = getattr(torch.ops.aten, name, None)
    return first_schema(packet) if isinstance(packet, torch._ops.OpOverloadPacket) else None


def first_schema(packet: torch._ops.OpOverloadPacket) -> Any:
    return getattr(packet, packet.overloads()[0])._schema
