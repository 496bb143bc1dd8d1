"""`torchscript`: the graph traced by torch.jit and optimised for inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .graph.data_dependent_sizes import has_data_dependent_sizes
from .graph.memory import memory_at
from .graph.mutations import is_data
from .graph.node_targets import name_of
from .graph.random_draws import draws_unread
from .graph.supported import line_of
from .graph.wrappers import has_wrappers
from .registry import register_backend

FORGOTTEN = (
    "detach", "detach_", "alias", "view_as", "set_", "set_data", "resize_", "resize_as_",
    "requires_grad_",
)  # fmt: skip


@register_backend("torchscript", training=False)
def torchscript(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *, report: Callable[[str], Any] = print
) -> Callable[..., Any]:
    """Parameters are attributes of the traced module, so that freezing folds what depends on them
    alone, as long as nothing writes to them: a call that finds one changed runs the graph as it is.
    A graph whose sizes are symbols runs in eager."""
    refused = reason_for_eager(gm, example_inputs)
    if refused:
        report(f"runs in eager: {refused}")
        return gm.forward
    written = [
        bool(node.meta.get("mutated")) for node in gm.graph.nodes if node.op == "placeholder"
    ]
    fixed = fixed_inputs(gm.graph, example_inputs, written)
    given = [index for index in range(len(example_inputs)) if index not in fixed]
    devices = sorted({item.device.index or 0 for item in example_inputs if item.is_cuda})
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices):
        warnings.simplefilter("ignore")  # torch.jit is old, and says so
        examples = [
            own_memory(example_inputs[index]) if written[index] else example_inputs[index].detach()
            for index in given
        ]
        whole = WithConstants(gm.forward, given, fixed).eval()
        try:
            traced = torch.jit.trace(whole, examples, check_trace=False)
        except Exception as error:
            # the program's own, or torch.jit's: eager raises it, or does not
            report(f"runs in eager: torch.jit cannot trace it: {type(error).__name__}")
            return gm.forward
        frozen = torch.jit.freeze(traced)
    # Traced code knows no modes: what it computes from a tensor with a gradient, where the graph
    # switches gradients off, would have a history. Where there is none, no_grad would only mark
    # views so that they cannot be written with gradients later.
    records = any(example_inputs[index].requires_grad for index in given)
    folded = torch.no_grad()(frozen) if records else frozen
    return FrozenScript(folded, gm.forward, given, fixed, new_views(gm.graph, given))


def fixed_inputs(
    graph: torch.fx.Graph, example_inputs: list[Any], written: list[bool]
) -> dict[int, torch.Tensor]:
    """The parameters that become constants of the traced graph, by position."""
    kept = [
        isinstance(item, torch.nn.Parameter) and not wrote
        for item, wrote in zip(example_inputs, written, strict=True)
    ]
    returned = returned_constants(graph, kept)
    return {
        index: item
        for index, item in enumerate(example_inputs)
        if kept[index] and index not in returned
    }


def reason_for_eager(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> str:
    """Why torch.jit cannot trace a graph; "" if it can."""
    if has_wrappers(gm):
        return "torch.jit does not trace wrapper subclasses"
    if any(
        not isinstance(item, torch.Tensor) or isinstance(item, FakeTensor)
        for item in example_inputs
    ):
        return "torch.jit traces with real tensors, and sizes of this graph are symbols"
    if has_data_dependent_sizes(gm):
        return "torch.jit makes constants of numbers that depend on values"
    strange = next(filter(traces_badly, gm.graph.nodes), None)
    if strange is not None:
        return f"torch.jit does not trace {name_of(strange)} as eager does it{line_of(strange)}"
    if any(not found for found in inputs_of_results(gm.graph)):
        return "a result depends on no input, and torch.jit makes it once for all calls"
    if draws_unread(gm.graph):
        return "torch.jit drops random numbers that are not used"
    return ""


class WithConstants(torch.nn.Module):
    """A graph some of whose inputs are the module's own tensors, as torch.jit.freeze wants them."""

    def __init__(
        self, run: Callable[..., Any], given: list[int], fixed: dict[int, torch.Tensor]
    ) -> None:
        super().__init__()
        self.run, self.given, self.fixed = run, given, list(fixed)
        for index, item in fixed.items():
            self.register_buffer(f"fixed_{index}", item.detach())

    def forward(self, *args: Any) -> Any:
        inputs = dict(zip(self.given, args, strict=True))
        inputs |= {index: getattr(self, f"fixed_{index}") for index in self.fixed}
        return self.run(*(inputs[index] for index in range(len(inputs))))


def traces_badly(node: torch.fx.Node) -> bool:
    """Whether a traced graph forgets what a node does: `.data`, detach() and lift() come back as
    the tensor itself, and writes through them, or through a view of another dtype, are lost."""
    if is_data(node) or name_of(node) in FORGOTTEN:
        return True
    return name_of(node) == "view" and any(
        isinstance(arg, torch.dtype) for arg in (*node.args[1:], *node.kwargs.values())
    )


def inputs_of_results(graph: torch.fx.Graph) -> list[set[int]]:
    """The positions of the inputs that each result is computed from."""
    inputs = {node: index for index, node in enumerate(graph.find_nodes(op="placeholder"))}
    reached: dict[torch.fx.Node, set[int]] = {}
    for node in graph.nodes:
        own = {inputs[node]} if node in inputs else set()
        reached[node] = own.union(*(reached[other] for other in node.all_input_nodes))
    return [reached[node] for node in graph.output_node().all_input_nodes]


def returned_constants(graph: torch.fx.Graph, kept: list[bool]) -> set[int]:
    """Positions of the kept inputs from which alone a result is computed. Folded, such a result
    would be one tensor for all calls, into which the program may write."""
    found = (inputs for inputs in inputs_of_results(graph) if all(kept[index] for index in inputs))
    return set().union(*found)


def new_views(graph: torch.fx.Graph, given: list[int]) -> list[int]:
    """Positions of the results that eager makes anew and torch.jit may replace by an input: it
    takes `x.t().t()` for x."""
    inputs = graph.find_nodes(op="placeholder")
    memory = {memory_at(inputs[index]) for index in given} - {None}
    results: Any = graph.output_node().args[0]
    return [
        place
        for place, node in enumerate(results)
        if isinstance(node, torch.fx.Node)
        and node.op != "placeholder"
        and memory_at(node) in memory
    ]


def own_memory(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides: tracing runs the graph, which writes into it."""
    made = torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return made.copy_(tensor.detach())


class FrozenScript:
    """Code with inputs folded into it. Once one of these inputs has changed, `fallback` runs
    instead."""

    def __init__(
        self,
        folded: Callable[..., Any],
        fallback: Callable[..., Any],
        given: list[int],
        fixed: dict[int, torch.Tensor],
        views: list[int],
    ) -> None:
        self.folded, self.fallback, self.given, self.views = folded, fallback, given, views
        self.fixed = {
            index: (item.data_ptr(), item.detach(), item._version) for index, item in fixed.items()
        }

    def __call__(self, *args: Any) -> Any:
        for index, (address, held, version) in self.fixed.items():
            if args[index].data_ptr() != address or held._version != version:
                return self.fallback(*args)
        given = [args[index] for index in self.given]
        made = self.folded(*given)
        results = list(made) if isinstance(made, tuple) else [made]
        for place in self.views:
            if any(results[place] is arg for arg in given):
                results[place] = torch.ops.aten.alias.default(results[place])
        return tuple(results)
