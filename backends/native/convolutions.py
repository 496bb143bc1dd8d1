"""What is changed in graphs of convolutions for training on a GPU, before they are lowered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..graph.copies import AnyNode, Copies
from ..graph.passes.convolution_biases import take_out_bias_gradients, take_out_biases
from .channels_last import CONVOLUTION, convolutions_in, is_worthwhile, train_channels_last

if TYPE_CHECKING:
    from ..autograd.partitioner import Partition


def rewrite_convolutions(partition: Partition, channels_last: bool) -> Partition:
    """The graphs of a forward and a backward pass with biases of convolutions apart and, where that
    should pay, channels-last; for the GPU only."""
    if not any(map(is_convolution_on_gpu, partition.forward.graph.nodes)):
        return partition
    forward, backward = (
        graph.module() if isinstance(graph, Copies) else graph
        for graph in (partition.forward, partition.backward)
    )
    take_out_biases(forward.graph)
    take_out_bias_gradients(backward.graph)
    convolutions = convolutions_in(forward.graph)
    if channels_last and convolutions and is_worthwhile(convolutions):
        saved = partition.sizes + len(partition.saved_inputs)
        train_channels_last(forward.graph, backward.graph, partition.results, saved)
    return replace(partition, forward=forward, backward=backward)


def is_convolution_on_gpu(node: AnyNode) -> bool:
    return node.target is CONVOLUTION and node.meta["val"].device.type == "cuda"
