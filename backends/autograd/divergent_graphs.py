"""Graphs for which eager's gradients cannot be predicted from the graph. They run as captured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.fx

from ...overlap import may_repeat
from ..graph.distributed_call import DistributedCall
from ..graph.fake_values import fake_of, number_at_capture
from ..graph.gradient_history import (
    GradientStarts,
    comes_with_gradient,
    is_view_of_a_function,
    lost_its_history,
    needs_gradient,
)
from ..graph.hidden_writes import hides_writes
from ..graph.memory import memory_at, memory_of
from ..graph.node_targets import name_of
from ..graph.wrappers import inner_tensors, is_distributed, is_wrapper
from .divergent_operators import diverges_with_gradients


def is_divergent(gm: torch.fx.GraphModule) -> bool:
    """Whether eager's gradients of a graph differ from those of the compiled graph."""
    results = gm.graph.output_node().all_input_nodes
    return (
        any(map(lost_its_history, results))
        or any(map(is_view_of_users_function, results))
        or any(map(lost_its_history, gm.graph.find_nodes(op="placeholder")))
        or hides_writes(gm)
        or checks_in_backward(gm)
        or changes_leaves(gm)
        or has_overlapping_result_with_gradient(gm)
        or has_overlapping_input_with_gradient(gm)
        or any(map(diverges_with_gradients, gm.graph.nodes))
    )


def is_view_of_users_function(node: torch.fx.Node) -> bool:
    """Whether a result is a view that autograd forbids to write to. Results of DTensor's own
    functions are such views in eager, and can be written when they are compiled."""
    return is_view_of_a_function(node) and not isinstance(node.target, DistributedCall)


def returns_view_of_wrapper(gm: torch.fx.GraphModule) -> bool:
    """Whether a result is a wrapper on the memory of an input. aot_autograd would make it with
    as_strided, which a class may lack, and whose gradient has other strides than the view's."""
    inputs = gm.graph.find_nodes(op="placeholder")
    taken = {memory for node in inputs for memory in memories_of_wrapper(node)}
    results = gm.graph.output_node().all_input_nodes
    made = (node for node in results if node.op != "placeholder")
    return any(not taken.isdisjoint(memories_of_wrapper(node)) for node in made)


def has_part_of_other_dimensions(gm: torch.fx.GraphModule) -> bool:
    """Whether a distributed tensor has another number of dimensions than its part, by a fault of
    torch (quantile of a scalar, vector @ matrix). Eager goes on with its wrong sizes, a traced
    backward pass with those of the part."""
    fakes: Iterator[Any] = map(fake_of, gm.graph.nodes)
    return any(
        is_distributed(type(fake)) and fake.dim() != fake._local_tensor.dim() for fake in fakes
    )


def memories_of_wrapper(node: torch.fx.Node) -> set[int]:
    """The memory of a wrapper and, of a distributed tensor, that of its part; none for other
    values."""
    fake = fake_of(node)
    if not is_wrapper(type(fake)):
        return set()
    parts = inner_tensors(fake) if is_distributed(type(fake)) else ()
    return {memory_of(tensor) for tensor in (fake, *parts)}


def changes_leaves(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph makes leaves that require gradients, and returns one: to a compiler nothing
    made inside is a leaf. A view without a history is one, too."""
    leaves = [
        node
        for node in gm.graph.output_node().all_input_nodes
        if needs_gradient(node) and fake_of(node).is_leaf
    ]
    made = any(node.op != "placeholder" for node in leaves)
    marks = gm.graph.find_nodes(op="call_method", target="requires_grad_")
    return made or bool(marks and (leaves or starts_inside(gm)))


def marks_memory_with_history(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph makes a leaf of `v.detach()`: gradients end there in eager. To a compiler, a
    tensor on the memory of `v` is `v`."""
    nodes = list(gm.graph.nodes)
    for mark in gm.graph.find_nodes(op="call_method", target="requires_grad_"):
        leaf = mark.args[0]
        before = filter(needs_gradient, nodes[: nodes.index(leaf)])
        if memory_at(leaf) is not None and memory_at(leaf) in map(memory_at, before):
            return True
    return False


def starts_inside(gm: torch.fx.GraphModule) -> bool:
    """Whether a result has a gradient though no input leads to it: a leaf was made inside the
    graph."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    starts = GradientStarts(
        {index: node for index, node in enumerate(placeholders) if comes_with_gradient(node)}
    )
    made = (
        node
        for node in gm.graph.output_node().all_input_nodes
        if node.op != "placeholder" and needs_gradient(node)
    )
    return not all(starts.inputs_reached_from(fake_of(node)) for node in made)


def has_overlapping_result_with_gradient(gm: torch.fx.GraphModule) -> bool:
    """Whether a result with a gradient has elements that share memory, as those of expand() and
    unfold(): aot_autograd would copy the gradient into memory that is shared in the same way."""
    results = (
        fake_of(node) for node in gm.graph.output_node().all_input_nodes if needs_gradient(node)
    )
    strided = (fake for fake in results if fake.layout == torch.strided)
    return any(map(shares_elements_at_capture, strided))


def shares_elements_at_capture(fake: torch.Tensor) -> bool:
    """Whether two elements of a tensor share memory, with the sizes of the capture where they vary.
    Where values decide a size, only what expand() has repeated is seen."""
    sizes, strides = [*map(number_at_capture, fake.shape)], [*map(number_at_capture, fake.stride())]
    if None in sizes or None in strides:
        pairs = zip(sizes, strides, strict=True)
        return any(stride == 0 and size != 1 for size, stride in pairs)
    return 0 not in sizes and may_repeat(cast(list[int], sizes), cast(list[int], strides))


def has_overlapping_input_with_gradient(gm: torch.fx.GraphModule) -> bool:
    """Whether an input is written, and elements of one that gets a gradient share memory. Once the
    memory has been written, eager divides the gradient of such elements among them; a traced
    backward pass does not."""
    inputs = gm.graph.find_nodes(op="placeholder")
    return any(node.meta.get("mutated") for node in inputs) and any(
        comes_with_gradient(node) and has_shared_elements(fake_of(node)) for node in inputs
    )


def has_shared_elements(fake: torch.Tensor) -> bool:
    """Whether two elements of a tensor may share memory; False where its layout varies."""
    if fake.layout != torch.strided:
        return False
    sizes, strides = tuple(fake.shape), tuple(fake.stride())
    known = all(type(number) is int for number in (*sizes, *strides))
    return known and may_repeat(sizes, strides)


def checks_in_backward(gm: torch.fx.GraphModule) -> bool:
    """Whether eager's backward pass may raise because of numbers: complex eigenvectors and singular
    vectors are unique only up to a phase, and eager refuses losses that depend on it. A traced
    backward pass would not."""
    vectors = (
        node for node in gm.graph.nodes if any(word in name_of(node) for word in ("eig", "svd"))
    )
    around = (other for node in vectors for other in (*node.all_input_nodes, *node.users))
    return any(needs_gradient(node) and fake_of(node).is_complex() for node in around)
