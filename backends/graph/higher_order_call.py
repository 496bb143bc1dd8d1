"""Higher-order operators of torch, such as cond, whose functions are captured graphs.

In: the operator and its arguments. Out: a callable on a node's arguments, that node's target.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from ...records import record

_numbers = itertools.count()


@record
class Operand:
    """Stands for one of a node's arguments among the arguments of a higher-order operator."""

    position: int


class HigherOrderCall:
    """A call of one of torch's higher-order operators, such as cond. arguments: those of the
    operator, with its functions as graphs and an Operand for each of the node's arguments."""

    def __init__(self, operator: Any, arguments: tuple[Any, ...]) -> None:
        self.__name__ = f"{operator.name()}_{next(_numbers)}"
        self.operator = operator
        self._leaves, self._structure = pytree.tree_flatten(arguments)

    def __call__(self, *operands: Any) -> Any:
        return self.operator(*self.arguments_for(operands))

    def arguments_for(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The operator's arguments, with these of the node."""
        leaves = [
            operands[leaf.position] if isinstance(leaf, Operand) else leaf for leaf in self._leaves
        ]
        made: tuple[Any, ...] = pytree.tree_unflatten(leaves, self._structure)
        return made

    def __reduce__(self) -> Any:
        """In another process, its functions are no graphs."""
        leaves = [
            leaf.forward if isinstance(leaf, torch.fx.GraphModule) else leaf
            for leaf in self._leaves
        ]
        return type(self), (self.operator, pytree.tree_unflatten(leaves, self._structure))

    @property
    def name(self) -> str:
        return str(self.operator.name())

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Those of the operator, as they were given."""
        made: tuple[Any, ...] = pytree.tree_unflatten(self._leaves, self._structure)
        return made

    @property
    def subgraphs(self) -> tuple[torch.fx.GraphModule, ...]:
        return tuple(leaf for leaf in self._leaves if isinstance(leaf, torch.fx.GraphModule))


class WithHistory(torch.autograd.Function):
    """Gives the first `count` tensors a history that leads to the others."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.clone() for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("fake tensors have no gradients")


class ViewsWithHistory(WithHistory):
    """The same, with views, which autograd lets nobody write."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.ops.aten.alias(tensor) for tensor in tensors[:count])


class ViewsCall(HigherOrderCall):
    """A call of while_loop or map, which return views. For fake tensors with gradients, torch
    stacks as many intermediates of while_loop as there are iterations, a number that no capture
    knows, and the results of map are no views."""

    def __call__(self, *operands: Any) -> Any:
        wanted = torch.is_grad_enabled() and any(
            isinstance(operand, FakeTensor) and operand.requires_grad for operand in operands
        )
        if not wanted:
            return super().__call__(*operands)
        with torch.no_grad():
            results = super().__call__(*operands)
        return ViewsWithHistory.apply(len(results), *results, *operands)
