"""Why a captured graph cannot be recorded as a CUDA graph, in words that name the input or the
user's line."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
import torch.fx

from ...errors import RequirementError
from ...events import Reporter
from ..graph.extracted_calls import Checkpointed, CustomFunction, inner_nodes
from ..graph.mode_switches import ENTER_LEVEL
from ..graph.node_targets import name_of
from ..graph.overlapping_writes import as_strided_of_inputs
from ..graph.supported import is_opaque, line_of
from ..graph.wrappers import has_wrappers

# The host waits for a value, or a size depends on one.
WAITS = (
    "item", "tolist", "cpu", "numpy", "nonzero", "argwhere", "masked_select", "unique",
    "unique_consecutive", "bincount", "is_nonzero", "_local_scalar_dense", "allclose", "equal",
    "synchronize", "histc", "cholesky", "lstsq", "eig", "eigh", "eigvals", "eigvalsh",
)  # fmt: skip
# They change a tensor object, not only its numbers: a replay changes numbers only.
CHANGES_OBJECTS = (
    "resize_", "resize_as_", "set_", "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_",
    "unsqueeze_", "as_strided_", "detach_", "requires_grad_", "rename_", "set_data",
    "share_memory_", "_enter_inference_mode",
)  # fmt: skip


def check_recordable(gm: torch.fx.GraphModule, report: Reporter, require: bool) -> bool:
    """Whether a graph may be recorded; reports why not. Raises RequirementError where it must
    be."""
    reason = reason_not_recordable(gm)
    if reason:
        report.send_recorded(False, f"CUDA graphs: not recorded: {reason}")
        if require:
            raise RequirementError(
                f"CUDA graphs are required, but this graph cannot be recorded: {reason}"
            )
    return not reason


def reason_not_recordable(gm: torch.fx.GraphModule) -> str:
    """Why a graph cannot be recorded; "" if no reason is known before it is tried."""
    if has_wrappers(gm):
        return "its tensors are wrapper subclasses, which run Python"
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            reason = input_reason(node)
        elif node.op.startswith("call_"):
            reason = call_reason(node)
        else:
            continue
        if reason:
            return reason
    for node in chain.from_iterable(map(inner_nodes, gm.graph.nodes)):
        if isinstance(node.target, CustomFunction | Checkpointed) and wants_backward(node):
            return f"{name_of(node)} runs Python in its backward pass{line_of(node)}"
    for node in as_strided_of_inputs(list(gm.graph.nodes)):
        return f"as_strided may read memory around an input{line_of(node)}"
    return device_reason(gm)


def device_reason(gm: torch.fx.GraphModule) -> str:
    """Why a graph cannot be recorded on one CUDA device; "" if it can."""
    devices = {
        fake.device
        for node in gm.graph.nodes
        if isinstance(fake := fake_result(node), torch.Tensor) and fake.device.type == "cuda"
    }
    if not devices:
        return "nothing of the graph is on a CUDA device"
    return "its tensors lie on more than one CUDA device" if len(devices) > 1 else ""


def fake_result(node: torch.fx.Node) -> Any:
    """The fake result of a node of a captured or an ATen graph."""
    return node.meta.get("example_value", node.meta.get("val"))


def input_reason(node: torch.fx.Node) -> str:
    fake = fake_result(node)
    path = node.meta.get("path", node.name)
    if not isinstance(fake, torch.Tensor) or not node.users:
        return ""
    if fake.device.type != "cuda":
        return f"the input {path} is on the {fake.device.type}{line_of(next(iter(node.users)))}"
    if fake.is_sparse or fake.layout is not torch.strided:
        return f"the input {path} has layout {fake.layout}"
    return ""


def call_reason(node: torch.fx.Node) -> str:
    """Why a call cannot be recorded; "" if it can."""
    name = name_of(node).partition(".")[0]
    if name in WAITS:
        return f"{name} makes the host wait for the device{line_of(node)}"
    if name in CHANGES_OBJECTS or name in ENTER_LEVEL:
        return f"{name} does more than work on numbers{line_of(node)}"
    if (
        isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.cudagraph_unsafe in node.target.tags
    ):
        return f"torch says that {name} cannot be recorded{line_of(node)}"
    if "generator" in node.kwargs and node.kwargs["generator"] is not None:
        return f"{name} draws from a generator of the program's{line_of(node)}"
    if is_opaque(node):
        return f"nothing is known of {name}{line_of(node)}"
    fake = fake_result(node)
    if isinstance(fake, torch.Tensor) and fake.device.type != "cuda" and node.users:
        return f"{name} makes a tensor on the {fake.device.type}{line_of(node)}"
    if name in ("getitem", "index", "setitem", "index_put", "index_put_") and indexed_by_mask(node):
        return f"{name} by a mask of booleans makes the host wait for the device{line_of(node)}"
    if (
        name == "repeat_interleave"
        and "output_size" not in node.kwargs
        and any(is_tensor(arg) for arg in node.args[1:])
    ):
        return (
            "repeat_interleave without output_size makes the host wait for the device"
            f"{line_of(node)}"
        )
    return ""


def is_tensor(argument: object) -> bool:
    return isinstance(argument, torch.fx.Node) and isinstance(fake_result(argument), torch.Tensor)


def indexed_by_mask(node: torch.fx.Node) -> bool:
    fakes = [fake_result(other) for other in node.all_input_nodes[1:]]
    return any(
        isinstance(fake, torch.Tensor) and fake.dtype in (torch.bool, torch.uint8) for fake in fakes
    )


def wants_backward(node: torch.fx.Node) -> bool:
    fake = fake_result(node)
    return isinstance(fake, torch.Tensor) and fake.requires_grad
