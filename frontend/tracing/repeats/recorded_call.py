"""RecordedCall: what the interpretation of one module's call added to the graph, and its result."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode

from ....backends.graph.collectives import communicates
from ....backends.graph.mutations import may_write, writes_only_buffers
from ....backends.graph.node_targets import is_foreign, is_users
from ....guards.torch_state import TorchState
from ....records import record
from ...values.base import Value
from ...values.constant import Constant
from ...values.containers.sequence import TupleValue
from ...values.modes.mode_manager import MODE_SWITCHES
from ...values.objects.nn_module import ModuleValue
from ...values.tensor.tensor import TensorValue
from ..effect_log import EffectLog
from ..trace import Trace
from .arguments import Arguments, Unlike, metadata
from .inner_results import Recipe, inner_recipes
from .new_results import new_recipe

LITERALS = frozenset({
    int, float, complex, bool, str, type(None), type(Ellipsis), torch.dtype, torch.device,
    torch.layout, torch.memory_format, torch.Size,
})  # fmt: skip
METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
FUNCTIONS = (types.BuiltinFunctionType, types.FunctionType, *METHODS)


COUNTED: tuple[Callable[[Trace], int], ...] = (
    lambda tx: len(tx.effects.outputs),
    lambda tx: len(tx.effects.expected),
    lambda tx: tx.objects.keys_by_identity,
    lambda tx: tx.guards.truncations,
)


@record
class Beginning:
    """The state of a capture before a call, in what the call must not change."""

    nodes: int
    instructions: int
    is_compiling_at: int | None
    steady: tuple[Any, ...]

    @classmethod
    def now(cls, tx: Trace) -> Beginning:
        return cls(
            tx.graph.mark(),
            tx.work.instructions,
            tx.frames.is_compiling_at,
            steady_state(tx),
        )


def steady_state(tx: Trace) -> tuple[Any, ...]:
    """What a recorded call leaves as it is."""
    return (
        *(count(tx) for count in COUNTED),
        tx.effects.changes_of_existing,
        tx.graph.writes,
        id(tx.exceptions.handled),
        bool(tx.generators),
        len(tx.modes.open),
        tx.modes.subclasses_off,
        tx.modes.runs_later,
        TorchState.now(),
    )


def may_repeat(tx: Trace) -> bool:
    """Whether calls can be repeated here: no number varies, and no namespace is changed."""
    return (
        type(tx.effects) is EffectLog
        and not tx.symbols.exist
        and not tx.effects.globals
        and tx.random.stored is None
        and torch._C._functorch.maybe_current_level() is None
    )


@record
class Step:
    """A node to add again. `inner_lines`: its lines inside the call. `recipe`: how to make its
    result; None where its operator has to run, and to give a result of the same `metadata`."""

    node: torch.fx.Node
    inner_lines: tuple[str, ...] | None
    recipe: Recipe | None
    metadata: Any


@record
class RecordedCall:
    """`module`: whose call it was. `depth`: of frames around the call."""

    module: ModuleValue
    arguments: Arguments
    nodes: list[torch.fx.Node]
    depth: int
    result: Value
    instructions: int
    is_compiling_after: int | None
    steady: tuple[Any, ...]
    _steps: list[Step] = field(default_factory=list, compare=False)

    def is_like(self, steady: tuple[Any, ...]) -> bool:
        """Whether a state before another call is the one before this call, and its nodes are still
        in the graph."""
        counted = len(COUNTED)
        return steady[counted:] == self.steady[counted:] and not any(
            node._erased for node in self.nodes
        )

    def steps(self, mode: FakeTensorMode) -> list[Step]:
        """What a repetition adds, found out for the first one: most calls are not repeated. Raises
        Unlike where the call cannot be repeated."""
        if not self._steps:
            self._steps.extend(self._find_steps(mode))
        return self._steps

    def _find_steps(self, mode: FakeTensorMode) -> Iterator[Step]:
        inside = set(self.nodes)
        if not all(is_repeatable(node, inside, self.arguments) for node in self.nodes):
            raise Unlike
        if not is_result(self.result, inside, self.arguments):
            raise Unlike
        recipes = inner_recipes(self.nodes, nodes_of(self.result), mode)
        for node in self.nodes:
            lines = node.meta.get("lines")
            yield Step(
                node,
                None if lines is None else lines[: -self.depth or None],
                recipes.get(node) or new_recipe(node, mode),
                metadata_of(node),
            )


def record_call(
    tx: Trace, module: ModuleValue, arguments: Arguments, beginning: Beginning, result: Value
) -> RecordedCall | None:
    """The call that has just returned; None where it is known that it cannot be repeated."""
    if not may_repeat(tx) or steady_state(tx) != beginning.steady:
        return None
    asked_at = tx.frames.is_compiling_at
    is_compiling_after = (
        None
        if asked_at is None or asked_at == beginning.is_compiling_at
        else asked_at - beginning.instructions
    )
    return RecordedCall(
        module,
        arguments,
        tx.graph.nodes[beginning.nodes :],
        len(tx.frames),
        result,
        tx.work.instructions - beginning.instructions,
        is_compiling_after,
        beginning.steady,
    )


def metadata_of(node: torch.fx.Node) -> Any:
    example = node.meta.get("example_value")
    if isinstance(example, torch.Tensor):
        return metadata(example)
    if example is not None:
        raise Unlike
    return None


def is_repeatable(node: torch.fx.Node, inside: set[torch.fx.Node], arguments: Arguments) -> bool:
    """Whether a node is a call of torch's that writes nothing but buffers, on literals and on
    tensors that the call was given or made, or that are inputs of the graph."""
    is_part = node.target is operator.getitem and node.args[0] in inside
    if not (
        node.meta.keys() <= {"lines", "line", "example_value"}
        and ("lines" in node.meta or is_part)
        and node.target not in MODE_SWITCHES
        and is_plain_function(node.target)
        and (not may_write(node) or writes_only_buffers(node))
        and not communicates(node.target)
        and not is_foreign(node)
        and not is_users(node)
    ):
        return False
    return all(
        other in inside or other in arguments.made or other.op == "placeholder"
        for other in node.all_input_nodes
    ) and all(map(is_literal_or_node, (*node.args, *node.kwargs.values())))


def is_plain_function(target: Any) -> bool:
    return isinstance(
        target, (str, torch._ops.OpOverload, torch._ops.OpOverloadPacket, *FUNCTIONS)
    ) and not isinstance(getattr(target, "__self__", None), torch.nn.Module)


def is_literal_or_node(argument: Any) -> bool:
    if isinstance(argument, tuple | list):
        return all(map(is_literal_or_node, argument))
    if isinstance(argument, slice):
        return all(map(is_literal_or_node, (argument.start, argument.stop, argument.step)))
    return isinstance(argument, torch.fx.Node) or type(argument) in LITERALS


def nodes_of(value: Value) -> Iterator[torch.fx.Node]:
    """The nodes of the tensors in a result."""
    if isinstance(value, TensorValue):
        yield value.node
    elif isinstance(value, TupleValue):
        for item in value.items:
            yield from nodes_of(item)


def is_result(value: Value, inside: set[torch.fx.Node], arguments: Arguments) -> bool:
    """Whether a result consists of tensors that are known here, literals and new tuples."""
    if type(value) is TensorValue:
        node = value.node
        return node in inside or node in arguments.made or value.source is not None
    if type(value) is TupleValue:
        new = value.source is None and value.real is None and value.cls is tuple
        return new and all(is_result(item, inside, arguments) for item in value.items)
    return type(value) is Constant and value.source is None
