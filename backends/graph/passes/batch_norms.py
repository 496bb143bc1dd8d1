"""Folds batch norms with fixed statistics into the weights of the convolution or linear layer
before them, in a functional ATen graph. The graph computes the new weights from parameters alone;
`constants` moves that computation out of the call."""

from __future__ import annotations

import operator
from collections.abc import Set
from typing import Any

import torch
import torch.fx

from .convolution_biases import ADDS_APART, add_bias_behind

aten = torch.ops.aten
BATCH_NORM = aten._native_batch_norm_legit_no_training.default


def fold_batch_norms(graph: torch.fx.Graph, parameters: Set[torch.fx.Node]) -> int:
    """Changes the graph; returns the number of folded batch norms. parameters: placeholders from
    which weights may be computed."""
    folded = 0
    for node in graph.find_nodes(op="call_function", target=BATCH_NORM):
        source = node.args[0]
        rule = RULES.get(source.target)
        users = list(node.users)
        if (
            rule is None
            or len(source.users) != 1
            or not all(user.target is operator.getitem and user.args[1] == 0 for user in users)
        ):
            continue
        if source.meta["val"].dtype != users[0].meta["val"].dtype:
            continue
        result = rule(Folding(graph, node, source, parameters))
        if result is not None:
            for user in users:
                user.replace_all_uses_with(result)
                graph.erase_node(user)
            graph.erase_node(node)
            folded += 1
    return folded


class Folding:
    """A batch norm and the operator before it."""

    def __init__(
        self,
        graph: torch.fx.Graph,
        norm: torch.fx.Node,
        source: torch.fx.Node,
        parameters: Set[torch.fx.Node],
    ) -> None:
        self.graph, self.norm, self.source, self.parameters = graph, norm, source, parameters

    def are_parameters(self, *nodes: Any) -> bool:
        """Whether these nodes, and the batch norm's own, are parameters or None."""
        return all(
            node is None or node in self.parameters for node in (*nodes, *self.norm.args[1:5])
        )

    def call(self, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        fakes, named = torch.fx.node.map_arg((args, kwargs), lambda other: other.meta["val"])
        node.meta = {"val": target(*fakes, **named)}
        return node

    def scale(self) -> torch.fx.Node:
        """The factor of each channel, in float32 at least."""
        _, weight, _, _, variance, _, eps = self.norm.args
        inverse = self.call(
            aten.rsqrt.default, self.call(aten.add.Scalar, self.wide(variance), eps)
        )
        return inverse if weight is None else self.call(aten.mul.Tensor, inverse, self.wide(weight))

    def shift(self, bias: Any, scale: torch.fx.Node) -> torch.fx.Node:
        """The result of each channel for zero weights."""
        _, _, own, mean, _, _, _ = self.norm.args
        mean = self.wide(mean)
        distance = (
            self.call(aten.neg.default, mean)
            if bias is None
            else self.call(aten.sub.Tensor, self.wide(bias), mean)
        )
        moved = self.call(aten.mul.Tensor, distance, scale)
        return moved if own is None else self.call(aten.add.Tensor, moved, self.wide(own))

    def wide(self, node: Any) -> torch.fx.Node:
        narrow = node.meta["val"].dtype in (torch.float16, torch.bfloat16)
        return self.call(aten._to_copy.default, node, dtype=torch.float32) if narrow else node

    def scale_weight(self, weight: Any, scale: torch.fx.Node) -> torch.fx.Node:
        """A weight with its first dimension scaled."""
        fake = weight.meta["val"]
        column = self.call(aten.view.default, scale, [-1, *[1] * (fake.dim() - 1)])
        return self.narrow(self.call(aten.mul.Tensor, self.wide(weight), column), fake.dtype)

    def narrow(self, node: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
        if node.meta["val"].dtype == dtype:
            return node
        return self.call(aten._to_copy.default, node, dtype=dtype)


def convolution(folding: Folding) -> torch.fx.Node | None:
    """Folds a batch norm into the convolution before it; the node that then has the result, None
    where it cannot be folded."""
    source = folding.source
    _, weight, bias, _, _, _, transposed, _, _ = source.args
    if transposed or not folding.are_parameters(weight, bias):
        return None
    fake = source.meta["val"]
    with folding.graph.inserting_before(source):
        scale = folding.scale()
        source.update_arg(1, folding.scale_weight(weight, scale))
        new_bias = folding.narrow(folding.shift(bias, scale), fake.dtype)
    if fake.device.type not in ADDS_APART:
        source.update_arg(2, new_bias)
        return source
    source.update_arg(2, None)
    return add_bias_behind(source, new_bias)


def matrix_product(folding: Folding) -> torch.fx.Node | None:
    """A product of rows with a transposed weight."""
    source = folding.source
    bias: Any
    turned: Any
    bias, rows, turned = (
        source.args if source.target is aten.addmm.default else (None, *source.args)
    )
    plain = (
        not source.kwargs
        and isinstance(turned, torch.fx.Node)
        and turned.target in (aten.t.default, aten.permute.default)
    )
    if (
        not plain
        or not folding.are_parameters(turned.args[0], bias)
        or (bias is not None and bias.meta["val"].dim() != 1)
    ):
        return None
    dtype = source.meta["val"].dtype
    with folding.graph.inserting_before(source):
        scale = folding.scale()
        weight = folding.call(
            aten.permute.default, folding.scale_weight(turned.args[0], scale), [1, 0]
        )
        new_bias = folding.narrow(folding.shift(bias, scale), dtype)
        source.target, source.args = aten.addmm.default, (new_bias, rows, weight)
    return source


RULES = {
    aten.convolution.default: convolution,
    aten.mm.default: matrix_product,
    aten.addmm.default: matrix_product,
}
