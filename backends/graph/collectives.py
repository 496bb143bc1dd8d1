"""Collectives in captured graphs: operators in which all processes of a group take part.

Each process has to run each of them as often and in the same order as the program does, or the
others wait for ever. So they run as captured, between the subgraphs that a backend compiles, and a
call that has started one never starts over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.fx
from torch._library.custom_ops import CustomOpDef

from .extracted_calls import inner_nodes
from .fake_values import fake_of
from .node_targets import TORCHS_OPERATORS, namespace_of
from .wrappers import is_distributed

# of torch's operators that communicate
NAMESPACES = frozenset(
    {"_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d", "_dtensor",
     "symm_mem"}
)  # fmt: skip
KNOWN = frozenset({"", *TORCHS_OPERATORS})
WAITS = frozenset({"wait_tensor", "wait_tensor.default"})


def communicates(target: Any) -> bool:
    """Whether a function is a collective operator, or waits for one."""
    return namespace_of(target) in NAMESPACES


def is_collective(node: torch.fx.Node) -> bool:
    """Whether a node calls a collective operator, or waits for one."""
    return communicates(node.target)


def runs_collective(node: torch.fx.Node) -> bool:
    """Whether a node is a collective, calls a subgraph that contains one, or may run one as it is
    on distributed tensors."""
    return any(map(is_collective, inner_nodes(node))) or is_on_distributed_tensors(node)


def is_on_distributed_tensors(node: torch.fx.Node) -> bool:
    """Whether a node is called with a distributed tensor, or makes one: its collectives show in the
    graph of inner tensors only."""
    if not (in_a_process_group() and node.op.startswith("call_")):
        return False
    nodes = (node, *node.all_input_nodes)
    return any(has_distributed_tensor(fake_of(one)) for one in nodes)


def has_distributed_tensor(value: Any) -> bool:
    """Whether the value of a node is a distributed tensor, or a tuple or list with one."""
    if isinstance(value, tuple | list):
        return any(map(has_distributed_tensor, value))
    return is_distributed(type(value))


def has_collectives(nodes: Iterable[torch.fx.Node]) -> bool:
    """Whether one of the nodes runs a collective."""
    return any(map(runs_collective, nodes))


def may_communicate(node: torch.fx.Node) -> bool:
    """Whether a node is a collective, calls a subgraph with one, or is an operator of the program's
    own in a process that has joined a group: what it does is unknown."""
    if any(map(is_collective, inner_nodes(node))):
        return True
    custom = isinstance(node.target, CustomOpDef) or namespace_of(node.target) not in KNOWN
    return custom and in_a_process_group()


def in_a_process_group() -> bool:
    """Whether this process has joined a group, which distributed tensors and collectives need."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def is_wait(node: torch.fx.Node) -> bool:
    """Whether a node waits until the result of a collective is there."""
    return is_collective(node) and getattr(node.target, "__name__", "") in WAITS


class _Started(threading.local):
    """How many collectives this thread has started in graphs."""

    count = 0


_started = _Started()


def collectives_started() -> int:
    """A counter of the collectives that graphs have started in this thread."""
    return _started.count


class NamedCollectives:
    """Runs a graph with collectives. An exception, such as that of a collective for which another
    process never came, gets a note with the rank and the graph."""

    def __init__(self, run: Callable[..., Any], title: str) -> None:
        """title: of the graph, for people."""
        self.run, self.title = run, title

    def __call__(self, *args: Any) -> Any:
        try:
            return self.run(*args)
        except Exception as error:
            group = torch.distributed.is_initialized()
            rank = torch.distributed.get_rank() if group else 0
            error.add_note(f"framejit: rank {rank}, in the graph of {self.title}")
            raise


class CountedCollectives:
    """Runs a graph that begins with a collective, and counts it as started."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run

    def __call__(self, *args: Any) -> Any:
        _started.count += 1
        return self.run(*args)
