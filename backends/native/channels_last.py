"""Runs convolutions channels-last. Operators between two of them keep that layout, and the graph's
results get eager's strides.

In a functional ATen graph: convolutions get channels-last images and weights; the operators in
FOLLOWS, and group norms, accept any layout; before all others, and before results, tensors are
converted back.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx

from ..graph.memory import results_of
from .lower.pointwise import POINTWISE

aten = torch.ops.aten
CONVOLUTION = aten.convolution.default
CLONE = aten.clone.default
GROUP_NORM = aten.native_group_norm.default
FOLLOWS = frozenset((
    *POINTWISE, aten._native_batch_norm_legit_no_training.default,
    aten.max_pool2d_with_indices.default, aten.avg_pool2d.default,
    aten._adaptive_avg_pool2d.default, aten.cat.default, aten.mean.dim,
    aten.upsample_nearest2d.default, aten.upsample_nearest2d.vec,
    aten.upsample_bilinear2d.default, aten.upsample_bilinear2d.vec,
    aten.constant_pad_nd.default, CLONE, aten._to_copy.default,
))  # fmt: skip
FEWEST_CHANNELS = 16
# factor by which the images must be larger than the weights, which are converted at each call
# unless frozen
WORTH = 2


def to_channels_last(graph: torch.fx.Graph, *, always: bool = False) -> int:
    """Changes the graph; returns the number of convolutions made channels-last, 0 where that is not
    expected to pay."""
    convolutions = [
        node
        for node in graph.find_nodes(op="call_function", target=CONVOLUTION)
        if over_images(node)
    ]
    if not convolutions or not (always or is_worthwhile(convolutions)):
        return 0
    layout = StrideChange(graph)
    for node in list(graph.nodes):
        layout.add(node, convolutions)
    graph.eliminate_dead_code()
    return len(convolutions)


def over_images(node: torch.fx.Node) -> bool:
    return all(
        fake.dim() == 4 and not any(isinstance(size, torch.SymInt) for size in fake.shape)
        for fake in image_and_weight(node)
    )


def image_and_weight(node: torch.fx.Node) -> list[torch.Tensor]:
    """The fake tensors of a convolution's first two arguments."""
    return [argument.meta["val"] for argument in node.args[:2]]  # type: ignore[union-attr]


def part_of(node: torch.fx.Node, key: str) -> Any:
    """What a tuple's node has under `key` for the item that `node` takes."""
    whole, position = node.args
    return whole.meta[key][position]  # type: ignore[union-attr]


def is_worthwhile(convolutions: list[torch.fx.Node]) -> bool:
    """Whether it is expected to pay: on CUDA with tensor cores, for ungrouped convolutions of many
    channels, with images that are large compared with the weights."""
    images = weights = 0
    for node in convolutions:
        image, weight = image_and_weight(node)
        tensor_cores = (
            torch.float16,
            torch.bfloat16,
            *([torch.float32] if torch.backends.cudnn.allow_tf32 else []),
        )
        if image.device.type != "cuda" or image.dtype not in tensor_cores:
            return False
        if node.args[8] != 1:
            return False
        if min(weight.shape[:2]) >= FEWEST_CHANNELS:
            images += image.numel() + node.meta["val"].numel()
            weights += weight.numel()
    return images > WORTH * weights > 0


class StrideChange:
    """A graph while its nodes' fake results get new strides. `before`: the original meta of nodes
    whose strides changed."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph = graph
        self.before: dict[torch.fx.Node, dict[str, Any]] = {}
        self.turned: dict[tuple[torch.fx.Node, bool], torch.fx.Node] = {}

    def add(self, node: torch.fx.Node, convolutions: list[torch.fx.Node]) -> None:
        if node in convolutions:
            image, weight = node.args[:2]
            node.args = (
                self.as_channels_last(node, image),
                self.as_channels_last(node, weight),
                *node.args[2:],
            )
            self.run_again(node)
        elif any(other in self.before for other in node.all_input_nodes):
            if node.target is operator.getitem:
                self.set_result(node, part_of(node, "val"))
            elif node.target is GROUP_NORM:
                self.keep_layout(node)
            elif node.target in FOLLOWS and not node.kwargs.get("memory_format"):
                self.run_again(node)
            else:
                node.args, node.kwargs = torch.fx.node.map_arg(
                    (node.args, node.kwargs), lambda other: self.as_before(node, other)
                )

    def run_again(self, node: torch.fx.Node) -> None:
        args, kwargs = torch.fx.node.map_arg(
            (node.args, node.kwargs), lambda other: other.meta["val"]
        )
        self.set_result(node, node.target(*args, **kwargs))  # type: ignore[operator]

    def keep_layout(self, node: torch.fx.Node) -> None:
        """Gives a group norm's first result the layout of its image, as a kernel of ours stores it;
        torch's own is contiguous on CUDA."""
        image: Any = node.args[0]
        _, mean, rstd = node.meta["val"]
        others = torch.fx.node.map_arg(
            tuple(node.args[1:]), lambda other: self.as_before(node, other)
        )
        node.args = (image, *others)
        self.set_result(node, (torch.empty_like(image.meta["val"]), mean, rstd))

    def set_result(self, node: torch.fx.Node, value: Any) -> None:
        """Gives a node a new fake result on separate memory, so that views of the old one become
        views of a copy."""
        before, olds = dict(node.meta), results_of(node)
        node.meta["val"] = value
        if any(
            isinstance(old, torch.Tensor) and old.stride() != new.stride()
            for old, new in zip(olds, results_of(node), strict=True)
        ):
            self.before[node] = before
        if "memory" in before:
            is_part = node.target is operator.getitem
            node.meta["memory"] = [part_of(node, "memory")] if is_part else [object() for _ in olds]

    def as_channels_last(self, user: torch.fx.Node, node: Any) -> Any:
        fake = node.meta["val"]
        if fake.is_contiguous(memory_format=torch.channels_last):
            return node
        return self.copy(
            user,
            node,
            {"val": fake.contiguous(memory_format=torch.channels_last), "memory": [object()]},
            True,
        )

    def as_before(self, user: torch.fx.Node, node: torch.fx.Node) -> torch.fx.Node:
        return self.copy(user, node, self.before[node], False) if node in self.before else node

    def copy(
        self, user: torch.fx.Node, node: torch.fx.Node, meta: dict[str, Any], last: bool
    ) -> torch.fx.Node:
        """A converted tensor, shared by all users."""
        if (node, last) not in self.turned:
            with self.graph.inserting_before(user):
                made = self.graph.call_function(CLONE, (node,))
            made.meta = meta
            self.turned[node, last] = made
        return self.turned[node, last]
