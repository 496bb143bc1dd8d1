"""Runs a compiled graph as one autograd node that leaves the same gradients as eager.

In: a captured graph and what an ahead-of-time compiler made of it. Out: a callable, whose node is
named CompiledFunctionBackward. A single node for a whole graph would differ from eager in two ways,
which are corrected here: an input that no output with a gradient depends on keeps None as its
gradient, and a backward pass can itself be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch.autograd.graph import GradientEdge, Node

from ...factory_call import record_factory
from ..graph.fake_values import fake_of
from ..graph.freed_results import MESSAGE
from ..graph.gradient_history import (
    GradientStarts,
    comes_with_gradient,
    gains_history,
    needs_gradient,
    wants_gradients,
)
from ..graph.memory import memory_at
from ..graph.mutations import is_norm, may_write, written_nodes
from ..graph.random_draws import draws_random_numbers
from ..graph.random_states import RandomStates, random_states_kept
from .autograd_function import correct_gradients
from .gradient_layouts import GradientLayouts

NODE = "CompiledFunctionBackward"
# After so many differentiable backward passes in a row, so many calls run as captured. Such a pass
# runs the graph's forward and backward again under eager's autograd; compiled code only adds to it.
DIFFERENTIABLE_PASSES, CALLS_AS_CAPTURED = 4, 64


def with_eager_gradients(
    gm: torch.fx.GraphModule, compiled: Callable[..., Any], random_like_eager: bool
) -> Callable[..., Any]:
    """Wraps `compiled` where gradients are taken."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    results: Any = gm.graph.output_node().args[0]
    outputs = list(results)
    wanted = [index for index, node in enumerate(placeholders) if comes_with_gradient(node)]
    memory = {memory_at(placeholders[index]) for index in wanted} - {None}
    made = [
        (number, node)
        for number, node in enumerate(outputs)
        if isinstance(node, torch.fx.Node) and node.op != "placeholder"
    ]
    gains = any(map(gains_history, placeholders))
    without = [
        number
        for number, node in made
        if not needs_gradient(node) and (gains or memory_at(node) in memory)
    ]
    if without:
        compiled = detach_results(compiled, without)
    if not wanted or not wants_gradients(gm):
        return compiled
    starts = GradientStarts({index: placeholders[index] for index in wanted})
    reached = [
        starts.inputs_reached_from(fake_of(node)) if needs_gradient(node) else None
        for node in (*outputs, *placeholders)
    ]
    random = draws_random_numbers(list(gm.graph.nodes))
    again = None if random and not random_like_eager else _replay(gm, placeholders)
    layouts = GradientLayouts(gm, wanted)
    return CompiledNode(compiled, reached, len(outputs), wanted, again, random, layouts)


def detach_results(compiled: Callable[..., Any], numbers: Sequence[int]) -> Callable[..., Any]:
    """A compiled graph, some of its results without a history: a view made while none was kept,
    which aot_autograd makes anew, or a result of an input that gained a history afterwards."""

    def call(*args: Any) -> Any:
        results = list(compiled(*args))
        for number in numbers:
            if getattr(results[number], "requires_grad", False):
                results[number] = results[number].detach()
        return tuple(results)

    return record_factory(call, detach_results, compiled, numbers)


def _replay(
    gm: torch.fx.GraphModule, placeholders: Sequence[torch.fx.Node]
) -> tuple[Callable[..., Any], frozenset[int]] | None:
    """How to run the graph a second time: its function, and positions of inputs that it gets copies
    of: running statistics and counters, which training only writes. None where the graph overwrites
    something that it may also read."""
    copied = {
        node
        for node in placeholders
        if node.users
        and not needs_gradient(node)
        and all(
            may_write(user) and node in written_nodes(user) and not user.users
            for user in node.users
        )
    }
    for node in gm.graph.nodes:
        if is_norm(node):  # it writes running statistics, and reads none of them while training
            copied |= {
                other
                for other in node.all_input_nodes[1:]
                if isinstance(fake_of(other), torch.Tensor) and not needs_gradient(other)
            }
    if any(
        node not in copied for node in placeholders if node.meta.get("mutated")
    ) or not copied <= set(placeholders):
        return None
    return gm.forward, frozenset(placeholders.index(node) for node in copied)


@dataclass
class NodeWiring:
    """The place of a compiled graph's autograd node, learnt from the first call. `end`: the output
    that leads to it, in `steps` steps. `rows`: by output of the node, the inputs reached from it.
    `inputs`: by next function, the input (None: unknown). `own`: by output of the node, the graph's
    output that it is. `rebuilt`: whether other results are made of it outside. `versioned`: inputs
    that must not be written before the backward pass is differentiated."""

    end: int
    steps: int
    rows: dict[int, frozenset[int]]
    inputs: tuple[int | None, ...]
    own: dict[int, int]
    rebuilt: bool
    versioned: list[int]

    def __post_init__(self) -> None:
        self.unreached = self.not_reached_from(self.rows)

    def not_reached_from(self, outputs: Collection[int]) -> list[int]:
        """Next functions whose input no gradient reaches that comes to these outputs."""
        reached = frozenset[int]().union(*(self.rows[number] for number in outputs))
        return [
            place
            for place, index in enumerate(self.inputs)
            if index is not None and index not in reached
        ]

    def read_versions(self, args: Sequence[Any]) -> list[int]:
        """How often the inputs that are `versioned` were written."""
        return [args[position]._version for position in self.versioned]


