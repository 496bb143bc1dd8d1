"""`inductor`: torch's own compiler, behind an adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx
from torch._inductor import config, list_mode_options
from torch._inductor.compile_fx import compile_fx
from torch._inductor.custom_graph_pass import CustomGraphPass

from .autograd.ahead_of_time import ahead_of_time
from .graph.gradient_history import gains_history
from .graph.passes.functional import prepare_for_tracing
from .registry import register_backend


@register_backend("inductor", options=config.get_config_copy, higher_order=True)
def inductor(
    gm: torch.fx.GraphModule,
    example_inputs: list[torch.Tensor],
    *,
    mode: str = "default",
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """torch._inductor's compile_fx on the captured graph; `mode` stands for patches of its
    configuration, `options` are more."""
    patches = {**list_mode_options(mode), **(options or {})}
    patches["joint_custom_pre_pass"] = KeepOverwritten(patches.get("joint_custom_pre_pass"))

    def build(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        if any(map(gains_history, gm.graph.find_nodes(op="placeholder"))):
            # inductor saves the memory for the backward pass, which has the new content then
            raise NotImplementedError("a write into an input that gives it a gradient")
        compiled = compile_fx(prepare_for_tracing(gm), example_inputs, config_patches=patches)
        assert callable(compiled)  # it returns sources and weights when it exports
        return compiled

    return ahead_of_time(gm, example_inputs, build, random_like_eager=False)


aten = torch.ops.aten
# these may use their second operand directly
SECOND = (aten.copy.default, aten.slice_scatter.default)


class KeepOverwritten(CustomGraphPass):
    """Works round a bug of inductor, for an input that is written at the end of a graph with
    another input's old content. Inductor drops copies and clones of inputs, then reads the input
    after its own write: swapping two tensors would make both equal. An operator that it does not
    drop preserves the old content: a choice between a tensor and itself, which keeps the bits of a
    NaN too. `then`: the program's own pass."""

    def __init__(self, then: Callable[[torch.fx.Graph], Any] | None = None) -> None:
        self.then = then

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Has each written value that another write may change read before the first write."""
        writes = [node for node in graph.nodes if node.target is aten.copy_.default]
        written = {node.args[0] for node in writes}
        for node in writes:
            target, value = node.args
            if self.may_be(value, written - {target}):
                if value.meta["val"].is_complex():
                    raise NotImplementedError("a comparison of complex numbers")
                with graph.inserting_before(writes[0]):
                    choice = graph.call_function(aten.eq.Tensor, (value, value))
                    kept = graph.call_function(aten.where.self, (choice, value, value))
                choice.meta.update(value.meta, val=value.meta["val"] == value.meta["val"])
                kept.meta.update(value.meta)
                node.update_arg(1, kept)
        if self.then is not None:
            self.then(graph)

    def may_be(self, value: torch.fx.Node, written: set[Any]) -> bool:
        """Whether a value may be one of the written inputs, unchanged."""
        while value.op != "placeholder":
            operands = value.all_input_nodes
            if value.target in SECOND:
                operands = operands[1:]
            if len(operands) != 1:
                return False
            (value,) = operands
        return value in written

    def uuid(self) -> Any:
        theirs = getattr(self.then, "uuid", None)
        if self.then is not None and theirs is None:
            return None
        return ("framejit: kept overwritten inputs", theirs and theirs())
