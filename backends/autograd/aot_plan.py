"""The AotPlan of a graph that aot_autograd has traced, made of aot_autograd's metadata.

Some graphs need more around them (random states as arguments, written metadata). These have no
plan; the function that aot_autograd makes runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .aot_graph import AotPlan, InputWrite, ResultView, Tangent

OF_INPUT = ("alias_of_input", "is_input")
OF_BASE = ("alias_of_intermediate", "alias_of_intermediate_save_as_output")
OF_RESULT = "alias_of_intermediate_base_is_user_output"
SEPARATE = "unsafe_view_alias"
UNALIASED = ("non_alias", SEPARATE, "custom_function_view")


def plan_of(
    about: Any, inputs: int, gradients: Sequence[Any] | None, keeps_writes: bool
) -> AotPlan | None:
    """The plan for a captured graph of so many inputs; None where there is none. Wrappers among
    inputs and results count as one each (wrapper_node.py). about: aot_autograd's metadata.
    gradients: the nodes of the backward graph that are the inputs' gradients; None without such a
    graph. keeps_writes: the graphs contain the writes into inputs."""
    try:
        hides_writes = keeps_writes and gradients is not None
        simple = about is not None and is_simple(about, inputs, hides_writes)
        return make_plan(about, gradients) if simple else None
    except AttributeError:  # another version of torch describes it otherwise
        return None


def make_plan(about: Any, gradients: Sequence[Any] | None) -> AotPlan:
    """The plan, as far as an AotPlan can express the metadata."""
    written = [about.input_info[position] for position in about.mutated_inp_runtime_indices]
    writes = [
        InputWrite(position, about.input_info[position].is_leaf)
        for position in about.mutated_inp_runtime_indices
    ]
    views = tuple(view_of(info, len(about.output_info)) for info in about.output_info)
    first = len(writes)
    seen = [*written, *about.output_info]
    return AotPlan(
        writes=tuple(writes),
        results=len(about.output_info),
        bases=about.num_intermediate_bases,
        objects=about.num_opaque_objects_saved_for_bw or 0,
        numbers=about.num_symints_saved_for_bw or 0,
        views=views,
        separate=tuple(
            position
            for position, info in enumerate(about.output_info, first)
            if info.output_type.name == SEPARATE
        ),
        without_gradient=tuple(
            position for position, info in enumerate(seen) if not info.requires_grad
        ),
        tangents=tangents_of(about) if gradients is not None else (),
        detached=detached_inputs(about, gradients) if gradients is not None else (),
    )


def is_simple(about: Any, inputs: int, hides_writes: bool) -> bool:
    """Whether an AotPlan can express everything in the metadata. hides_writes: autograd has to be
    informed of writes into inputs that the graphs contain."""
    written = [about.input_info[position] for position in about.mutated_inp_runtime_indices]
    return (
        # else aot_autograd has joined inputs that share memory
        len(about.input_info) == inputs
        and not any(info.mutates_metadata or not info.mutates_data for info in written)
        and not (hides_writes and about.mutated_graph_handled_indices_seen_by_autograd)
        and not about.indices_of_inputs_that_requires_grad_with_mutations_in_bw
        and not (about.tokens or about.num_backward_tokens)
        and not (about.is_rng_op_functionalized or about.num_graphsafe_rng_states)
        and not about.num_tensors_saved_with_no_vc_check
        and not any(about.mutated_inp_stream_indices or ())
        and about.grad_enabled_mutation is None
        and not about.dynamic_outputs
    )


def view_of(info: Any, results: int) -> ResultView | None:
    """The view that a result is; None for one with memory of its own. results: their number; the
    bases of views come after them."""
    kind = info.output_type.name
    if kind in UNALIASED:
        return None
    assert kind in (*OF_INPUT, *OF_BASE, OF_RESULT)
    base = info.base_idx + (results if kind in OF_BASE else 0)
    # A result that was detached is one with equal sizes and strides on the same memory. Its
    # recorded steps begin at another tensor than that one, where that is itself a view.
    detached = kind == OF_RESULT and not info.requires_grad
    steps = () if detached else steps_of(info)
    return ResultView(base, kind in OF_INPUT, kind == "is_input", info.requires_grad, steps)


def steps_of(info: Any) -> tuple[Any, ...] | None:
    """The views from a base to a result; None where their arguments are sizes that vary."""
    found = info.view_meta_sequence
    if found is None or any(step.has_symbolic_inputs for step in found.sequence):
        return None
    return tuple(found.sequence)


def tangents_of(about: Any) -> tuple[Tangent, ...]:
    """The gradients that the backward graph takes: of written inputs, of results, of bases."""
    first = len(about.mutated_inp_runtime_indices)
    end = first + len(about.output_info)
    positions = [
        *(
            number
            for number, position in enumerate(about.mutated_inp_runtime_indices)
            if about.input_info[position].requires_grad
        ),
        *(
            number
            for number, info in enumerate(about.output_info, first)
            if info.output_type.name in UNALIASED
            and issubclass(info.raw_type, torch.Tensor)
            and getattr(info, "requires_grad_for_backward", info.requires_grad)  # torch 2.12 on
        ),
        *range(end, end + about.num_intermediate_bases),
    ]
    return tuple(
        Tangent(position, laid.size, laid.stride, laid.memory_format)
        for position, laid in zip(
            positions, (item.memory_format for item in about.subclass_tangent_meta), strict=True
        )
    )


def detached_inputs(about: Any, gradients: Sequence[Any]) -> tuple[int, ...]:
    """Positions of inputs that require a gradient and get none, although another tensor was made
    of them: their history must not be kept alive."""
    return tuple(
        position
        for position, (gradient, info) in enumerate(zip(gradients, about.input_info, strict=True))
        if gradient is None and info.requires_grad and not info.is_leaf
    )
