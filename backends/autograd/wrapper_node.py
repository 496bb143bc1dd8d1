"""Runs the two graphs of inner tensors behind a captured graph on wrapper subclasses that gets
gradients: takes inputs and gradients apart, and makes results and gradients. To autograd, it is one
node of wrappers.

Unlike the function that aot_autograd makes, this one can be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ...records import record
from ..graph.wrappers import is_wrapper
from .aot_graph import AotGraph, AotPlan, Tangent
from .aot_plan import plan_of
from .wrapper_graph import (
    CannotRebuild,
    Forms,
    WrapperForm,
    count_parts,
    flatten_wrappers,
    group_names,
    guarded_group_names,
    put_together,
    readers_of,
)


@record
class TangentForm:
    """What the backward graph expects of a gradient, or of a part of one. cls: its class. metadata,
    parts: those of a wrapper. layout: sizes and strides; None for a part that is no
    tensor."""

    cls: type
    metadata: Any
    parts: tuple[tuple[str, TangentForm], ...]
    layout: Tangent | None

    @classmethod
    def described_by(cls, about: Any) -> TangentForm:
        """The form that aot_autograd's metadata describes."""
        laid = getattr(about, "memory_format", None)
        layout = laid and Tangent(0, laid.size, laid.stride, laid.memory_format)
        if not hasattr(about, "attrs"):
            return cls(torch.Tensor, None, (), layout)
        parts = tuple((name, cls.described_by(part)) for name, part in about.attrs.items())
        kind = about.original_subclass_type or type(about.original_subclass)
        return cls(kind, about.meta, parts, layout)

    def flatten(self, gradient: Any) -> list[Any]:
        """The parts of a gradient, each laid out as the graph expects it."""
        if self.layout is None or not isinstance(gradient, torch.Tensor):
            return [gradient]
        fitting: Any = self.layout.lay_out(self.of_this_class(gradient))
        if not self.parts:
            return [fitting]
        pairs = ((form, getattr(fitting, name)) for name, form in self.parts)
        return [leaf for form, part in pairs for leaf in form.flatten(part)]

    def of_this_class(self, gradient: Any) -> Any:
        """The gradient as an instance of the class with the metadata, made by its own class."""
        wraps = is_wrapper(type(gradient))
        metadata = gradient.__tensor_flatten__()[1] if wraps else None
        expected = self.cls if self.parts else torch.Tensor
        same = type(gradient) is expected if wraps or self.parts else True
        if same and metadata == self.metadata:
            return gradient
        coerce = getattr(gradient, "__coerce_same_metadata_as_tangent__", None)
        made = coerce and (coerce(self.metadata) if same else coerce(self.metadata, expected))
        if made is None:
            raise RuntimeError(
                f"the gradient of a compiled graph's result is a {type(gradient).__name__} with "
                f"metadata {metadata}, but the graph was compiled for a {expected.__name__} with "
                f"metadata {self.metadata}; the class can convert it in a method "
                "__coerce_same_metadata_as_tangent__"
            )
        return made


@record
class NodeForms:
    """The forms of what goes into a node's graphs and comes out of them: None where it is no
    wrapper. returned: what the forward graph returns, without what it saves. gradients: those of
    the inputs."""

    inputs: Forms
    returned: Forms
    tangents: Sequence[TangentForm]
    gradients: Forms


class WrapperNode(AotGraph):
    """A function of a captured graph's inputs."""

    def __init__(
        self,
        plan: AotPlan,
        forms: NodeForms,
        forward: Callable[..., Any],
        backward: Callable[..., Any] | None,
    ) -> None:
        super().__init__(plan, forward, backward)
        self.forms = forms
        self.readers = readers_of(forms.inputs)
        self.parts_returned = count_parts(forms.returned)

    def __reduce__(self) -> Any:
        return WrapperNode, (self.plan, self.forms, self.forward, self.backward)

    def call_forward(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        made = list(self.forward(*flatten_wrappers(args, self.readers)))
        end = self.parts_returned
        return put_together(self.forms.returned, made[:end]), made[end:]

    def call_backward(
        self, given: list[Any], gradients: Sequence[torch.Tensor | None]
    ) -> Sequence[Any]:
        for tangent, form in zip(self.plan.tangents, self.forms.tangents, strict=True):
            given += form.flatten(gradients[tangent.position])
        return put_together(self.forms.gradients, self.run_backward_graph(given))


@record
class InnerGraphs:
    """The forward and the backward graph of inner tensors behind a captured graph, and what they
    were compiled to."""

    captured: torch.fx.GraphModule
    forward_part: Any
    backward_part: Any
    forward: Callable[..., Any]
    backward: Callable[..., Any] | None


def wrapper_node(
    graphs: InnerGraphs, functions: Sequence[Any], keeps_writes: bool
) -> WrapperNode | None:
    """The function of a captured graph; None where aot_autograd's own has to run it. functions: the
    classes of autograd functions that were made meanwhile. That of aot_autograd holds metadata."""
    made = [one for one in functions if hasattr(one, "maybe_subclass_metadata")]
    if len(made) != 1 or made[0].maybe_subclass_metadata is None:
        return None
    about = made[0].metadata
    about.dynamic_outputs = False  # as in eager, results are not marked
    try:
        inputs, returned, gradients = (
            [WrapperForm.described_by(one) for one in some]
            for some in (
                about.subclass_inp_meta,
                about.subclass_fw_graph_out_meta,
                made[0].maybe_subclass_metadata.grad_input_metas,
            )
        )
    except CannotRebuild:
        return None
    tangents = [TangentForm.described_by(one) for one in about.subclass_tangent_meta]
    forms = NodeForms(inputs, returned, tangents, gradients)
    nodes = first_nodes(gradients, graphs.backward_part.graph.output_node().args[0])
    plan = plan_of(about, len(inputs), nodes, keeps_writes) if nodes is not None else None
    if plan is None or not is_supported(plan, forms, graphs):
        return None
    return WrapperNode(plan, forms, graphs.forward, graphs.backward)


def first_nodes(forms: Forms, nodes: Sequence[Any]) -> list[Any] | None:
    """Of the parts of each value, the first one's node; None where there are not as many nodes as
    parts."""
    if count_parts(forms) != len(nodes):
        return None
    starts = [count_parts(forms[:end]) for end in range(len(forms))]
    return [nodes[start] for start in starts]


def is_supported(plan: AotPlan, forms: NodeForms, graphs: InnerGraphs) -> bool:
    """Whether a WrapperNode runs the graphs as aot_autograd's function does, also in another
    process."""
    names = group_names(graphs.forward_part) | group_names(graphs.backward_part)
    inputs = graphs.captured.graph.find_nodes(op="placeholder")
    results = forms.returned[len(plan.writes) :]
    return (
        len(forms.inputs) == len(forms.gradients) == len(inputs)
        and len(forms.returned) == plan.count_returned
        and count_parts(forms.inputs) == len(graphs.forward_part.graph.find_nodes(op="placeholder"))
        and not any(form and view for form, view in zip(results, plan.views, strict=False))
        and not any(forms.returned[position] for position in plan.separate)
        and names <= guarded_group_names(graphs.captured)
    )
