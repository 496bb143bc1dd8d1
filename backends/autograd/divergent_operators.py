"""Operators that would behave differently when compiled: other strides, other random numbers, other
statistics. Their nodes run as captured."""

from __future__ import annotations

import torch
import torch.fx

from ..graph.extracted_calls import Checkpointed
from ..graph.fake_values import fake_of
from ..graph.gradient_history import needs_gradient
from ..graph.mode_switches import ENTER_INFERENCE_MODE
from ..graph.mutations import is_norm, may_write, written_by
from ..graph.node_targets import RECURRENT_OPERATORS, name_of


def diverges_with_gradients(node: torch.fx.Node) -> bool:
    """Whether a node behaves otherwise than in eager when it is compiled with its backward pass."""
    return (
        diverges(node)
        or pins_sizes(node)
        or pins_floats(node)
        or passes_on_sparse_gradient(node)
        or (isinstance(node.target, Checkpointed) and node.target.writes)
    )


def diverges(node: torch.fx.Node) -> bool:
    """Whether a node behaves otherwise than in eager when it is compiled. (Tensors made in
    inference mode, for example, would not be marked as such.)"""
    return (
        name_of(node) == ENTER_INFERENCE_MODE
        or decomposes_badly(node)
        or is_traced_with_other_layouts(node)
        or keeps_wider_statistics(node)
        or depends_on_layout(node)
        or writes_a_list_with_gradients(node)
        or interpolates_bytes(node)
    )


def writes_a_list_with_gradients(node: torch.fx.Node) -> bool:
    """Whether a `_foreach_*_` operator writes tensors that have a history. Functional tensors do
    not count these writes, so views of what was written would keep their history from before. And
    of two writes into one tensor, eager may record only one. (Leaves, such as the parameters that
    an optimizer writes, have none.)"""
    if node.op != "call_function" or not name_of(node).startswith("_foreach_"):
        return False
    return any(needs_gradient(one) and not fake_of(one).is_leaf for one in written_by(node))


def interpolates_bytes(node: torch.fx.Node) -> bool:
    """Whether a node makes an image of bytes of another size, and a size varies. torch's operators
    round in fixed point; the decompositions, to which `whole_upsampling` leaves these, do not."""
    if "upsample" not in name_of(node) and name_of(node) != "interpolate":
        return False
    images = [fake_of(node), *map(fake_of, node.all_input_nodes)]
    sizes = [size for image in images for size in getattr(image, "shape", ())]
    return images[0].dtype == torch.uint8 and any(isinstance(size, torch.SymInt) for size in sizes)


# Operators of whose backward pass torch has a second formula for fake tensors, the gradients of
# which have other strides.
TWO_FORMULAS = frozenset({"linalg_householder_product", "orgqr", "ormqr"})


def is_traced_with_other_layouts(node: torch.fx.Node) -> bool:
    """Whether a trace of a node's backward pass lays out gradients otherwise than eager."""
    return name_of(node) in TWO_FORMULAS and any(map(needs_gradient, node.all_input_nodes))


# Operators that fill a tensor with random numbers. Of one that is not contiguous, the order in
# which they do, and the strides of a new one, are others in functional graphs and on fake tensors.
FILLS = frozenset(
    """bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_ dropout_
    alpha_dropout alpha_dropout_
    feature_alpha_dropout feature_alpha_dropout_ rrelu rrelu_ normal poisson _sample_dirichlet
    _standard_gamma""".split()
)


# Operators whose functional forms lay out results differently, or accept arguments that the
# operators refuse.
OTHER_STRIDES = frozenset(
    """channel_shuffle native_channel_shuffle native_dropout_backward native_group_norm max_unpool2d
    resize_ resize_as_""".split()
)


