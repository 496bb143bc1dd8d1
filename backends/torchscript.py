"""`torchscript`: the graph traced by torch.jit and optimised for inference."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .graph.mutations import is_data
from .graph.node_targets import name_of
from .graph.passes.memory import memory_at
from .graph.supported import at
from .registry import register_backend

FORGOTTEN = (
    "detach",
    "detach_",
    "alias",
    "view_as",
    "set_",
    "set_data",
    "resize_",
    "resize_as_",
    "requires_grad_",
)


@register_backend("torchscript", training=False)
def torchscript(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *, report: Callable[[str], Any] = print
) -> Callable[..., Any]:
    """Parameters are attributes of the traced module, so that freezing folds what depends on them
    alone, as long as nobody writes to them: a call that finds one changed runs the graph as it is.
    A graph whose sizes are symbols runs in eager."""
    if any(
        not isinstance(item, torch.Tensor) or isinstance(item, FakeTensor)
        for item in example_inputs
    ):
        report(
            "runs in eager: torch.jit traces with real tensors, and sizes of this graph are symbols"
        )
        return gm.forward
    strange = next(filter(traces_badly, gm.graph.nodes), None)
    if strange is not None:
        report(
            f"runs in eager: torch.jit does not trace {name_of(strange)} as eager does "
            f"it{at(strange)}"
        )
        return gm.forward
    written = [
        bool(node.meta.get("mutated")) for node in gm.graph.nodes if node.op == "placeholder"
    ]
    kept = [
        isinstance(item, torch.nn.Parameter) and not wrote
        for item, wrote in zip(example_inputs, written, strict=True)
    ]
    returned = returned_constants(gm.graph, kept)
    fixed: dict[int, torch.Tensor] = {
        index: item
        for index, item in enumerate(example_inputs)
        if kept[index] and index not in returned
    }
    given = [index for index in range(len(example_inputs)) if index not in fixed]
    count = len(example_inputs)

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for index, item in fixed.items():
                self.register_buffer(f"fixed_{index}", item.detach())

        def forward(self, *args: Any) -> Any:
            inputs: list[Any] = [None] * count
            for index, arg in zip(given, args, strict=True):
                inputs[index] = arg
            for index in fixed:
                inputs[index] = getattr(self, f"fixed_{index}")
            return gm.forward(*inputs)

    devices = sorted({item.device.index or 0 for item in example_inputs if item.is_cuda})
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices):
        warnings.simplefilter("ignore")  # torch.jit is old, and says so
        examples = [
            own_memory(example_inputs[index]) if written[index] else example_inputs[index].detach()
            for index in given
        ]
        try:
            traced = torch.jit.trace(Whole().eval(), examples, check_trace=False)
        except Exception as error:
            # the program's own, or torch.jit's: eager raises it, or does not
            report(f"runs in eager: torch.jit cannot trace it: {type(error).__name__}")
            return gm.forward
        frozen = torch.jit.freeze(traced)
    return FrozenScript(frozen, gm.forward, given, fixed, new_views(gm.graph, given))


def traces_badly(node: torch.fx.Node) -> bool:
    """Whether a traced graph forgets what a node does: `.data`, detach() and lift() come back as
    the tensor itself, and writes through them, or through a view of another dtype, are lost."""
    if is_data(node) or name_of(node) in FORGOTTEN:
        return True
    return name_of(node) == "view" and any(
        isinstance(arg, torch.dtype) for arg in (*node.args[1:], *node.kwargs.values())
    )


def returned_constants(graph: torch.fx.Graph, kept: list[bool]) -> set[int]:
    """Positions of the kept inputs on which alone a result depends. Folded, such a result would be
    one tensor for all calls, into which the program may write."""
    inputs = {node: index for index, node in enumerate(graph.find_nodes(op="placeholder"))}
    reached: dict[torch.fx.Node, set[int]] = {}
    for node in graph.nodes:
        own = {inputs[node]} if node in inputs else set()
        reached[node] = own.union(*(reached[other] for other in node.all_input_nodes))
    results = [reached[node] for node in graph.output_node().all_input_nodes]
    return set().union(*(found for found in results if all(kept[index] for index in found)))


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
    """Code that has inputs folded into it, while they are what they were; `otherwise` for the rest
    of the calls."""

    def __init__(
        self,
        folded: Callable[..., Any],
        otherwise: Callable[..., Any],
        given: list[int],
        fixed: dict[int, torch.Tensor],
        views: list[int],
    ) -> None:
        self.folded, self.otherwise, self.given, self.views = folded, otherwise, given, views
        self.fixed = {
            index: (item.data_ptr(), item.detach(), item._version) for index, item in fixed.items()
        }

    def __call__(self, *args: Any) -> Any:
        for index, (address, held, version) in self.fixed.items():
            if args[index].data_ptr() != address or held._version != version:
                return self.otherwise(*args)
        given = [args[index] for index in self.given]
        if any(arg.requires_grad for arg in given):
            with (
                torch.no_grad()
            ):  # traced code knows no modes, and what wants gradients comes elsewhere
                made = self.folded(*given)
        else:
            made = self.folded(
                *given
            )  # a view made under no_grad could not be written with gradients
        results = list(made) if isinstance(made, tuple) else [made]
        for place in self.views:
            if any(results[place] is arg for arg in given):
                results[place] = torch.ops.aten.alias.default(results[place])
        return tuple(results)
