"""Graph nodes that call extracted subgraphs: a custom autograd function or a checkpointed call.

In: nodes cut out of a graph under construction. Out: callables on tensors and on numbers that vary,
each one node's target.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch.autograd.function import once_differentiable
from torch.utils import checkpoint

from ...records import record
from .higher_order_call import HigherOrderCall
from .memory import is_strided
from .mutations import is_written

_numbers = itertools.count()


@record
class ExtractedGraph:
    """A graph made of nodes of another one. `inputs`: the nodes of the other graph that it takes,
    in order."""

    module: torch.fx.GraphModule
    inputs: tuple[torch.fx.Node, ...]

    @property
    def run(self) -> Callable[..., Any]:
        return self.module.forward


def extract_subgraph(
    nodes: Sequence[torch.fx.Node],
    inputs: Sequence[torch.fx.Node],
    outputs: Sequence[torch.fx.Node | None],
) -> ExtractedGraph:
    """Copies `nodes` into a graph of their own. Its inputs are `inputs`, then whatever else the
    nodes use; None stays None."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    order: list[torch.fx.Node] = []
    inside = set(nodes)
    used = [other for node in nodes for other in node.all_input_nodes] + [
        node for node in outputs if node is not None
    ]
    for node in (
        *inputs,
        *dict.fromkeys(other for other in used if other not in inside and other not in set(inputs)),
    ):
        placeholder = graph.placeholder(f"input_{len(order)}")
        placeholder.meta.update(node.meta)
        copies.setdefault(node, placeholder)
        order.append(node)
    for node in nodes:
        if node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(node if node is None else copies[node] for node in outputs))
    return ExtractedGraph(
        torch.fx.GraphModule({}, graph, class_name="ExtractedGraph"), tuple(order)
    )


class _Apply(torch.autograd.Function):
    """The call of a function that the program defined as an autograd.Function: its own forward and
    backward graphs, on one node."""

    @staticmethod
    def forward(ctx: Any, function: Any, *inputs: Any) -> Any:
        results = function.forward(*inputs)
        outputs = results[: function.outputs]
        everything = (*inputs, *results)
        saved = () if function.backward_pass is None else function.backward_pass.saved
        ctx.function, ctx.count = function, len(inputs)
        save_values(ctx, [everything[position] for position in saved])
        marks = function.marks
        ctx.mark_non_differentiable(*(outputs[position] for position in marks.fixed))
        ctx.mark_dirty(*(inputs[position] for position in marks.dirty))
        ctx.set_materialize_grads(marks.materialize)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        backward = ctx.function.backward_pass
        laid_out = [
            like_traced(grad, strides)
            for grad, strides in zip(grads, backward.strides, strict=True)
        ]
        made = backward.run(*laid_out, *saved_values(ctx))
        return None, *made, *(None,) * (ctx.count - len(made))


@record
class CustomBackward:
    """The backward pass of a custom autograd function. run: takes a gradient for each output and
    what was saved; returns a gradient for each of the first inputs. saved: positions among (all
    inputs, all results of forward). strides: the layout of the gradients that it was captured
    for."""

    run: Callable[..., Any]
    saved: tuple[int, ...]
    strides: Sequence[tuple[int, ...]]
    once: bool


@record
class ContextMarks:
    """What forward declared by its context. fixed: positions of outputs that are not
    differentiable. dirty: positions of inputs that forward writes and returns. materialize: whether
    missing gradients become zeros."""

    fixed: tuple[int, ...]
    dirty: tuple[int, ...]
    materialize: bool


