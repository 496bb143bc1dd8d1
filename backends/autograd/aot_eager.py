"""`aot_eager`: forward and backward as functional ATen graphs, run by torch's own kernels.

Also calls aot_autograd, for graphs that cannot be assembled operator by operator (joint_graph.py).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, cast

import torch._functorch.config as functorch_config
import torch.fx
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.utils.checkpoint import CheckpointPolicy

from ..graph.gradient_history import gains_history, values_that_eager_frees
from ..graph.passes.result_layouts import lay_out_results
from ..graph.tracing_lock import tracing_lock
from ..graph.whole_upsampling import whole_upsampling
from ..graph.wrappers import has_wrappers
from ..registry import Backend, register_backend
from .aot_graph import AotGraph
from .aot_plan import plan_of
from .autograd_function import without_base
from .batched_backward import with_batches
from .graph_parts import Compile, GraphPart, compile_forward_and_backward
from .min_cut import compared_values, is_view_or_item
from .wrapper_graph import wrapper_graph
from .wrapper_node import InnerGraphs, wrapper_node

TENSORIFY = "TENSORIFY_PYTHON_SCALARS"  # torch's own switch; it is read whenever a graph is traced


def compile_with_aot_autograd(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    compile_part: Compile,
    keep_writes: bool,
    decompositions: Mapping[Any, Callable[..., Any]],
) -> Callable[..., Any]:
    """Compiles with aot_autograd; see compile_forward_and_backward."""
    parts = AotParts(gm, compile_part)
    before = set(torch.autograd.Function.__subclasses__())
    with (
        tracing_lock,
        whole_upsampling(),
        numbers_kept,
        functorch_config.patch(force_non_lazy_backward_lowering=True),
        without_trace_log() if has_wrappers(gm) else nullcontext(),
    ):
        made = aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=cast(Any, parts.compile_forward),
            bw_compiler=cast(Any, parts.compile_backward),
            partition_fn=parts.partition,
            keep_inference_input_mutations=keep_writes,
            decompositions=dict(decompositions),
        )
    expected = 0 if parts.results is None else 1
    if parts.forward is None or len(parts.backwards) != expected:
        return made
    part, backward = parts.backwards[0] if parts.backwards else (None, None)
    if not has_wrappers(gm):
        gradients: Any = None if part is None else part.graph.output_node().args[0]
        inputs = len(gm.graph.find_nodes(op="placeholder"))
        plan = plan_of(parts.about, inputs, gradients, keep_writes)
        return made if plan is None else AotGraph(plan, parts.forward, backward)
    if part is None:
        return wrapper_graph(gm, parts.part, parts.forward, parts.about) or made
    graphs = InnerGraphs(gm, parts.part, part, parts.forward, backward)
    new = [one for one in torch.autograd.Function.__subclasses__() if one not in before]
    return wrapper_node(graphs, new, keep_writes) or made


class AotParts:
    """The callbacks that aot_autograd calls while it compiles a graph, and their results: the
    compiled forward graph, backward graphs with their compiled forms, how many results the forward
    graph has before what it saves (None without gradients), and aot_autograd's metadata."""

    def __init__(self, gm: torch.fx.GraphModule, compile_part: Compile) -> None:
        self._gm, self._compile_part = gm, compile_part
        self.forward: Callable[..., Any] | None = None
        self.part: torch.fx.GraphModule | None = None  # of which it was made
        self.backwards: list[tuple[torch.fx.GraphModule, Callable[..., Any]]] = []
        self.results: int | None = None
        self.about: Any = None

    def partition(
        self, joint: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **more: Any
    ) -> Any:
        """Splits a joint graph into a forward and a backward graph."""
        self.results = num_fwd_outputs
        drop_policies(joint)
        freed = made_from_values_that_eager_frees(self._gm, joint.graph, num_fwd_outputs)
        for node in compared_values(joint.graph.nodes) | freed:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        for split in (min_cut_rematerialization_partition, default_partition):
            try:
                parts = split(joint, inputs, num_fwd_outputs=num_fwd_outputs, **more)
                keep_old_content(self._gm, parts[0], num_fwd_outputs)
                return parts
            except AssertionError:
                # for example a dynamic float, which backward needs and forward cannot save
                continue
        raise NotImplementedError("this graph cannot be split into a forward and a backward part")

    def compile_forward(self, part: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        self.about = leave_results_unmarked()
        if self.about is not None and not has_wrappers(self._gm):
            written = len(self.about.mutated_inp_runtime_indices)  # these results come first
            lay_out_results(self._gm, part, written)
        count = self.results
        compiled = self._compile_part(GraphPart(self._gm, part, examples, False, count))
        self.forward, self.part = compiled, part
        return make_boxed_func(compiled if count is None else with_whole_results(compiled, count))

    def compile_backward(self, part: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        compiled = with_batches(self._compile_part, GraphPart(self._gm, part, examples, True))
        self.backwards.append((part, compiled))
        return compiled if getattr(compiled, "_boxed_call", False) else make_boxed_func(compiled)


def made_from_values_that_eager_frees(
    gm: torch.fx.GraphModule, joint: torch.fx.Graph, results: int
) -> set[torch.fx.Node]:
    """Values that the forward pass computes from inputs and results which eager's backward pass
    does not read. They must not be recomputed: the program may write into these inputs and results
    before the backward pass, as into activations and running statistics. gm: the captured graph of
    the joint graph."""
    behind: set[torch.fx.Node] = set()  # a gradient of a result
    inputs = []
    for node in joint.nodes:
        if node.op == "placeholder" and "tangents" not in node.name:
            inputs.append(node)
        elif node.op == "placeholder" or not behind.isdisjoint(node.all_input_nodes):
            behind.add(node)
    captured = gm.graph.find_nodes(op="placeholder")
    if len(captured) == len(inputs):  # else inputs were merged, or wrappers taken apart
        freed = values_that_eager_frees(gm.graph)
        inputs = [node for node, old in zip(inputs, captured, strict=True) if old in freed]
    ends: Any = joint.output_node().args[0]
    found = set()
    for node in (*inputs, *ends[:results]):
        is_tensor = isinstance(node, torch.fx.Node) and isinstance(
            node.meta.get("val"), torch.Tensor
        )
        users = readers(node) if is_tensor else set()
        if behind.isdisjoint(users):
            found |= users
    return found


def readers(node: torch.fx.Node) -> set[torch.fx.Node]:
    """The nodes that read a node or a view of it, other than as a view."""
    found = set()
    todo = [node]
    while todo:
        for user in todo.pop().users:
            if user.op == "call_function":
                todo.append(user) if is_view_or_item(user) else found.add(user)
    return found


def drop_policies(joint: torch.fx.GraphModule) -> None:
    """Removes the policies of selective checkpoints from nodes: the partitioner decides which
    values are saved."""
    for node in joint.graph.nodes:
        for key in ("recompute", "ac_graph_id"):
            node.meta.pop(key, None)


@contextmanager
def without_trace_log() -> Iterator[None]:
    """Suppresses torch's structured log, which prints fake wrappers: their classes may be unable
    to, or read sizes that vary."""
    log = logging.getLogger("torch.__trace")
    handlers, log.handlers = log.handlers, []
    try:
        yield
    finally:
        log.handlers = handlers


def with_whole_results(compiled: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Wraps a compiled forward graph so that none of its `count` results is a view to autograd:
    autograd forbids writing to views that a compiled function returns."""

    def call(*args: Any) -> Any:
        made = compiled(*args)
        return [*map(without_base, made[:count]), *made[count:]]

    return call


def leave_results_unmarked() -> Any:
    """Prevents aot_autograd from marking dynamic sizes on result tensors, which it does for torch's
    own capture. Eager's results carry no such attribute. Returns its metadata."""
    context = TracingContext.try_get()
    about = context.fw_metadata if context is not None else None
    if about is not None and hasattr(about, "dynamic_saved_tensors_idxs"):
        about.dynamic_saved_tensors_idxs = {}
        about.dynamic_outputs = False
        about.output_info[:] = [replace(result, dynamic_dims=None) for result in about.output_info]
    return about


def keep_old_content(gm: torch.fx.GraphModule, forward: torch.fx.GraphModule, results: int) -> None:
    """Copies inputs that the forward graph saves for the backward graph (after its `results`) and
    overwrites at its end."""
    captured, inputs = (graph.find_nodes(op="placeholder") for graph in (gm.graph, forward.graph))
    if len(captured) != len(inputs):
        return
    written = {made for node, made in zip(captured, inputs, strict=True) if gains_history(node)}
    output = forward.graph.output_node()
    handed_on: Any = output.args[0]
    copies = {}
    with forward.graph.inserting_before(output):
        for node in written.intersection(handed_on[results:]):
            copies[node] = insert_copy(forward.graph, node)
    if copies:
        output.args = (
            (*handed_on[:results], *(copies.get(node, node) for node in handed_on[results:])),
        )
        forward.recompile()


def insert_copy(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    """Inserts a copy of a node with the same strides, gaps included, since the backward graph was
    traced for these. Raises NotImplementedError where there are gaps and sizes vary."""
    val = node.meta["val"]
    layout = (list(val.shape), list(val.stride()))
    if list(map(str, val.clone().stride())) == list(map(str, layout[1])):
        copy = graph.call_function(torch.ops.aten.clone.default, (node,))
    elif any(isinstance(number, torch.SymInt) for part in layout for number in part):
        raise NotImplementedError("a copy of an input with gaps whose sizes vary")
    else:
        empty = graph.call_function(torch.ops.aten.new_empty_strided.default, (node, *layout))
        empty.meta = {**node.meta, "val": val.new_empty_strided(*layout)}
        copy = graph.call_function(torch.ops.aten.copy.default, (empty, node))
    copy.meta = {**node.meta, "val": val.new_empty_strided(*layout)}
    return copy


class KeepNumbers:
    """While any thread is inside, dynamic floats stay arguments of operators. By itself,
    aot_autograd puts some of them into tensors, which rounds differently from eager, and
    specialises the others, so that a learning rate schedule would recompile at every step."""

    def __init__(self) -> None:
        # a garbage collection here may run a finalizer that compiles
        self._lock = threading.RLock()
        self._inside = 0
        self._before: str | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = os.environ.get(TENSORIFY)
                os.environ[TENSORIFY] = "0"
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                os.environ.pop(TENSORIFY)
                os.environ.update({} if self._before is None else {TENSORIFY: self._before})


numbers_kept = KeepNumbers()


def by_way_of_aten(backend: Backend) -> Callable[..., Any]:
    """Turns a backend of ATen graphs into a backend of captured graphs."""

    def compile_whole(
        gm: torch.fx.GraphModule, example_inputs: list[Any], **extra: Any
    ) -> Callable[..., Any]:
        def compile_part(part: GraphPart) -> Callable[..., Any]:
            return backend.function(part.module(), part.examples, **extra)

        return compile_forward_and_backward(
            gm, example_inputs, compile_part, random_like_eager=False
        )

    return compile_whole


@register_backend("aot_eager")
def aot_eager(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Forward and backward as ATen graphs that run uncompiled."""
    return compile_forward_and_backward(
        gm,
        example_inputs,
        lambda part: part.module().forward,
        random_like_eager=True,
        settings="aot_eager",
    )
