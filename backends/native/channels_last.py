"""Runs convolutions, and their backward passes, channels-last. Operators between two of them keep
that layout, and the graph's results get eager's strides.

In a functional ATen graph: convolutions get channels-last images and weights; pointwise operators,
those in FOLLOWS and group norms accept any layout; views stay views where the strides allow it;
before all others, and before results, tensors are converted back. Values that a forward graph saves
for its backward graph keep the layout that they have.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx

from ..graph.memory import memories, results_of
from ..graph.product_precision import rounds_convolutions_on_cuda
from .lower.pointwise import POINTWISE

aten = torch.ops.aten
CONVOLUTION = aten.convolution.default
GRADIENTS = aten.convolution_backward.default
READ_CHANNELS_LAST: dict[Any, int] = {
    CONVOLUTION: 2,
    GRADIENTS: 3,
}  # how many arguments are images and weights
CLONE, AS_STRIDED = aten.clone.default, aten.as_strided.default
COPIES = (CLONE, aten._to_copy.default, aten.copy.default)
GROUP_NORM = aten.native_group_norm.default
FOLLOWS = frozenset((
    aten._native_batch_norm_legit_no_training.default,
    aten.max_pool2d_with_indices.default, aten.avg_pool2d.default,
    aten._adaptive_avg_pool2d.default, aten.cat.default,
    aten.mean.dim, aten.sum.dim_IntList, aten.var_mean.correction,
    aten.upsample_nearest2d.default, aten.upsample_nearest2d.vec,
    aten.upsample_bilinear2d.default, aten.upsample_bilinear2d.vec,
    aten.constant_pad_nd.default,
))  # fmt: skip
# as FOLLOWS, where all their images are channels-last
FOLLOWS_ALL = frozenset((
    aten.max_pool2d_with_indices_backward.default, aten.avg_pool2d_backward.default,
    aten.upsample_nearest2d_backward.default,
))  # fmt: skip
VIEWS = frozenset((
    aten.view.default, aten.unsqueeze.default, aten.squeeze.dims, aten.slice.Tensor,
    aten.expand.default, aten.permute.default, aten.select.int, aten.alias.default,
))  # fmt: skip
FEWEST_CHANNELS = 16
# factor by which the images must be larger than the weights, which are converted at each call
# unless frozen
WORTH = 2


def to_channels_last(graph: torch.fx.Graph, *, always: bool = False) -> int:
    """Changes a graph without gradients; returns the number of convolutions made channels-last, 0
    where that is not expected to pay."""
    convolutions = convolutions_in(graph)
    if not convolutions or not (always or is_worthwhile(convolutions)):
        return 0
    StrideChange(graph).add_all()
    graph.eliminate_dead_code()
    return len(convolutions)


def train_channels_last(
    forward: torch.fx.Graph, backward: torch.fx.Graph, results: int, saved: int
) -> None:
    """Changes the graphs of a forward and a backward pass. The forward graph's outputs after its
    `results` are saved: they are the backward graph's inputs from position `saved` on."""
    change = StrideChange(forward, results)
    change.add_all()
    outputs: Any = forward.output_node().args[0]
    inputs = backward.find_nodes(op="placeholder")
    back = StrideChange(backward)
    for given, taken in zip(outputs[results:], inputs[saved:], strict=False):
        if given in change.before:
            # converted, it is on memory of its own
            back.before[taken] = {**taken.meta, "memory": [object()]}
            taken.meta["val"] = given.meta["val"]
    back.add_all()


