"""DistributedDataParallel: Python runs its forward, which is bookkeeping for its reducer. The
module inside is compiled."""

from __future__ import annotations

import torch
from torch.nn.parallel import DistributedDataParallel

from ..values.objects.mro import class_attribute

FORWARD = class_attribute(DistributedDataParallel, "forward")


def wrapped_module(module: torch.nn.Module) -> torch.nn.Module | None:
    """The module inside of a DistributedDataParallel that calls it as torch's own class does; None
    for any other module."""
    if not isinstance(module, DistributedDataParallel):
        return None
    own = class_attribute(type(module), "forward") is not FORWARD or "forward" in vars(module)
    inner = module.module
    return None if own or not isinstance(inner, torch.nn.Module) else inner
