"""Differences between torch's versions: each is found out by trying what torch does, here and
nowhere else.

`probe_*` functions take what they ask about, so that a test can give them either answer; the
constants below them are the answers of the torch that is installed. What a torch lacks is listed in
`SWITCHED_OFF`, and the rest works without it.
"""

from __future__ import annotations

from typing import Any

import torch

# Features that are off where they do not work; a backend is one under the name that
# `backend_feature` gives.
TENSOR_LAYOUT = "guards on tensors in C"
MODE_FINGERPRINT = "guards on modes in C"
DYNAMIC_SIZES = "sizes that vary"
AUTOGRAD_FUNCTION = "torch.autograd.Function"
SWITCHED_OFF: dict[str, str] = {}  # why, by feature


def switch_off(feature: str, why: str) -> None:
    """Leaves out a feature for the rest of this process; the first reason given stays."""
    SWITCHED_OFF.setdefault(feature, why)


def backend_feature(name: str) -> str:
    """What a shipped backend is called in SWITCHED_OFF."""
    return f"backend {name}"


def probe_function_apply(function_class: type) -> Any:
    """What `torch.autograd.Function.apply` is before it is bound to a class: a function of
    Python's, or (2.15) a method of classes that is written in C."""
    apply = vars(function_class)["apply"]
    return getattr(apply, "__func__", apply)


FUNCTION_APPLY = probe_function_apply(torch.autograd.Function)
