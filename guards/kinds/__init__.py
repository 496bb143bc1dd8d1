"""What each kind of guard means and costs, one small family a file. Importing this package
registers them all."""

from . import (
    attributes,
    containers,
    equality,
    identity,
    iterators,
    memory,
    predicate,
    shape,
    state,
    tensor,
    types,
)
from .registry import GuardKind, guard_kind, kind_of

__all__ = [
    "GuardKind",
    "attributes",
    "containers",
    "equality",
    "guard_kind",
    "identity",
    "iterators",
    "kind_of",
    "memory",
    "predicate",
    "shape",
    "state",
    "tensor",
    "types",
]
