"""Modules of fully_shard: what gathers their parameters before forward, and frees them after it, is
Python code in hooks. So calls of such a module are left to Python, and `forward` is compiled."""

from __future__ import annotations

import sys
import types

import torch

from .mro import lookup

FSDP = "torch.distributed.fsdp"
CALL = torch.nn.Module._call_impl.__code__
# functions in there call hooks and forward
CALLERS = (CALL, *(item for item in CALL.co_consts if isinstance(item, types.CodeType)))


def is_sharded(cls: type) -> bool:
    """Whether fully_shard has made a class of modules."""
    loaded = sys.modules.get(FSDP)  # not loaded here, since that takes long
    return loaded is not None and issubclass(cls, getattr(loaded, "FSDPModule", ()))


def calls_sharded_module(code: types.CodeType, arguments: tuple[object, ...]) -> bool:
    """Whether code with these arguments is nn.Module's own for a call, and the module sharded."""
    return code is CALL and bool(arguments) and is_sharded(type(arguments[0]))


def is_sharded_forward(code: types.CodeType, caller: types.FrameType) -> bool:
    """Whether code that is called from a frame is the forward of a sharded module."""
    module = caller.f_locals.get("self") if caller.f_code in CALLERS else None
    forward = lookup(type(module), "forward")[1] if is_sharded(type(module)) else None
    return code is getattr(forward, "__code__", None)
