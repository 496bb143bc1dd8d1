"""Operators that need no guard on whether a size is 0 or 1: such a size changes neither the rank of
their result nor which elements are combined, and strides are computed by torch at run time."""

from __future__ import annotations

from typing import Any

from .node_targets import target_name

OBLIVIOUS = frozenset(
    (
        "view reshape flatten unflatten transpose permute t unsqueeze add sub mul div true_divide "
        "truediv neg abs exp log log2 log1p sqrt "
        "rsqrt sin cos tan tanh sigmoid relu gelu silu erf pow clamp where maximum minimum add_ "
        "sub_ mul_ div_ relu_ iadd isub imul "
        "itruediv lt le gt ge eq ne logical_and logical_or logical_not softmax log_softmax "
        "layer_norm group_norm rms_norm batch_norm "
        "linear matmul mm bmm baddbmm addmm embedding dropout sum mean var std amax amin max min "
        "argmax argmin cat float double half bfloat16 int long bool to "
        "type_as detach clone masked_fill softplus leaky_relu elu selu hardtanh hardswish "
        "hardsigmoid mish sign floor ceil round "
        "reciprocal square "
    ).split()
)


def is_size_oblivious(target: Any) -> bool:
    """Whether a node's target, a function or a method's name, is such an operator."""
    return target_name(target) in OBLIVIOUS
