"""The kinds of guards: what each means, how C checks it, and what it costs. Importing this package
registers them all."""

from . import (
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
    "GuardKind", "containers", "equality", "guard_kind", "identity", "iterators",
    "kind_of", "memory", "predicate", "shape", "state", "tensor", "types",
]  # fmt: skip
