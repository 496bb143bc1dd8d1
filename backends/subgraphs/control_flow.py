"""Control flow on tensors (cond, while_loop, scan, map) whose functions a backend has compiled:
Python calls them, and decides which and how often.

In: a captured graph that calls torch's higher-order operators. Out: a callable on its inputs.
torch's own operators run these functions operator by operator, and trace their derivatives anew at
each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from ..graph.fake_values import fake_of
from ..graph.gradient_history import needs_gradient, values_that_eager_frees
from ..graph.higher_order_call import HigherOrderCall
from ..graph.separate_inputs import Inseparable, propagate_fakes

Function = Callable[..., Any]  # takes tensors and numbers, returns a tuple of tensors
Build = Callable[[torch.fx.GraphModule, list[Any]], Function]


def compile_control_flow(gm: torch.fx.GraphModule, build: Build) -> Function:
    """The graph, which calls functions that `build` has compiled where it calls an operator of
    CONTROL_FLOW."""
    for node in gm.graph.nodes:
        operator = node.target
        kind = CONTROL_FLOW.get(operator.name) if isinstance(operator, HigherOrderCall) else None
        if kind is not None:
            with suppress(Inseparable):  # of which no fakes with other gradients can be had
                node.target = kind(node, operator, build)
    gm.recompile()
    return gm.forward


class JoinedHistory(torch.autograd.Function):
    """Gives results one autograd node, as those of a higher-order operator have: a backward pass
    through one of them goes through all. Operands beside them get gradients of zeros."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results, operands = tensors[:count], tensors[count:]
        ctx.save_for_backward(*operands)
        ctx.mark_non_differentiable(*(one for one in results if not differentiable(one)))
        return tuple(result.detach() for result in results)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return None, *grads, *map(torch.zeros_like, ctx.saved_tensors)


def differentiable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class ControlFlow:
    """A node's target. trained: whether gradients flow through the node."""

    def __init__(self, node: torch.fx.Node, call: HigherOrderCall) -> None:
        self.__name__ = call.__name__
        self.trained = any(map(needs_gradient, node.users))  # the items of its result

    def join(
        self, results: Sequence[torch.Tensor], operands: Sequence[Any], unreached: Sequence[int]
    ) -> tuple[torch.Tensor, ...]:
        """The results, with the gradients of torch's operator. unreached: the positions of operands
        that need a gradient, which the results may not depend on."""
        if not (self.trained and torch.is_grad_enabled()):
            return tuple(results)
        others = [operands[position] for position in unreached]
        joined: tuple[torch.Tensor, ...] = JoinedHistory.apply(len(results), *results, *others)
        return joined


class Cond(ControlFlow):
    """cond: the operands are the predicate and those of the branches."""

    def __init__(self, node: torch.fx.Node, call: HigherOrderCall, build: Build) -> None:
        super().__init__(node, call)
        _, *branches, _ = call.arguments
        self.copied = list(map(saved_results, branches))
        self.branches = [compile_function(branch, build) for branch in branches]
        self.unreached = [unreached_inputs(branch) for branch in branches]

    def __call__(self, predicate: torch.Tensor, *operands: Any) -> Any:
        taken = 0 if predicate else 1
        results = self.branches[taken](*operands)
        if self.trained:
            results = copy_at(results, self.copied[taken])
        return self.join(results, operands, self.unreached[taken])