class _TransformedApply(torch.autograd.Function):
    """The form that torch.func's transforms take. Only inputs and results are saved."""

    generate_vmap_rule = True

    @staticmethod
    def forward(function: Any, *inputs: Any) -> Any:
        return tuple(function.forward(*inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        function, *given = inputs
        everything = (*given, *output)
        ctx.function, ctx.count = function, len(given)
        save_values(ctx, [everything[position] for position in function.backward_pass.saved])
        ctx.mark_non_differentiable(*(output[position] for position in function.marks.fixed))
        ctx.set_materialize_grads(function.marks.materialize)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients keep their layouts, which are eager's: vmap could not copy into another."""
        made = ctx.function.backward_pass.run(*grads, *saved_values(ctx))
        return None, *made, *(None,) * (ctx.count - len(made))


def save_values(ctx: Any, values: Sequence[Any]) -> None:
    """Saves tensors and numbers for the backward pass."""
    ctx.save_for_backward(*(item if isinstance(item, torch.Tensor) else None for item in values))
    ctx.numbers = [None if isinstance(item, torch.Tensor) else item for item in values]


def saved_values(ctx: Any) -> list[Any]:
    """The tensors and numbers that forward saved."""
    return [
        tensor if number is None else number
        for tensor, number in zip(ctx.saved_tensors, ctx.numbers, strict=True)
    ]


class CustomFunction:
    """A torch.autograd.Function whose forward and backward run captured graphs.

    forward: takes all inputs, tensors and numbers that vary; returns `outputs` results, then the
    intermediates that backward needs. backward_pass: None if no gradient is wanted.
    """

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        outputs: int,
        marks: ContextMarks,
        backward_pass: CustomBackward | None,
    ) -> None:
        self.__name__ = f"{name}_{next(_numbers)}"
        once = backward_pass is not None and backward_pass.once
        passes = {"backward": staticmethod(once_differentiable(_Apply.backward))} if once else {}
        # its autograd nodes have the names of the program's function
        self.kind: Any = type(name, (_Apply,), passes)
        self.forward = forward
        self.outputs = outputs
        self.marks = marks
        self.backward_pass = backward_pass
        self.backward = None if backward_pass is None else backward_pass.run

    def __reduce__(self) -> Any:
        name = self.kind.__name__
        return type(self), (name, self.forward, self.outputs, self.marks, self.backward_pass)

    def __call__(self, *inputs: Any) -> Any:
        if torch.is_grad_enabled():
            return self.kind.apply(self, *inputs)
        results = self.forward(*inputs)[: self.outputs]
        same = [one for position, one in enumerate(inputs) if position not in self.marks.dirty]
        return tuple(
            returned_input(result) if any(result is one for one in same) else result
            for result in results
        )


class TransformedFunction(CustomFunction):
    """A torch.autograd.Function inside a torch.func transform: torch calls it once for each level.
    It has a backward pass, and saves no intermediates. called_at: the position before the
    outermost transform; a break is made there where the program changes later what the backward
    pass, which was traced at once, may read."""

    called_at = -1

    def __call__(self, *inputs: Any) -> Any:
        return _TransformedApply.apply(self, *inputs)


def returned_input(tensor: torch.Tensor) -> torch.Tensor:
    """An input that a function returned unchanged, as autograd sees it while recording no
    history."""
    return tensor.detach() if tensor.requires_grad else tensor.view_as(tensor)


def like_traced(grad: torch.Tensor | None, strides: tuple[int, ...]) -> torch.Tensor | None:
    """A gradient with the layout that the backward pass was captured for."""
    if grad is None:
        return None
    if not all(isinstance(stride, int) for stride in strides):
        return grad.contiguous()
    if grad.stride() == strides:
        return grad
    return torch.empty_strided(grad.shape, strides, dtype=grad.dtype, device=grad.device).copy_(
        grad
    )


class Checkpointed:
    """torch.utils.checkpoint.checkpoint over a captured graph: intermediates are recomputed in the
    backward pass. given: positions of the tensors that the program passed to checkpoint(), which
    checks whether they were written meanwhile. The program's function closes over the others; the
    backward pass uses their current content."""

    def __init__(
        self, run: Callable[..., Any], given: Sequence[int], options: dict[str, Any]
    ) -> None:
        self.__name__ = f"checkpointed_{next(_numbers)}"
        self.run, self.given, self.options = run, tuple(given), options

    def __call__(self, *inputs: Any) -> Any:
        def run(*given: torch.Tensor) -> Any:
            everything = list(inputs)
            for position, tensor in zip(self.given, given, strict=True):
                everything[position] = tensor
            return self.run(*everything)

        return checkpoint.checkpoint(
            run, *(inputs[position] for position in self.given), **self.options
        )

    @property
    def writes(self) -> bool:
        """Whether the graph may write its inputs: the backward pass would do so again."""
        graph: torch.fx.Graph = self.run.__self__.graph  # type: ignore[attr-defined]
        return any(
            is_strided(node) and is_written(node) for node in graph.find_nodes(op="placeholder")
        )


def inner_nodes(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """A node, and the nodes of the subgraphs that it calls, at all depths."""
    yield node
    target: Any = node.target
    runs: tuple[Any, ...] = ()
    if isinstance(target, CustomFunction):
        runs = (target.forward, target.backward)
    elif isinstance(target, Checkpointed):
        runs = (target.run,)
    elif isinstance(target, HigherOrderCall):
        runs = tuple(inner.forward for inner in target.subgraphs)
    for run in runs:
        if isinstance(module := getattr(run, "__self__", None), torch.fx.GraphModule):
            for inner in module.graph.nodes:
                yield from inner_nodes(inner)
