"""CallChecks: the calls that the graph under construction does not take. Each check breaks."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import torch
import torch.fx

from ...backends.graph.collectives import runs_collective
from ...backends.graph.memory import memory_of, plain_memory_at
from ...backends.graph.mutations import may_write, written_nodes
from ...backends.graph.node_targets import (
    RECURRENT_OPERATORS,
    is_foreign_target,
    name_of,
    target_name,
)
from ...backends.graph.random_draws import target_may_draw
from ...backends.graph.runtime_errors import may_raise
from ...errors import GraphBreak
from ...guards.guard import Kind
from ...guards.source import TensorProperty
from ...records import record
from ..values.base import Value
from ..values.constant import Constant
from ..values.containers.sequence import Sequence
from ..values.context import TraceContext
from ..values.numpy.array import ArrayValue
from ..values.numpy.numpy_number import TYPED_BY_DATA, VaryingScalar
from ..values.objects.class_value import ClassValue
from ..values.tensor.symbolic_number import SymbolicNumber
from ..values.tensor.tensor import STANDS_FOR_ANOTHER
from ..values.tensor.wrapper_subclass import is_captured_wrapper
from .graph_inputs import GraphInput
from .interpreter.outcome import Restart
from .sizes.symbolic_inputs import SymbolicInputs

# methods with results that are no tensors, which depend on metadata only
TOLD_BY_FAKES = frozenset(
    "_is_zerotensor dense_dim dim element_size get_device is_coalesced is_complex is_conj "
    "is_contiguous is_distributed is_floating_point is_inference is_neg is_same_size is_signed "
    "item ndimension nelement numel size sparse_dim stride".split()
)
# by operator, the position of an argument that counts from the start of the tensor's storage
ABSOLUTE_OFFSETS = {
    "as_strided": 3, "as_strided_": 3, "as_strided_copy": 3, "as_strided_scatter": 4,
}  # fmt: skip
DROPS_ONES = ("squeeze", "squeeze_")  # of which torch assumes that a size is not one


@record
class FakeCall:
    """A call with its arguments as values, and as those of the run on fake tensors."""

    target: Any
    args: list[Value]
    kwargs: dict[str, Value]
    fakes: list[Any]
    fake_kwargs: dict[str, Any]

    @property
    def operands(self) -> list[Value]:
        return [*self.args, *self.kwargs.values()]

    @cached_property
    def floats(self) -> list[SymbolicNumber]:
        """The symbolic floats among the operands."""
        return [
            operand
            for operand in self.operands
            if isinstance(operand, SymbolicNumber) and operand.python_type() is float
        ]

    @property
    def out(self) -> list[torch.Tensor]:
        """The tensors that its results are to be written to."""
        given = self.fake_kwargs.get("out")
        items = given if isinstance(given, (tuple, list)) else [given]
        return [item for item in items if isinstance(item, torch.Tensor)]


class CallChecks:
    """`inputs`: those of the graph so far. `collective`: the last one in the graph.
    `wrapper_memory`: that of the inner tensors of the wrappers in the graph."""

    def __init__(self, tx: TraceContext, symbols: SymbolicInputs, inputs: Iterable[Any]) -> None:
        self._tx = tx
        self._symbols = symbols
        self._inputs = inputs
        self.collective: torch.fx.Node | None = None
        self.wrapper_memory: set[int | None] = set()

    # calls, before they run on fakes

    def check_call(self, call: FakeCall) -> None:
        for check in self._OF_CALLS:
            check(self, call)

    def _check_numpy_data(self, call: FakeCall) -> None:
        """Breaks where a numpy number is data of a tensor, whose dtype it would determine."""
        if call.target is operator.setitem:
            data = call.args[2:]
        elif call.target in TYPED_BY_DATA:
            data = call.operands
        else:
            return
        if any(map(self._holds_numpys, data)):
            raise GraphBreak(
                "unsupported-value", f"a numpy number as data of {target_name(call.target)}"
            )

    def _holds_numpys(self, value: Value) -> bool:
        value = self._tx.look(value)
        if isinstance(value, Sequence):
            return any(map(self._holds_numpys, value.items))
        return isinstance(value, VaryingScalar | ArrayValue) or (
            type(value) is Constant and type(value.object).__module__ == "numpy"
        )

    def _check_classes(self, call: FakeCall) -> None:
        """Breaks where a class such as `int` is given to a function that may take it for something
        else than a dtype."""
        if is_foreign_target(call.target) and any(
            isinstance(self._tx.look(operand), ClassValue) for operand in call.operands
        ):
            raise GraphBreak("unsupported-value", f"a class given to {target_name(call.target)}")

    def _check_lengths(self, call: FakeCall) -> None:
        """Breaks at an operator that would be captured for one length only."""
        if not self._tx.options.fullgraph and steps_through_a_length(call.target, call.fakes):
            what = f"a length that varies, in {target_name(call.target)}"
            raise GraphBreak("unsupported-value", what)

    def _check_jagged_attention(self, call: FakeCall) -> None:
        """Breaks at attention on jagged tensors before it runs on fakes: it reads their lengths,
        and would fix the number of sequences first."""
        if target_name(call.target) == "scaled_dot_product_attention" and any(
            isinstance(fake, torch.Tensor) and fake.is_nested for fake in call.fakes
        ):
            raise GraphBreak("data-dependent-value", "scaled_dot_product_attention")

    def _check_sizes_of_one(self, call: FakeCall) -> None:
        """Breaks at an operator that depends on whether an unknown size is one."""
        if self._symbols.exist and target_name(call.target) in DROPS_ONES:
            tensor, *dims = call.fakes
            self._symbols.shapes.require_known(tensor, dims or [*call.fake_kwargs.values()])

    def _guard_storage_offsets(self, call: FakeCall) -> None:
        """Guards where inputs start in their storages, if a part of one is taken by an offset that
        counts from there. (An offset that is a symbol is read at each call.)"""
        position = ABSOLUTE_OFFSETS.get(target_name(call.target))
        if position is None:
            return
        given = [*call.fakes[position:], call.fake_kwargs.get("storage_offset")]
        if given[0] is None or not isinstance(call.fakes[0], torch.Tensor):
            return
        memory = memory_of(call.fakes[0])
        for item in self._inputs:
            if isinstance(item, GraphInput) and memory_of(item.value.fake) == memory:
                offset = item.value.fake.storage_offset()
                if isinstance(offset, int):
                    source = TensorProperty(item.source, "storage_offset", 0)
                    self._tx.guards.add(source, Kind.EQUALS, offset)

    def _check_observers_without_state(self, call: FakeCall) -> None:
        """Breaks at the first call of a fused observer per channel, which resizes its buffers."""
        if call.target is torch.fused_moving_avg_obs_fake_quant and resizes_its_state(
            *call.fakes, **call.fake_kwargs
        ):
            raise GraphBreak("unsupported-mutation", "of the sizes of an observer's buffers")

    def _store_state_before_draws(self, call: FakeCall) -> None:
        """Adds torch.set_rng_state() to the graph before what may draw; otherwise it happens after
        the graph."""
        random = self._tx.random
        if random.stored is not None and target_may_draw(call.target):
            random.store_in_graph(self._tx)

    _OF_CALLS = (
        _store_state_before_draws,
        _check_numpy_data,
        _check_classes,
        _check_lengths,
        _check_jagged_attention,
        _check_sizes_of_one,
        _check_observers_without_state,
        _guard_storage_offsets,
    )

    # floats, around the run

    def varying_floats(self, call: FakeCall) -> list[SymbolicNumber]:
        return [one for one in call.floats if not self._symbols.shapes.is_fixed(one.sym)]

    def check_floats(self, call: FakeCall, varied: list[SymbolicNumber]) -> None:
        """Starts over with a break at an operator whose run needed a float that varied before:
        compiled code would be for that float alone."""
        fixed = [one for one in varied if self._symbols.shapes.is_fixed(one.sym)]
        if fixed and not self._tx.options.fullgraph:
            what = f"{fixed[0].describe()}, which varies, in {target_name(call.target)}"
            place = self._tx.frames.break_position()
            raise Restart(place, GraphBreak("unsupported-value", what))

    # sizes, around the run

    def check_sizes_of_out(self, call: FakeCall, before: list[torch.Size]) -> None:
        """Starts over with a break at an operator that has resized its `out` argument: the graph
        would be compiled for an input of the new size."""
        if [fake.shape for fake in call.out] != before:
            place = self._tx.frames.break_position()
            raise Restart(place, GraphBreak("unsupported-mutation", "of the size of `out`"))

    def check_literal(self, kind: str, target: Any, result: Any) -> None:
        """Breaks where a method's result that is no tensor may depend on more than a fake tells."""
        if kind == "call_method" and not (target in TOLD_BY_FAKES or result is NotImplemented):
            raise GraphBreak("unknown-call", f"Tensor.{target}()")

    # nodes, after the run

    def check_node(self, node: torch.fx.Node) -> None:
        """Checks a new node, and notes a collective."""
        for check in self._OF_NODES:
            check(self, node)
        if runs_collective(node):
            self.collective = node

    def _check_order_of_errors(self, node: torch.fx.Node) -> None:
        """Breaks at an operator that may raise in a graph with a collective: the call could not
        start over in eager, so the program's handlers would not see the error."""
        if self.collective is not None and not runs_collective(node) and may_raise(node):
            what = f"{name_of(node)}, which may raise, after a collective"
            raise GraphBreak("unsupported-operator", what)

    def _check_writes_past_wrappers(self, node: torch.fx.Node) -> None:
        """Breaks at a write into an inner tensor of a wrapper, which would be one into the wrapper,
        too."""
        if not self.wrapper_memory or not may_write(node):
            return
        for target in written_nodes(node):
            memory = plain_memory_at(target)
            fake = target.meta["example_value"]
            if not is_captured_wrapper(type(fake)):
                if memory in self.wrapper_memory:
                    raise GraphBreak("subclass", f"{name_of(node)} on an inner tensor")
            elif fake.is_nested and fake.requires_grad:
                if target.op == "placeholder" or fake._is_view():  # which torch refuses
                    raise GraphBreak("subclass", f"{name_of(node)} on a jagged view")

    def _check_writes_past_data(self, node: torch.fx.Node) -> None:
        """Breaks at a write into a tensor whose data the program has replaced: the operator would
        return another one."""
        if may_write(node) and any(
            target.meta.get(STANDS_FOR_ANOTHER) for target in written_nodes(node)
        ):
            raise GraphBreak("unsupported-mutation", "of a tensor after its .data was replaced")

    _OF_NODES = (_check_order_of_errors, _check_writes_past_wrappers, _check_writes_past_data)

    def rollback(self, removed: list[torch.fx.Node], kept: list[torch.fx.Node]) -> None:
        """Forgets nodes that leave the graph."""
        if self.collective in removed:
            self.collective = next(filter(runs_collective, reversed(kept)), None)


def steps_through_a_length(target: Any, operands: list[Any]) -> bool:
    """Whether this is a recurrent layer over sequences whose length varies, or a packed batch of
    them: taken apart into steps, it would be code for one length."""
    if not any(target is one for one in RECURRENT_OPERATORS):
        return False
    packed = isinstance(operands[2], torch.Tensor)
    lengths = (
        operands[0].shape[:1] if packed or operands[-1] is not True else operands[0].shape[1:2]
    )
    return any(isinstance(length, torch.SymInt) for length in lengths)


def resizes_its_state(
    x: torch.Tensor,
    observer_on: torch.Tensor,
    fake_quant_on: torch.Tensor,
    running_min: torch.Tensor,
    running_max: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> bool:
    """Whether torch.fused_moving_avg_obs_fake_quant() gives its buffers one item per channel; no
    schema and no fake result says that it does."""
    return per_row_fake_quant and any(
        buffer.numel() != x.size(ch_axis)
        for buffer in (running_min, running_max, scale, zero_point)
    )
