"""Splits graphs on a GPU that also calculate or draw numbers on the CPU, such as the step counts of
torch's optimizers: two graphs, with one copy of all the numbers between them.

The first calculates on the CPU, the second on the GPU alone, so that it can be recorded as a CUDA
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from ..autograd.node_modes import MODES_AT_ENDS, CannotSplit, separate_modes
from ..autograd.split_graph import memories_of, written_memories
from ..graph.fake_values import fake_of, fake_tensors_of
from ..graph.gradient_history import wants_gradients
from ..graph.mutations import written_by
from ..graph.node_targets import is_foreign, is_users
from ..graph.random_draws import may_draw
from ..graph.supported import device_types
from .uncompiled_nodes import Build, calls_of, compile_groups

Node = torch.fx.Node
PRECISION = torch.float64  # in which numbers are copied; it holds those of all these dtypes
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


class CopyNumbers:
    """The target of a node that copies a tensor to a GPU."""

    __name__ = "copy_numbers"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers.to(self.device, non_blocking=True)


def compile_by_device(
    gm: torch.fx.GraphModule, examples: list[Any], build: Build
) -> Callable[..., Any] | None:
    """Compiles with `build` what a graph calculates on the CPU, which comes first, and what it does
    on a GPU. None for other graphs."""
    if not find_work_on_cpu(gm):
        return None
    graph, output = torch.fx.Graph(), gm.graph.output_node()
    graph.output(graph.graph_copy(gm.graph, {}), type_expr=output.type)
    parted = torch.fx.GraphModule({}, graph, class_name="CapturedGraph")
    first = find_work_on_cpu(parted)
    try:
        _, modes = separate_modes(calls_of(parted))
        last = [node for node in modes if node not in set(first)]
        moved = MovedNumbers(graph, first, last, numbers_taken(last, devices_by_node(graph)))
        modes |= dict.fromkeys(moved.added, MODES_AT_ENDS)
        return compile_groups(parted, examples, moved.groups, modes, stays_as_captured, build)
    except CannotSplit:
        return None


def find_work_on_cpu(gm: torch.fx.GraphModule) -> list[Node]:
    """The nodes that calculate on the CPU, where they can all run before those on the GPU, of which
    there is one, and which take nothing but numbers from them, nothing where there are gradients;
    else no nodes."""
    if device_types(gm) != {"cpu", "cuda"}:
        return []
    calls, devices = calls_of(gm), devices_by_node(gm.graph)
    first = [node for node in calls if devices[node] == {"cpu"}]
    others = [node for node in calls if devices[node] != {"cpu"}]
    numbers = numbers_taken(others, devices)
    places = {fake.device for node in others for fake in fake_tensors_of(node)}
    apart = (
        len(places) == 1
        and all(may_run_first(node, devices) for node in first)
        and not (any(map(may_draw, first)) and any(map(is_foreign, others)))
        and not (numbers and wants_gradients(gm))
        and not any(devices.get(one) == {"cpu"} for node in others for one in written_by(node))
        and all(map(is_scalar_tensor, numbers))
        and written_memories(first).isdisjoint(memories_of(*numbers))
    )
    return first if apart else []


def devices_by_node(graph: torch.fx.Graph) -> dict[Node, set[str]]:
    """The types of the devices of each node's result; of what it takes, where captures note no
    result, as for tuples, and lists that are written."""
    found: dict[Node, set[str]] = {}
    for node in graph.nodes:
        kinds = {fake.device.type for fake in fake_tensors_of(node)}
        taken = () if kinds else node.all_input_nodes
        found[node] = kinds.union(*(found[other] for other in taken))
    return found


def may_run_first(node: Node, devices: Mapping[Node, set[str]]) -> bool:
    taken = [devices[other] <= {"cpu"} for other in node.all_input_nodes]
    return all(taken) and not (is_foreign(node) or is_users(node))


def numbers_taken(nodes: Sequence[Node], devices: Mapping[Node, set[str]]) -> list[Node]:
    """The tensors on the CPU that nodes take, each once."""
    taken = (other for node in nodes for other in node.all_input_nodes)
    return list(dict.fromkeys(other for other in taken if devices[other] == {"cpu"}))


def is_scalar_tensor(node: Node) -> bool:
    fake = fake_of(node)
    return isinstance(fake, torch.Tensor) and fake.dim() == 0 and fake.dtype in DTYPES


def stays_as_captured(node: Node) -> bool:
    """Whether no kernel is made for a node's group: the copy, and the CPU's if it draws random
    numbers."""
    places = {fake.device.type for fake in fake_tensors_of(node)}
    return isinstance(node.target, CopyNumbers) or (places == {"cpu"} and may_draw(node))


class MovedNumbers:
    """Adds to a graph the nodes that copy the numbers which the nodes on the GPU, `last`, take.
    `groups`: the nodes on the CPU, the copy, and the nodes on the GPU."""

    def __init__(
        self, graph: torch.fx.Graph, first: list[Node], last: list[Node], numbers: list[Node]
    ) -> None:
        self.graph, self.added = graph, list[Node]()
        self.groups = [first, last]
        if not numbers:
            return
        device = next(
            fake.device for node in last for fake in fake_tensors_of(node) if fake.is_cuda
        )
        with graph.inserting_before(graph.output_node()):
            given = [self.call(torch.Tensor.to, number, PRECISION) for number in numbers]
            stacked = self.call(torch.stack, given)
            before = list(self.added)
            copied = self.call(CopyNumbers(device), stacked)
            after = len(self.added)
            for index, number in enumerate(numbers):
                item = self.call(torch.select, copied, 0, index)
                item = self.call(torch.Tensor.to, item, fake_of(number).dtype)
                for node in last:
                    node.replace_input_with(number, item)
        self.groups = [[*first, *before], [copied], [*self.added[after:], *last]]

    def call(self, target: Callable[..., Any], *args: Any) -> Node:
        """Adds a node, with what it gives for the fakes of its arguments."""
        node = self.graph.call_function(target, args)
        fakes: Any = torch.fx.node.map_arg(args, fake_of)
        some = next(item for item in tree_leaves(fakes) if isinstance(item, FakeTensor))
        with some.fake_mode:
            node.meta["example_value"] = target(*fakes)
        self.added.append(node)
        return node
