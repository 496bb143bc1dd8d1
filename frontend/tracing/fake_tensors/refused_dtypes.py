"""Operators for which torch has no kernel in some dtypes, which fake tensors do not check. The
capture breaks there, and torch raises its error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

# of their first argument
NO_BOOL = frozenset({
    "abs", "absolute", "addcdiv", "addcmul", "ceil", "clamp", "clip", "dot", "fix", "floor",
    "inner", "matmul", "__matmul__", "__rmatmul__", "multigammaln", "mv", "mvlgamma",
    "poisson_nll_loss", "relu", "round", "softsign", "tanhshrink", "trace", "trunc",
    "vdot",
})  # fmt: skip
NO_INTEGERS = frozenset({  # and no bool
    "_safe_softmax", "_safe_softmax.default", "_softmax_backward_data", "_threshold",
    "alpha_dropout", "celu", "dropout", "feature_alpha_dropout",
    "cross_entropy", "frac", "glu", "hardshrink", "hardsigmoid", "hardswish", "huber_loss",
    "hypot", "interpolate", "linear_cross_entropy", "log_ndtr", "log_sigmoid", "log_softmax",
    "logaddexp", "logaddexp2", "logsigmoid", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "mish", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "nextafter", "nll_loss", "prelu", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax",
    "softmin", "softplus", "std", "threshold", "upsample", "upsample_bilinear", "upsample_nearest",
    "var",
})  # fmt: skip
NO_COMPLEX = frozenset({
    "glu", "hardshrink", "huber_loss", "interpolate", "max_unpool1d", "max_unpool2d",
    "max_unpool3d", "mse_loss", "nanmean", "nansum", "nll_loss", "smooth_l1_loss",
    "upsample_nearest", "xlog1py", "xlogy",
})  # fmt: skip
NO_HALF = frozenset({"log_ndtr", "multi_margin_loss", "multilabel_margin_loss"})  # on the CPU
HALF = (torch.float16, torch.bfloat16)


def may_refuse_dtype(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether torch may have no kernel for the first argument of the operator of this name. Where a
    `dtype` is given, the operator converts it first."""
    name = name.removeprefix("special_")
    first = args[0] if args else kwargs.get("input")
    if not isinstance(first, torch.Tensor) or kwargs.get("dtype") is not None:
        return False
    if first.is_floating_point():
        return name in NO_HALF and first.dtype in HALF and first.device.type == "cpu"
    if first.is_complex():
        return name in NO_COMPLEX
    return name in NO_INTEGERS or (name in NO_BOOL and first.dtype == torch.bool)
