"""How distributed tensors are placed, as entries hold it: placements and specifications of torch's,
taken apart and made again."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

# the constructor's arguments of each class, by module
ARGUMENTS = {
    ("torch.distributed.tensor.placement_types", "Shard"): ("dim",),
    ("torch.distributed.tensor.placement_types", "Replicate"): (),
    ("torch.distributed.tensor.placement_types", "Partial"): ("reduce_op",),
    ("torch.distributed.tensor.placement_types", "_StridedShard"): ("dim", "split_factor"),
}
SPEC = ("torch.distributed.tensor._dtensor_spec", "DTensorSpec")


def is_distribution(obj: Any) -> bool:
    """Whether it is a placement, or the specification of a distributed tensor."""
    name = (type(obj).__module__, type(obj).__qualname__)
    return name in ARGUMENTS or name == SPEC


def arguments_of(obj: Any) -> tuple[str, str, dict[str, Any]]:
    """What makes an equal object: the module and name of its class, and arguments."""
    module, name = type(obj).__module__, type(obj).__qualname__
    if (module, name) == SPEC:
        known = tuple(field.name for field in dataclasses.fields(obj) if field.init)
    else:
        known = ARGUMENTS[module, name]
    return module, name, {argument: getattr(obj, argument) for argument in known}


def make_distribution(module: str, name: str, arguments: dict[str, Any]) -> Any:
    """The object that `arguments_of` has taken apart."""
    if (module, name) not in (*ARGUMENTS, SPEC):
        raise ValueError(f"{module}.{name} does not place tensors")
    return getattr(importlib.import_module(module), name)(**arguments)
