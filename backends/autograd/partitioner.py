"""Partitions a joint graph into a forward and a backward graph.

A minimum cut, weighted by bytes, decides which values the forward pass saves. The backward pass
recomputes the others, which is allowed only for cheap operators that stay next to their users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch.fx

from ...records import record
from ..graph.copies import Copies, template
from ..graph.memory import memories
from ..graph.passes.by_operator import WRITE
from ..graph.passes.captured_nodes import NeedsWholeTrace, draws_random_numbers, window_of
from ..graph.passes.symbolic_sizes import is_varying_size, symbols_of
from .joint_graph import JointGraph
from .min_cut import MinCut, Node, node_name
from .traced_operators import ATEN

# While training it only writes its running statistics; its backward pass does not read them.
NORM = "batch_norm"
CLONE = template(ATEN.clone.default, "old")


@record
class Partition:
    """Two functional graphs. The forward graph returns `results` results, then the values that it
    saves, then `sizes` sizes. The backward graph takes these sizes, the forward inputs at the
    positions `saved_inputs`, the saved values, and the gradients of the results at `tangents`; it
    returns the gradients of the inputs at `wanted`. `without_gradient`: positions of results that
    have no gradient."""

    forward: torch.fx.GraphModule | Copies
    backward: torch.fx.GraphModule | Copies
    results: int
    saved_inputs: tuple[int, ...]
    tangents: tuple[int, ...]
    wanted: tuple[int, ...]
    without_gradient: tuple[int, ...]
    sizes: int = 0


def partition(joint: JointGraph) -> Partition:
    """Partitions a joint graph. Raises NeedsWholeTrace where eager's backward pass would need a
    value that was overwritten."""
    overwritten = overwritten_inputs(joint) | freed_by_eager(joint)
    needed = list(joint.gradients.values())
    gradient_nodes = ancestors(needed, set(joint.tangents.values()))
    forward_nodes = ancestors(roots(joint), set())
    symbols = [joint.find_size(symbol) for symbol in symbols_of(gradient_nodes)]
    saved = MinCut(joint, forward_nodes, gradient_nodes, overwritten).saved_nodes()
    order = {node: position for position, node in enumerate(joint.nodes)}
    inputs = list(joint.inputs.values())
    recomputed = [
        node
        for node in sorted(ancestors(needed, {*saved, *inputs, *symbols}), key=order.__getitem__)
        if node.op != "placeholder"
    ]
    inside = {*recomputed, *symbols, *joint.tangents.values()}
    read = {*(other for node in recomputed for other in node.inputs), *needed}
    entering = read - inside
    saved_inputs = [node for node in inputs if node in entering - overwritten]
    saved = sorted(entering - set(saved_inputs), key=order.__getitem__)
    used = symbols_of((*recomputed, *read, *joint.tangents.values()))
    sizes = [node for node in symbols if node.meta["val"].node.expr in used]
    forward = forward_graph(joint, saved, sizes, order, overwritten)
    backward = backward_graph(
        joint,
        [*sizes, *saved_inputs, *saved, *joint.tangents.values()],
        recomputed_nodes(recomputed, set(joint.forward)),
    )
    positions = {node: position for position, node in enumerate(inputs)}
    return Partition(
        forward,
        backward,
        len(joint.results),
        tuple(positions[node] for node in saved_inputs),
        tuple(joint.tangents),
        tuple(positions[node] for node in joint.gradients),
        tuple(number for number, trains in enumerate(joint.trains) if not trains),
        len(sizes),
    )


def overwritten_inputs(joint: JointGraph) -> set[Node]:
    """Inputs that the forward pass overwrites at its end, and all that shares their memory: the
    backward pass gets copies of them. Running statistics of norms are left out. Raises
    NeedsWholeTrace where the backward pass reads one: eager's raises too."""
    written = (
        node for node in joint.writes if not all(NORM in node_name(user) for user in node.users)
    )
    memory = {own for node in written for own in memories(node)}
    found = {node for node in joint.forward if memory and not memory.isdisjoint(memories(node))}
    if any(
        not found.isdisjoint(node.inputs) and not is_varying_size(node)
        for node in joint.nodes[len(joint.forward) :]
    ):
        raise NeedsWholeTrace
    return found


def freed_by_eager(joint: JointGraph) -> set[Node]:
    """Inputs and results that eager does not save, and all tensors that share their memory. As the
    program may write into them, the backward pass gets copies."""
    memory = {own for node in joint.freed for own in memories(node)}
    return {node for node in joint.forward if memory and not memory.isdisjoint(memories(node))}


def roots(joint: JointGraph) -> list[Node]:
    """The nodes for which the forward pass runs: results, new values of inputs, and random draws,
    whether or not they are used."""
    return [
        *joint.results,
        *joint.writes.values(),
        *(node for node in joint.forward if draws_random_numbers(node)),
    ]


def recomputed_nodes(recomputed: Sequence[Node], forward: set[Node]) -> Iterable[Node]:
    """The nodes of the backward pass in order. Recomputed nodes of the forward pass come right
    before their first user, since computing them early would take up memory."""
    ordered: dict[Node, None] = {}
    inside = set(recomputed)
    for node in (*(node for node in recomputed if node not in forward), *recomputed):
        todo = [node]
        while todo:
            missing = [
                other for other in todo[-1].inputs if other in inside and other not in ordered
            ]
            if missing:
                todo.append(missing[0])
            else:
                ordered[todo.pop()] = None
    return ordered


def forward_graph(
    joint: JointGraph,
    saved: Sequence[Node],
    sizes: Sequence[Node],
    order: dict[Node, int],
    overwritten: set[Node],
) -> Copies:
    """The graph of the forward pass. It returns the results, what the backward pass needs
    (`saved`), and sizes. Of saved inputs that it overwrites, it returns copies."""
    graph = Copies(joint.operators.constants, "Forward")
    inputs = list(joint.inputs.values())
    copies = {node: graph.placeholder(node.name, node.meta) for node in inputs}
    wanted = ancestors([*roots(joint), *saved, *sizes], set(inputs))
    for node in sorted(wanted - set(inputs), key=order.__getitem__):
        copies[node] = graph.copy_of(node, copies)
    saved_outputs = [
        copy_node(graph, copies[node]) if node in overwritten else copies[node] for node in saved
    ]
    for target, value in joint.writes.items():
        graph.add(WRITE, (copies[target], copies[value]), {"val": target.meta["val"]})
    graph.output(
        [
            *(copies[node] for node in joint.results),
            *saved_outputs,
            *(copies[node] for node in sizes),
        ]
    )
    return graph


def copy_node(graph: Copies, node: Node) -> Node:
    """A copy of a tensor with the same strides."""
    made = graph.add(CLONE, (node,), {"val": node.meta["val"].clone(), "memory": [object()]})
    if window_of(made.meta["val"]) != window_of(node.meta["val"]):
        raise NeedsWholeTrace
    return made


def backward_graph(joint: JointGraph, inputs: Sequence[Node], nodes: Iterable[Node]) -> Copies:
    graph = Copies(joint.operators.constants, "Backward")
    copies = {node: graph.placeholder(node.name or node.source.name, node.meta) for node in inputs}
    for node in nodes:
        copies[node] = graph.copy_of(node, copies)
    graph.output([copies[gradient] for gradient in joint.gradients.values()])
    return graph


def ancestors(roots: Iterable[Node], ends: set[Node]) -> set[Node]:
    """The roots and all nodes that they are computed from, up to `ends`, which are excluded."""
    found: set[Node] = set()
    todo = [node for node in roots if node not in ends]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [other for other in node.inputs if other not in ends]
    return found
