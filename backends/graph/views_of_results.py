"""Results without a gradient history that are views of another result, or of an input, or a
detached input: they are created after the graph, by eager's operators.

If the program writes something with a history into one of them later, its views have it too, and a
detached input's original does not. A compiled graph returns such results as separate tensors on one
memory, or as views that were made where no gradients are recorded, which autograd forbids to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.fx
from torch._C._autograd import CreationMeta, _get_creation_meta

from .fake_values import fake_of
from .gradient_history import needs_gradient
from .hidden_writes import SHOWN_DATA
from .memory import plain_memory_at
from .mutations import is_data, may_write
from .node_targets import is_foreign, is_users
from .views_without_writes import ViewsAfterGraph, make_after_graph
from .wrappers import is_wrapper

Path = list[torch.fx.Node]


def views_of_results(
    nodes: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]
) -> ViewsAfterGraph | None:
    """The results to create after a graph with these nodes; None where there are none."""
    candidates = [node for node in dict.fromkeys(outputs) if has_no_history(node)]
    made = paths_to_views(nodes, outputs, candidates) if candidates else {}
    if not made:
        return None
    steps = {step for path in made.values() for step in path}
    note_shown_data(steps)
    return make_after_graph([node for node in nodes if node in steps], made, outputs)


def paths_to_views(
    nodes: Sequence[torch.fx.Node],
    outputs: Sequence[torch.fx.Node],
    candidates: Iterable[torch.fx.Node],
) -> dict[torch.fx.Node, Path]:
    """The results to create after the graph, each with the nodes that make it: views of inputs, and
    views of a tensor of the graph that is a result, too, or has several such views."""
    inputs = outputs[0].graph.find_nodes(op="placeholder")
    bases = bases_of(candidates, nodes_by_fake((*inputs, *nodes)))
    # Backends return these as views where no input has a gradient; but one made before the version
    # counter of its input is set back would have another version. Of wrappers, aot_autograd makes
    # such views with as_strided, which the class may lack.
    if not (any(map(needs_gradient, inputs)) or any(map(is_data, nodes))):
        bases = {
            node: base
            for node, base in bases.items()
            if base.op != "placeholder" or is_wrapper(type(fake_of(node)))
        }
    given = {plain_memory_at(node) for node in inputs} - {None}
    of_inputs = {
        node: path
        for node in bases
        if plain_memory_at(node) in given and (path := path_from_inputs(node))
    }
    allocated = {
        plain_memory_at(node): node
        for node in reversed(nodes)
        if plain_memory_at(node) not in given
    }
    families: dict[torch.fx.Node, dict[torch.fx.Node, Path]] = {}
    for node, root in bases.items():
        if node in of_inputs:
            continue
        owner = allocated.get(plain_memory_at(node))
        if owner is not None and not owner.meta["example_value"].requires_grad:
            root = owner  # it was detached
        if root is not node and (path := path_from(root, node)):
            families.setdefault(root, {})[node] = path
    found = of_inputs.copy()
    for root, views in families.items():
        if root in outputs or len(views) > 1:
            found |= views
    return found


def bases_of(
    candidates: Iterable[torch.fx.Node], first: dict[int, torch.fx.Node]
) -> dict[torch.fx.Node, torch.fx.Node]:
    """By candidate, the node that autograd considers its base; the candidate itself if it is no
    view. `first`: the nodes by fake tensor."""
    fakes = {node: node.meta["example_value"] for node in candidates}
    bases = {
        node: first.get(id(fake if fake._base is None else fake._base))
        for node, fake in fakes.items()
    }
    return {node: base for node, base in bases.items() if base is not None}


def note_shown_data(steps: set[torch.fx.Node]) -> None:
    """Marks the inputs whose `.data` is created after the graph."""
    shown = {plain_memory_at(step) for step in steps if is_data(step)}
    for step in steps:
        for source in step.all_input_nodes:
            if source.op == "placeholder" and plain_memory_at(source) in shown:
                source.meta[SHOWN_DATA] = True


def has_no_history(node: torch.fx.Node) -> bool:
    """Whether a node is a tensor without a history, made while gradients were recorded."""
    fake = fake_of(node)
    return (
        isinstance(fake, torch.Tensor)
        and node.op != "placeholder"
        and plain_memory_at(node) is not None
        and not fake.requires_grad
        and not fake.is_inference()
        and not (fake._is_view() and _get_creation_meta(fake) == CreationMeta.NO_GRAD_MODE)
    )


def nodes_by_fake(nodes: Iterable[torch.fx.Node]) -> dict[int, torch.fx.Node]:
    """The first node for each fake tensor, by the fake tensor's id."""
    found: dict[int, torch.fx.Node] = {}
    for node in nodes:
        found.setdefault(id(fake_of(node)), node)
    return found


def path_from(root: torch.fx.Node, view: torch.fx.Node) -> Path:
    """The nodes that make a view from `root`, and numbers from inputs; none where one of them does
    more than that."""
    return path_to(view, lambda node: node is root)


def path_from_inputs(view: torch.fx.Node) -> Path:
    """The nodes that make a view, and numbers, from inputs; none where one of them does more than
    that."""
    memory = plain_memory_at(view)
    return path_to(view, lambda node: node.op == "placeholder" and plain_memory_at(node) == memory)


def path_to(view: torch.fx.Node, is_start: Callable[[torch.fx.Node], bool]) -> Path:
    """The nodes that make a view, back to those for which `is_start` holds; none where one does
    more than make a view."""
    found: Path = []
    todo = [view]
    while todo:
        node = todo.pop()
        if is_start(node) or node in found:
            continue
        if gives_integer(node):
            numbers = path_to_number(node)
            if numbers is None:
                return []
            found += [number for number in numbers if number not in found]
        elif makes_views(node) and plain_memory_at(node) in (plain_memory_at(view), None):
            found.append(node)
            todo += node.all_input_nodes
        else:
            return []
    return found


def path_to_number(number: torch.fx.Node) -> Path | None:
    """The nodes that calculate a number from numbers among the inputs and from the sizes of inputs;
    None where it follows from other tensors."""
    found: Path = []
    todo = [number]
    while todo:
        node = todo.pop()
        if node.op == "placeholder" or node in found:
            continue
        if not gives_integer(node):
            return None
        found.append(node)
        todo += node.all_input_nodes
    return found


def gives_integer(node: torch.fx.Node) -> bool:
    return isinstance(fake_of(node), int | torch.SymInt)


def makes_views(node: torch.fx.Node) -> bool:
    """Whether a node is an operator of torch that writes nothing, and returns tensors."""
    fake = fake_of(node)
    return (
        node.op in ("call_function", "call_method")
        and (fake is None or isinstance(fake, torch.Tensor))  # none for several tensors
        and not (may_write(node) or is_foreign(node) or is_users(node))
    )
