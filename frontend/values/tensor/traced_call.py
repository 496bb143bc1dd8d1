"""A call whose nodes are replaced by one node of the graph. It is interpreted without side effects
on objects that existed before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ....errors import GraphBreak
from ..base import ObservedException, Value
from ..containers.sequence import Sequence, TupleValue
from ..context import TraceContext
from ..mutable import Mutable
from .tensor import TensorValue


@dataclass
class TracedCall:
    """A call, interpreted: the nodes it added, and what it returned."""

    nodes: list[torch.fx.Node]
    value: Value

    def results(self, tx: TraceContext, what: str) -> list[Value]:
        """The items of a returned tuple, or the single result. Raises GraphBreak unless they are
        tensors and literals."""
        items = self.value.all(tx) if isinstance(self.value, TupleValue) else [self.value]
        if not all(
            isinstance(item, TensorValue) or item.is_constant() for item in items
        ) or not tensors_of(items):
            raise GraphBreak("unsupported-value", f"what {what} returns")
        return items

    def wrap(self, items: list[Value], made: list[Value]) -> Value:
        """The returned value, with its tensors replaced by the outputs of the one node."""
        new = iter(made)
        replaced = [next(new) if isinstance(item, TensorValue) else item for item in items]
        if isinstance(self.value, TupleValue):
            return TupleValue(replaced, None, self.value.python_type())
        return replaced[0]


def interpret_without_effects(
    tx: TraceContext, args: list[Value], grad: bool, run: Callable[[], Value]
) -> TracedCall:
    """Interprets a call with gradients enabled or disabled, and without side effects; its nodes
    become one node."""
    mark, before, effects = tx.graph.mark(), torch.is_grad_enabled(), tx.effects
    trace: Any = tx  # whose effects nothing else replaces
    trace.effects = NoEffects(effects, args)
    torch._C._set_grad_enabled(grad)
    try:
        value = tx.look(run())
    except ObservedException:
        tx.graph.rollback(mark)
        raise
    finally:
        torch._C._set_grad_enabled(before)
        trace.effects = effects
    return TracedCall(tx.graph.nodes[mark:], value)


class NoEffects:
    """The effect log while such a call is interpreted: only objects that it makes itself may
    change."""

    def __init__(self, real: Any, args: list[Value]) -> None:
        self.changed, self.globals = real.changed, real.globals
        self.outside = list(containers(args))
        self.may_be_seen, self.read = real.may_be_seen, real.read
        self.allow_new_objects_only = real.allow_new_objects_only
        self.take_outputs, self.changes_of_existing = real.take_outputs, real.changes_of_existing

    def change(self, value: Any) -> None:
        if (
            value.source is not None
            or value in self.changed
            or any(value is other for other in self.outside)
        ):
            raise GraphBreak(
                "unsupported-mutation",
                f"of {value.describe()} in a call that becomes one autograd node",
            )

    @property
    def outputs(self) -> list[Any]:
        return []

    def output(self, *output: Any) -> None:
        raise GraphBreak("output", "a call that becomes one autograd node")

    def expect(
        self, fact: torch.fx.Node, position: int, branch: tuple[int, int] | None = None
    ) -> None:
        raise GraphBreak("data-dependent-branch", " in a call that becomes one autograd node")

    def set_global(self, where: Any, name: str, value: Value) -> None:
        raise GraphBreak(
            "unsupported-mutation", f"of global '{name}' in a call that becomes one autograd node"
        )


def containers(values: list[Value]) -> Iterator[Value]:
    """The mutable containers among values and the items of sequences."""
    for value in values:
        if isinstance(value, Mutable):
            yield value
        if isinstance(value, Sequence):
            yield from containers(value.items)


def tensors_of(values: list[Value]) -> list[TensorValue]:
    """The tensors among values, whose nodes are used."""
    found = [value for value in values if isinstance(value, TensorValue)]
    for tensor in found:
        tensor.require_own_data()
    return found
