"""Placements (Shard, Replicate and Partial): how a distributed tensor lies along a dimension of a
mesh. torch's own are immutable, so they are literals."""

from __future__ import annotations

PACKAGE = "torch.distributed.tensor"


def is_placement(cls: type) -> bool:
    """Whether a class is one of torch's placements. The package is not loaded for that."""
    return cls.__module__.startswith(PACKAGE) and any(
        base.__name__ == "Placement" and base.__module__.startswith(PACKAGE) for base in cls.__mro__
    )
