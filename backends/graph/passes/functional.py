"""A captured torch-level graph to a functional ATen graph, for inference: no autograd, no run-time
wrappers.

Writes to inputs become copies at the end; views stay views, with eager's strides. Graphs that this
cannot express (an output that shares memory with a written input, operators that change a tensor's
shape in place) are reported by `needs_wrappers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor

from ..memory import memory_at
from ..mode_switches import ENTER_LEVEL
from ..mutations import is_data
from ..node_targets import name_of
from ..number_arguments import takes_varying_number
from ..runtime_errors import raises_unread
from ..supported import line_of
from ..tracing_lock import trace_operators
from .by_operator import by_operator
from .in_place_layouts import keep_layouts
from .result_layouts import lay_out_results

RESHAPES_IN_PLACE = (
    "t_", "transpose_", "squeeze_", "unsqueeze_", "resize_", "resize_as_", "swapaxes_", "swapdims_",
    "as_strided_", "set_", "detach_", "requires_grad_", "sparse_resize_",
)  # fmt: skip

# they need an autograd history, which a functional trace does not keep
AUTOGRAD = ("grad", "backward")
# torch's message for written inputs
OVERLAPPING = ("refers to a single memory location", "has internal overlap")
# operators for which functionalize() in C++ has no functional form
IN_PLACE_ONLY = ("fill_diagonal_",)


def functional(
    gm: torch.fx.GraphModule, decompositions: Mapping[Any, Callable[..., Any]]
) -> torch.fx.GraphModule:
    """The graph as ATen operators that do not write, except `copy_` to inputs at the end. Raises
    NotImplementedError where there is none."""

    def trace(function: Callable[..., Any], inputs: Sequence[Any]) -> torch.fx.GraphModule:
        def run(*args: Any) -> Any:
            # whatever grad mode the graph leaves: writes to inputs come after it
            with torch.no_grad():
                return function(*args)

        # In inference mode torch does not take composite operators apart that write (relu6_).
        with torch.inference_mode(False), torch.no_grad():
            usual = [outside_inference(example) for example in inputs]
            return trace_operators(without_writes(run), usual, decompositions)

    if any(name_of(node) in AUTOGRAD for node in gm.graph.nodes):
        raise NotImplementedError("autograd runs inside the graph")
    gm = prepare_for_tracing(gm)
    examples = fakes(gm)
    mode = next(example.fake_mode for example in examples if isinstance(example, FakeTensor))
    try:
        with torch.no_grad(), mode, enable_python_dispatcher():
            # An interpreter, so that a guard on a size can be reported with the node that adds it.
            traced = by_operator(gm, trace) or trace(torch.fx.Interpreter(gm).run, examples)
            traced = separate_equal_views(gm, traced)
            lay_out_results(gm, traced)
            return traced
    except RuntimeError as error:
        if not any(said in str(error) for said in OVERLAPPING):
            raise
        raise NotImplementedError("a write into a tensor whose elements share memory") from error


def outside_inference(example: Any) -> Any:
    """A fake tensor with the same metadata that was not made in inference mode; anything else as it
    is."""
    if not isinstance(example, torch.Tensor) or not example.is_inference():
        return example
    with torch.inference_mode(False):
        memory = torch.empty(
            example.untyped_storage().nbytes() // example.element_size(),
            dtype=example.dtype,
            device=example.device,
        )
        return memory.as_strided(example.size(), example.stride(), example.storage_offset())


def prepare_for_tracing(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph, or a copy that leaves tensors laid out as eager does, for a tracer of functional
    graphs. Raises NotImplementedError where that would drop an operator that may raise, or fix a
    number that varies."""
    if raises_unread(gm.graph):
        raise NotImplementedError(
            "a functional graph drops operators whose results nobody reads, and one of them may "
            "raise"
        )
    for node in filter(takes_varying_number, gm.graph.nodes):
        raise NotImplementedError(f"{name_of(node)} with a number that varies{line_of(node)}")
    return keep_layouts(gm)


def separate_equal_views(
    gm: torch.fx.GraphModule, traced: torch.fx.GraphModule
) -> torch.fx.GraphModule:
    """Where two results are two tensors on the same memory with the same layout, separates them in
    the functional graph as well: the program may change the shape of one of them."""
    (ours,), (theirs,) = gm.graph.output_node().args, traced.graph.output_node().args
    if not isinstance(ours, tuple | list) or not isinstance(theirs, tuple | list):
        return traced
    first: dict[Any, Any] = {}
    apart = list(theirs)
    for position, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(other, torch.fx.Node) and first.setdefault(other, mine) is not mine:
            with traced.graph.inserting_before(traced.graph.output_node()):
                apart[position] = traced.graph.call_function(torch.ops.aten.alias.default, (other,))
            apart[position].meta.update(other.meta)
    if apart != list(theirs):
        traced.graph.output_node().args = (type(theirs)(apart),)
        traced.recompile()
    return traced


def without_writes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors and numbers that calls no operator that writes, except `copy_` to its
    arguments at the end. Views stay views. (torch.func.functionalize does the same inside a
    functorch level, where some operators, linear among them, specialise sizes.)"""

    def run(*args: Any) -> Any:
        """Calls `function` with functional tensors, and writes into the arguments at the end."""
        wrapped = [
            torch._to_functional_tensor(arg) if isinstance(arg, torch.Tensor) else arg
            for arg in args
        ]
        torch._enable_functionalization(reapply_views=True)
        try:
            made = pytree.tree_map_only(torch.Tensor, current_tensor, function(*wrapped))
            new = [current_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in wrapped]
        finally:
            torch._disable_functionalization()
        for before, after in zip(args, new, strict=True):
            if after is not before:
                before.copy_(after)
        return made

    return run


def current_tensor(wrapped: torch.Tensor) -> torch.Tensor:
    """The current value of a functional tensor, including all writes."""
    if not torch._is_functional_tensor(wrapped):
        return wrapped
    torch._sync(wrapped)
    return torch._from_functional_tensor(wrapped)


def fakes(gm: torch.fx.GraphModule) -> list[Any]:
    """The graph's inputs as fake tensors, and sizes."""
    return [node.meta["example_value"] for node in gm.graph.nodes if node.op == "placeholder"]


def needs_wrappers(gm: torch.fx.GraphModule) -> bool:
    """Whether aliasing or changes of shape need aot_autograd's run-time wrappers."""
    if any(
        name_of(node) in RESHAPES_IN_PLACE + ENTER_LEVEL + IN_PLACE_ONLY for node in gm.graph.nodes
    ):
        return True
    written = {
        memory_at(node)
        for node in gm.graph.nodes
        if node.op == "placeholder" and node.meta.get("mutated")
    } - {None}
    # writes through x.data change no version counter
    written |= {memory_at(node) for node in gm.graph.nodes if is_data(node)} - {None}
    outputs = gm.graph.output_node().all_input_nodes
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    shared = any(memory_at(node) in written for node in outputs if node.op != "placeholder")
    among_inputs = any(
        memory_at(node) in written and not node.meta.get("mutated") for node in inputs
    )
    return shared or among_inputs