class CompiledNode:
    """Calls a compiled graph and watches its node in the backward pass."""

    def __init__(
        self,
        compiled: Callable[..., Any],
        reached: Sequence[frozenset[int] | None],
        outputs: int,
        wanted: Sequence[int],
        again: tuple[Callable[..., Any], frozenset[int]] | None,
        random: bool,
        layouts: GradientLayouts,
    ) -> None:
        self.compiled, self.reached, self.outputs, self.wanted = compiled, reached, outputs, wanted
        self.again, self.random, self.layouts = again, random, layouts
        self.wiring: NodeWiring | None = None
        self.differentiable_passes = self.calls_as_captured = 0

    def __call__(self, *args: Any) -> Any:
        """Runs the graph and, where the call keeps a history, has its node call Backward."""
        if self.calls_as_captured and self.again is not None and torch.is_grad_enabled():
            self.calls_as_captured -= 1
            return self.again[0](*args)
        wiring = self.wiring
        edges = [gradient_edge(args[index]) for index in self.wanted] if wiring is None else []
        older = {node for arg in args for node in histories(arg)} if wiring is None else set()
        states = RandomStates(args) if self.random and self.again is not None else None
        results = self.compiled(*args)
        if wiring is None:
            wiring = self.wiring = self.learn(results, args, edges, older)
        if wiring.end >= 0:
            end = wiring.end - len(results)
            node = (results[end] if end < 0 else args[end]).grad_fn
            for _ in range(wiring.steps):
                node = node.next_functions[-1][0] if node is not None else None
            if type(node).__name__ != NODE:  # this call kept no history
                return results
            correct_gradients(node, Backward(self, wiring, args, states))
        return results

    def count_pass(self, differentiable: bool) -> None:
        """Counts differentiable backward passes in a row. After DIFFERENTIABLE_PASSES, calls run as
        captured; later, one more of them does it again."""
        self.differentiable_passes = self.differentiable_passes + 1 if differentiable else 0
        if self.differentiable_passes >= DIFFERENTIABLE_PASSES:
            self.differentiable_passes -= 1
            self.calls_as_captured = CALLS_AS_CAPTURED

    def learn(
        self,
        results: Sequence[Any],
        args: Sequence[Any],
        edges: Sequence[GradientEdge],
        older: Collection[Node],
    ) -> NodeWiring:
        """Finds the graph's autograd node behind its results. older: nodes that there were before
        the call; another compiled graph's may be among those behind them."""
        end, steps, found = -1, 0, None
        rows: dict[int, frozenset[int]] = {}
        own: dict[int, int] = {}
        rebuilt = False
        as_before = {
            self.outputs + index: edge.node for edge, index in zip(edges, self.wanted, strict=True)
        }
        for position, (tensor, reached) in enumerate(
            zip((*results, *args), self.reached, strict=True)
        ):
            if (
                reached is None
                or not isinstance(tensor, torch.Tensor)
                or tensor.grad_fn in (None, as_before.get(position))
            ):
                continue
            depth, node, number = find_compiled_node(tensor, older)
            if node is None:
                continue
            if found is None:
                end, steps, found = position, depth, node
            rows[number] = rows.get(number, frozenset()) | reached
            if depth or position >= self.outputs:
                rebuilt = True
            else:
                own[number] = position
        by_edge: dict[tuple[Node | None, int], int] = {
            (edge.node, edge.output_nr): index
            for edge, index in zip(edges, self.wanted, strict=True)
        }
        inputs = () if found is None else tuple(map(by_edge.get, found.next_functions))
        self.layouts.learn(results, args)
        copied = frozenset(range(len(args))) if self.again is None else self.again[1]
        versioned = [
            position
            for position, arg in enumerate(args)
            if position not in copied and isinstance(arg, torch.Tensor) and not arg.is_inference()
        ]
        return NodeWiring(end, steps, rows, inputs, own, rebuilt, versioned)


def gradient_edge(tensor: torch.Tensor) -> GradientEdge:
    """Where autograd puts the gradient of a tensor. (torch's function of this name makes a view of
    it, which not all subclasses have an operator for.)"""
    with torch.enable_grad():
        made: Any = UserWithoutData.apply(tensor)  # its node lives as long as this tensor
    return GradientEdge(*made.grad_fn.next_functions[0])