class Loop(ControlFlow):
    """Calls `step` again and again with what it returned. count: the number of tensors that it
    carries, which are the first operands. gaining: the positions of those that need a gradient from
    the second step on."""

    def __init__(
        self, node: torch.fx.Node, call: HigherOrderCall, step: torch.fx.GraphModule, count: int
    ) -> None:
        super().__init__(node, call)
        self.count, self.gaining = count, give_gradients(step, count)
        self.unreached = unreached_after_steps(step, count)

    def first(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The carried tensors of the first step, as those of later steps: compiled functions rely
        on which inputs need a gradient."""
        if not (self.gaining and torch.is_grad_enabled()):
            return operands[: self.count]
        return [
            tensor.detach().requires_grad_() if position in self.gaining else tensor
            for position, tensor in enumerate(operands[: self.count])
        ]


class WhileLoop(Loop):
    """while_loop: the operands are those that are carried, and others."""

    def __init__(self, node: torch.fx.Node, call: HigherOrderCall, build: Build) -> None:
        test, step, carried, _ = call.arguments
        super().__init__(node, call, step, len(carried))
        for one, fake in fakes_with_gradients(test, self.gaining).items():
            one.meta["example_value"] = fake
        self.test, self.step = compile_function(test, build), compile_function(step, build)
        self.all_trained = [
            position for position, one in enumerate(node.args) if needs_gradient(one)
        ]

    def __call__(self, *operands: Any) -> Any:
        carried, others = self.first(operands), operands[self.count :]
        unreached: Sequence[int] = self.all_trained
        (goes_on,) = self.test(*carried, *others)
        if not goes_on:
            carried = [tensor.clone() for tensor in operands[: self.count]]
        while goes_on:
            carried, unreached = self.step(*carried, *others), self.unreached
            (goes_on,) = self.test(*carried, *others)
        return self.join(carried, operands, unreached)


class Scan(Loop):
    """scan: the operands are those that are carried, those that are scanned along their first
    dimension, and others. Results are the last carried tensors, and the others of all steps. map is
    a scan that carries nothing."""

    def __init__(self, node: torch.fx.Node, call: HigherOrderCall, build: Build) -> None:
        step, *carried, scanned, _ = call.arguments
        super().__init__(node, call, step, sum(map(len, carried)))
        self.scanned = len(scanned)
        self.copied = [position for position in saved_results(step) if position < self.count]
        self.step = compile_function(step, build)

    def __call__(self, *operands: Any) -> Any:
        end = self.count + self.scanned
        carried, others = self.first(operands), operands[end:]
        made = []
        for items in zip(*(one.unbind() for one in operands[self.count : end]), strict=True):
            results = self.step(*carried, *items, *others)
            carried = results[: self.count]
            made.append(results[self.count :])
        if self.trained:
            carried = copy_at(carried, self.copied)
        stacked = map(torch.stack, zip(*made, strict=True))
        return self.join([*carried, *stacked], operands, self.unreached)


def compile_function(function: torch.fx.GraphModule, build: Build) -> Function:
    """Compiles a function that was given to an operator, as a captured graph."""
    inputs = function.graph.find_nodes(op="placeholder")
    for node in inputs:
        fake = fake_of(node)
        node.meta = {"example_value": fake, "grad_fn": getattr(fake, "grad_fn", None)}
    return build(function, list(map(fake_of, inputs)))


def saved_results(function: torch.fx.GraphModule) -> list[int]:
    """The positions of results that may be saved for a backward pass. Torch's operators save only
    operands, so the program may write into results."""
    freed = values_that_eager_frees(function.graph)
    results: Any = function.graph.output_node().args[0]
    return [position for position, node in enumerate(results) if node not in freed]


def copy_at(results: Sequence[torch.Tensor], positions: Sequence[int]) -> list[torch.Tensor]:
    return [
        result.clone() if position in positions else result
        for position, result in enumerate(results)
    ]


def unreached_inputs(function: torch.fx.GraphModule) -> list[int]:
    """The positions of inputs that need a gradient and that no result depends on."""
    inputs = function.graph.find_nodes(op="placeholder")
    reached = set(function.graph.output_node().all_input_nodes)
    for node in reversed(function.graph.nodes):
        if node in reached and needs_gradient(node):
            reached.update(filter(needs_gradient, node.all_input_nodes))
    return [
        position
        for position, node in enumerate(inputs)
        if needs_gradient(node) and node not in reached
    ]


def unreached_after_steps(function: torch.fx.GraphModule, carried: int) -> list[int]:
    """The same for a function that is called repeatedly: what it carries may be lost in a later
    step."""
    inputs = enumerate(function.graph.find_nodes(op="placeholder"))
    lost = [position for position, node in inputs if position < carried and needs_gradient(node)]
    return [*lost, *(one for one in unreached_inputs(function) if one >= carried)]


def give_gradients(function: torch.fx.GraphModule, carried: int) -> list[int]:
    """Marks inputs as needing a gradient where the results of the step before do. Returns their
    positions."""
    inputs = function.graph.find_nodes(op="placeholder")[:carried]
    results: Any = function.graph.output_node().args[0]
    found: list[int] = []
    while True:
        gaining = [
            position
            for position, (node, result) in enumerate(zip(inputs, results, strict=False))
            if needs_gradient(result) and not needs_gradient(node)
        ]
        if not gaining:
            return found
        found += gaining
        fakes = fakes_with_gradients(function, gaining)
        mode = next(fake.fake_mode for fake in fakes.values())
        for node, fake in propagate_fakes(function, fakes, mode).items():
            node.meta["example_value"] = fake


def fakes_with_gradients(
    function: torch.fx.GraphModule, positions: Sequence[int]
) -> dict[torch.fx.Node, FakeTensor]:
    """New fakes, which need a gradient, for the inputs at these positions."""
    inputs = function.graph.find_nodes(op="placeholder")
    made: dict[torch.fx.Node, Any] = {}
    for position in positions:
        fake = fake_of(inputs[position])
        with fake.fake_mode, torch.no_grad():
            made[inputs[position]] = torch.empty_like(fake).requires_grad_()
    return made


CONTROL_FLOW: dict[str, Callable[[torch.fx.Node, HigherOrderCall, Build], ControlFlow]] = {
    "cond": Cond,
    "while_loop": WhileLoop,
    "scan": Scan,
    "map_impl": Scan,
}