def convolutions_in(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The convolutions over images, in a graph of any size."""
    found = graph.find_nodes(op="call_function", target=CONVOLUTION)
    return list(filter(over_images, found))


def over_images(node: torch.fx.Node) -> bool:
    """Whether a convolution, or its gradients, are of images of known sizes."""
    return all(
        fake.dim() == 4 and not any(isinstance(size, torch.SymInt) for size in fake.shape)
        for fake in images_and_weight(node)
    )


def images_and_weight(node: torch.fx.Node) -> list[torch.Tensor]:
    """The fake tensors of a convolution's image and weight, or of those and its gradient."""
    given: Any = node.args[: READ_CHANNELS_LAST[node.target]]
    return [argument.meta["val"] for argument in given]


def channels_last_like(fake: torch.Tensor | None) -> torch.Tensor | None:
    return None if fake is None else torch.empty_like(fake, memory_format=torch.channels_last)


def is_wrong_on_channels_last(node: torch.fx.Node) -> bool:
    """Whether torch's CUDA kernel for channels-last images gives wrong gradients: those of means
    over padded windows, before torch's fix of its issue 188344."""
    if node.target is not aten.avg_pool2d_backward.default:
        return False
    _, _, _, _, padding, *_ = node.args
    return any(padding)  # type: ignore[arg-type]


def is_image(argument: Any) -> bool:
    return isinstance(argument, torch.fx.Node) and argument.meta["val"].dim() == 4


def part_of(node: torch.fx.Node, key: str) -> Any:
    """What a tuple's node has under `key` for the item that `node` takes."""
    whole, position = node.args
    return whole.meta[key][position]  # type: ignore[union-attr]


def is_worthwhile(convolutions: list[torch.fx.Node]) -> bool:
    """Whether it is expected to pay: on CUDA with tensor cores, for convolutions of many channels,
    with images that are large compared with the weights."""
    images = weights = 0
    for node in convolutions:
        image, weight = images_and_weight(node)
        tensor_cores = (
            torch.float16,
            torch.bfloat16,
            *([torch.float32] if rounds_convolutions_on_cuda() else []),
        )
        if image.device.type != "cuda" or image.dtype not in tensor_cores:
            return False
        if min(weight.shape[:2]) >= FEWEST_CHANNELS:
            images += image.numel() + node.meta["val"].numel()
            weights += weight.numel()
    return images > WORTH * weights > 0


class StrideChange:
    """A graph while its nodes' fake results get new strides. results: how many of its outputs keep
    their strides; None: all. `before`: the original meta of nodes whose strides changed."""

    def __init__(self, graph: torch.fx.Graph, results: int | None = None) -> None:
        self.graph, self.results = graph, results
        self.before: dict[torch.fx.Node, dict[str, Any]] = {}
        self.turned: dict[tuple[torch.fx.Node, bool], torch.fx.Node] = {}

    def add_all(self) -> None:
        for node in list(self.graph.nodes):
            self.add(node)

    def add(self, node: torch.fx.Node) -> None:
        """Rewrites a node that reads an image in channels-last layout: it computes in that layout,
        or reads the image in the layout that it had before."""
        if node.target in READ_CHANNELS_LAST and over_images(node):
            self.convolve(node)
        elif not any(other in self.before for other in node.all_input_nodes):
            return
        elif node.op == "output":
            self.end(node)
        else:
            self.follow(node)

    def follow(self, node: torch.fx.Node) -> None:
        """Rewrites a node with an argument whose strides changed, by what its operator does with
        strides."""
        if node.target is operator.getitem:
            self.set_result(node, part_of(node, "val"))
        elif node.target is GROUP_NORM:
            self.keep_layout(node)
        elif node.target in VIEWS:
            self.view_again(node)
        elif node.kwargs.get("memory_format", torch.preserve_format) is not torch.preserve_format:
            return  # the result has that layout, whatever the argument has
        elif node.target in POINTWISE or node.target in COPIES:
            self.compute_alike(node)
        elif node.target in FOLLOWS_ALL and not is_wrong_on_channels_last(node):
            self.turn_images(node)
        elif node.target in FOLLOWS:
            self.run_again(node)
        else:
            self.read_as_before(node)

    def turn_images(self, node: torch.fx.Node) -> None:
        """Gives an operator of several images all of them channels-last."""
        node.args = tuple(
            self.as_channels_last(node, other) if is_image(other) else other for other in node.args
        )
        self.run_again(node)

    def convolve(self, node: torch.fx.Node) -> None:
        """Gives a convolution channels-last images and a channels-last weight; its results, or its
        gradients, are so too."""
        count = READ_CHANNELS_LAST[node.target]
        given = [self.as_channels_last(node, other) for other in node.args[:count]]
        others = torch.fx.node.map_arg(
            tuple(node.args[count:]), lambda other: self.as_before(node, other)
        )
        node.args = (*given, *others)
        if node.target is CONVOLUTION:
            self.run_again(node)
        else:
            image, weight, bias = node.meta["val"]
            self.set_result(node, (channels_last_like(image), channels_last_like(weight), bias))

    def end(self, node: torch.fx.Node) -> None:
        outputs: Any = node.args[0]
        kept = outputs[: self.results]
        node.args = (
            (
                *(
                    self.as_before(node, other) if isinstance(other, torch.fx.Node) else other
                    for other in kept
                ),
                *outputs[len(kept) :],
            ),
        )

    def read_as_before(self, node: torch.fx.Node) -> None:
        node.args, node.kwargs = torch.fx.node.map_arg(
            (node.args, node.kwargs), lambda other: self.as_before(node, other)
        )

    def view_again(self, node: torch.fx.Node) -> None:
        """Keeps a view where the new strides allow it."""
        try:
            self.run_again(node)
        except (RuntimeError, ValueError):
            self.read_as_before(node)
        base: Any = node.args[0]
        if "memory" in node.meta:
            node.meta["memory"] = list(memories(base))

    def compute_alike(self, node: torch.fx.Node) -> None:
        """Gives the result of a pointwise operator the strides of an operand of its size."""
        fake = node.meta["val"]
        alike = (
            other.meta["val"]
            for other in node.all_input_nodes
            if other in self.before and other.meta["val"].shape == fake.shape
        )
        like = next(alike, None)
        if like is None:
            self.run_again(node)
        else:
            self.set_result(node, torch.empty_like(like, dtype=fake.dtype, device=fake.device))

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
        """Gives a node a new fake result; on separate memory if its strides differ, so that views
        of the old one become views of a copy."""
        before, olds = dict(node.meta), results_of(node)
        node.meta["val"] = value
        changed = [
            isinstance(old, torch.Tensor) and old.stride() != new.stride()
            for old, new in zip(olds, results_of(node), strict=True)
        ]
        if any(changed):
            self.before[node] = before
        if node.target is operator.getitem and "memory" in before:
            node.meta["memory"] = [part_of(node, "memory")]
        elif "memory" in before:
            pairs = zip(changed, before["memory"], strict=True)
            node.meta["memory"] = [object() if turned else old for turned, old in pairs]

    def as_channels_last(self, user: torch.fx.Node, node: Any) -> Any:
        fake = node.meta["val"]
        if fake.is_contiguous(memory_format=torch.channels_last):
            return node
        return self.copy(user, node, {"val": channels_last_like(fake), "memory": [object()]}, True)

    def as_before(self, user: torch.fx.Node, node: torch.fx.Node) -> torch.fx.Node:
        return self.copy(user, node, self.before[node], False) if node in self.before else node

    def copy(
        self, user: torch.fx.Node, node: torch.fx.Node, meta: dict[str, Any], last: bool
    ) -> torch.fx.Node:
        """A converted tensor, shared by all users; a view where the elements stay in place."""
        if (node, last) not in self.turned:
            old, new = node.meta["val"], meta["val"]
            with self.graph.inserting_before(user):
                if have_equal_addresses(old, new):
                    layout = [*new.shape], [*new.stride()]
                    made = self.graph.call_function(AS_STRIDED, (node, *layout))
                    meta = {**meta, "memory": memories(node)}
                else:
                    made = self.graph.call_function(CLONE, (node,), memory_format_of(new))
            made.meta = meta
            self.turned[node, last] = made
        return self.turned[node, last]


def have_equal_addresses(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the elements of tensors of one size are in the same order in memory."""
    sizes = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(size == 1 or mine == its for size, mine, its in sizes)


def memory_format_of(fake: torch.Tensor) -> dict[str, Any]:
    """What makes clone() give this layout, as an argument by name."""
    for layout in (torch.contiguous_format, torch.channels_last):
        if fake.dim() == 4 and fake.is_contiguous(memory_format=layout):
            return {"memory_format": layout}
    return {}