class UserWithoutData(torch.autograd.Function):
    """Has a node in the history behind a tensor, and does not read it."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(0)


def histories(arg: Any) -> list[Node]:
    """The nodes that made an argument and what it is a view of."""
    if not isinstance(arg, torch.Tensor) or not arg.requires_grad:
        return []
    nodes = [arg.grad_fn, arg._base.grad_fn if arg._is_view() and arg._base is not None else None]
    return [node for node in nodes if node is not None]


def find_compiled_node(
    tensor: torch.Tensor, older: Collection[Node]
) -> tuple[int, Node | None, int]:
    """Follows a tensor's history down to the compiled node: steps, the node (None: not found),
    which output of it. Of a write, the last of the next nodes is that of what was written."""
    node, number = tensor.grad_fn, tensor.output_nr
    for depth in range(8):
        if node is None or node in older:
            break
        if type(node).__name__ == NODE:
            return depth, node, number
        node, number = node.next_functions[-1] if node.next_functions else (None, 0)
    return 0, None, 0


class Backward:
    """Corrects the outgoing gradients of the autograd node."""

    def __init__(
        self,
        graph: CompiledNode,
        wiring: NodeWiring,
        args: Sequence[Any],
        states: RandomStates | None,
    ) -> None:
        self.graph, self.wiring, self.args, self.states = graph, wiring, args, states
        self.versions = wiring.read_versions(args)

    def __call__(
        self, left: Sequence[torch.Tensor | None], came: Sequence[torch.Tensor | None]
    ) -> tuple[torch.Tensor | None, ...]:
        """The gradients of the inputs, as eager's: None for those that no gradient of this pass
        reaches. `left`: what the node has computed; `came`: the gradients of its results."""
        wiring = self.wiring
        given = {number: grad for number in wiring.rows if (grad := came[number]) is not None}
        every = len(given) == len(wiring.rows)
        dropped = wiring.unreached if every else wiring.not_reached_from(given)
        grads = tuple(left)
        if dropped:
            grads = tuple(None if place in dropped else grad for place, grad in enumerate(left))
        if not self.args:  # freed by an earlier pass, of a graph that saves nothing
            if torch.is_grad_enabled():
                raise RuntimeError(MESSAGE)
            return grads
        self.graph.count_pass(differentiable=torch.is_grad_enabled())
        if torch.is_grad_enabled():
            if self.graph.again is not None and not wiring.rebuilt:
                return self.differentiable_gradients(given, grads)
            return self.refusing_gradients(given, grads)
        grads = self.graph.layouts.lay_out_like_eager(
            given, grads, wiring.inputs, self.args, wiring.own
        )
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            self.args = ()  # no further pass comes: free what eager frees
        return grads

    def differentiable_gradients(
        self, given: dict[int, torch.Tensor], grads: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The same gradients with a history: the graph runs again under eager's autograd."""
        assert self.graph.again is not None
        forward, copied = self.graph.again
        if self.versions != self.wiring.read_versions(self.args):
            raise RuntimeError(
                "an input of a compiled function was modified in place before its backward pass "
                "was differentiated"
            )
        args = [
            arg.detach().clone() if position in copied else arg
            for position, arg in enumerate(self.args)
        ]
        for index in self.graph.wanted:  # one may be made of another: each keeps its own share
            args[index] = args[index].view_as(args[index])
        with random_states_kept(args, self.states) if self.states else nullcontext():
            results = forward(*args)
        wanted = [
            index
            for index, grad in zip(self.wiring.inputs, grads, strict=True)
            if index is not None and grad is not None
        ]
        if not wanted:
            return grads
        outputs = [results[self.wiring.own[number]] for number in given]
        made = torch.autograd.grad(
            outputs,
            [args[index] for index in wanted],
            list(given.values()),
            create_graph=True,
            allow_unused=True,
        )
        fresh = dict(zip(wanted, made, strict=True))
        return tuple(
            grad if index not in fresh else fresh[index]
            for index, grad in zip(self.wiring.inputs, grads, strict=True)
        )

    def refusing_gradients(
        self, given: dict[int, torch.Tensor], grads: tuple[torch.Tensor | None, ...]
    ) -> tuple[torch.Tensor | None, ...]:
        """The same gradients with a history that raises when it is differentiated. The history of a
        compiler's own graph may lack inputs, so a derivative through it would silently lack
        terms."""
        numbers = [number for number, grad in enumerate(grads) if grad is not None]
        depends_on = [*given.values(), *(self.args[index] for index in self.graph.wanted)]
        made = RefusedDerivative.apply(
            len(numbers), *(grads[number] for number in numbers), *depends_on
        )
        found = list(grads)
        for number, grad in zip(numbers, made, strict=True):
            found[number] = grad
        return tuple(found)


class RefusedDerivative(torch.autograd.Function):
    """The gradients of a graph that cannot run a second time. Raises where these are differentiated
    themselves."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "framejit cannot differentiate the backward pass of this compiled function, which "
            "writes to inputs that it reads, or draws random numbers; call the function under "
            "framejit.disable() where second derivatives are taken"
        )