def depends_on_layout(node: torch.fx.Node) -> bool:
    """Whether the random numbers of a node, or the strides of its result, depend on the strides of
    its tensors, which are not contiguous, otherwise than a trace says."""
    name = name_of(node).partition(".")[0]
    if may_write(node) and not name.endswith("_"):  # with the argument `inplace`
        name += "_"
    if name not in FILLS | OTHER_STRIDES:
        return False
    fakes = map(fake_of, node.all_input_nodes)
    return any(isinstance(fake, torch.Tensor) and not fake.is_contiguous() for fake in fakes)


def keeps_wider_statistics(node: torch.fx.Node) -> bool:
    """Whether a normalisation on the CPU keeps its statistics for the backward pass in the
    parameters' dtype, which is wider than the input's: FakeTensor promises them in the input's, and
    a compiled backward pass would read them as such."""
    if not is_norm(node) or not needs_gradient(node):
        return False
    given = [fake for fake in map(fake_of, node.all_input_nodes) if isinstance(fake, torch.Tensor)]
    return given[0].device.type == "cpu" and any(
        other.dtype != given[0].dtype for other in given[1:]
    )


def passes_on_sparse_gradient(node: torch.fx.Node) -> bool:
    """Whether a node makes a sparse gradient of anything but one input of the graph, as it came in.
    Traces of what other operators do with such a gradient would read it as a dense one."""
    fake = fake_of(node)
    if not isinstance(fake, torch.Tensor) or fake._is_view():
        return False  # reading the history of a view may change it, or raise
    if not any(
        getattr(fake.grad_fn, name, False) for name in ("_saved_sparse", "_saved_sparse_grad")
    ):
        return False
    given = [one for one in node.all_input_nodes if isinstance(fake_of(one), torch.Tensor)]
    tables = [one for one in given if fake_of(one).is_floating_point()]
    return len(tables) != 1 or tables[0].op != "placeholder" or bool(tables[0].meta.get("mutated"))


# Operators whose backward pass in torch reads sizes as numbers: a trace of it holds for these
# alone.
SIZES_IN_BACKWARD = frozenset(
    """cumprod cumprod_ vander linalg_vander sgn sgn_ linalg_householder_product orgqr ormqr
    fractional_max_pool2d
    fractional_max_pool2d_with_indices""".split()
)


# The same for a float.
FLOATS_IN_BACKWARD = frozenset(
    """lerp lerp_ pow pow_ ipow __rpow__ celu celu_ norm vector_norm linalg_vector_norm
    dist scaled_dot_product_attention""".split()
)


def pins_floats(node: torch.fx.Node) -> bool:
    """Whether a trace of a node's backward pass would rely on a float that varies."""
    if name_of(node) not in FLOATS_IN_BACKWARD or not any(
        map(needs_gradient, node.all_input_nodes)
    ):
        return False
    return any(isinstance(fake_of(other), torch.SymFloat) for other in node.all_input_nodes)


def pins_sizes(node: torch.fx.Node) -> bool:
    """Whether a trace of a node's backward pass would rely on a size that varies."""
    if name_of(node) not in SIZES_IN_BACKWARD or not any(map(needs_gradient, node.all_input_nodes)):
        return False
    return any(
        isinstance(size, torch.SymInt)
        for other in node.all_input_nodes
        for size in getattr(fake_of(other), "shape", ())
    )


RECURRENT_NAMES = frozenset(operator.__name__ for operator in RECURRENT_OPERATORS)


def decomposes_badly(node: torch.fx.Node) -> bool:
    """Whether torch's own decomposition of a recurrent network on the CPU differs from the
    operator: dropout draws other numbers, and the backward pass of an LSTM lacks its workspace."""
    if (
        node.op != "call_function"
        or name_of(node) not in RECURRENT_NAMES
        or fake_of(node.args[0]).device.type != "cpu"
    ):
        return False
    # has_biases, num_layers, dropout, train
    first = next((index for index, arg in enumerate(node.args) if isinstance(arg, bool)), 0)
    drops = node.args[first + 2 : first + 4]
    return all(drops) or (name_of(node) == "lstm" and any(map(needs_gradient, node.users)))
