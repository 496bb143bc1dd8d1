"""Trace: the state of one capture. Each member holds one part of it; values see them all as a
TraceContext (values/context.py)."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import cache

import torch.fx

from ...backends.graph.extracted_calls import TransformedFunction
from ...backends.graph.fake_values import fake_of
from ...backends.graph.freed_results import CALLED_AT, first_backward, is_freed
from ...backends.graph.gradient_history import needs_gradient
from ...backends.graph.size_checks import check_node
from ...clock import Clock
from ...errors import GraphBreak
from ...garbage_collection import permanent_objects
from ...guards.guard import Kind
from ...guards.guard_log import GuardLog
from ...guards.source import Source, TorchStateSource
from ...guards.torch_state import TorchState
from ...options import Options
from ..values.base import Value
from ..values.containers.list import ListValue
from ..values.context import CallRules
from ..values.models import ensure_models
from ..values.modes.mode_manager import TorchModes
from ..values.random_state import RandomState
from .effect_log import EffectLog
from .fake_tensors.cuda_guard import ensure_cuda_guard
from .fake_tensors.fake_execution import CaptureFakeMode, load_torch
from .graph_builder import GraphBuilder
from .interpreter.exception_state import ExceptionState
from .interpreter.frame_stack import FrameStack
from .interpreter.outcome import Restart
from .interpreter.suspended_generators import SuspendedGenerators
from .interpreter.work_budget import WorkBudget
from .number_readings import where_to_read
from .object_table import ObjectTable
from .sizes.symbolic_inputs import SymbolicInputs
from .sizes.variation import Variation
from .uncaptured_code import UncapturedCode
from .value_factory import ValueFactory


@cache
def load_for_capture() -> None:
    """Loads what captures need, before the first one."""
    ensure_cuda_guard()
    with permanent_objects():
        ensure_models()
        load_torch()


class Trace:
    """`function` is the root frame's. `uncaptured`: added to. `stop_at`: the
    position of the break, where it is known beforehand (outcome.py), else -1. `calls` makes the
    part that interprets calls, which imports this file."""

    def __init__(
        self,
        options: Options,
        function: types.FunctionType,
        variation: Variation,
        uncaptured: UncapturedCode,
        clock: Clock,
        calls: Callable[[Trace], CallRules],
        stop_at: int = -1,
    ) -> None:
        with clock.phase("imports"):
            load_for_capture()
            fake_mode = CaptureFakeMode()
        self.options = options
        self.clock = clock
        self.function = function
        self.frames = FrameStack()
        self.work = WorkBudget(options, uncaptured, stop_at)
        self.guards = GuardLog(self.frames.where)
        self.objects = ObjectTable(self, self.frames, function)
        self.symbols = SymbolicInputs(options, clock, fake_mode, variation, self.frames)
        self.effects = EffectLog()
        self.random = RandomState()
        self.modes = TorchModes()
        self.graph = GraphBuilder(
            self, self.frames, self.work, self.symbols, self.modes, self.effects
        )
        self.exceptions = ExceptionState(self)
        self.generators = SuspendedGenerators(self)
        self.calls = calls(self)
        self.make = ValueFactory(self)
        self.guards.add(TorchStateSource(), Kind.TORCH_STATE, TorchState.now())

    def wrap(self, obj: object, source: Source | None) -> Value:
        return self.objects.wrap(obj, source)

    def look(self, value: Value) -> Value:
        return self.objects.look(value)

    def release_objects(self) -> None:
        """Drops the program's objects. A trace is part of reference cycles, and the objects should
        die when they would in eager."""
        self.objects.release_objects()
        self.calls.release_objects()
        self.exceptions.release_objects()
        self.work.release_objects()
        self.generators.release_objects()
        self.effects.release_objects()
        self.frames.release_objects()
        self.graph.release_objects()
        self.modes.torch_function.close()

    def expect_size_facts(self) -> Restart | None:
        """Expects what the capture assumed of numbers known only at run time: where that is
        wrong, the frame starts over in eager. Returns a break where it could not."""
        facts = self.symbols.shapes.facts_at_run_time() if self.symbols.exist else None
        if facts is None:
            return None
        found = [where_to_read(self, number) for number in facts.numbers]
        readings = [one for one in found if one is not None]
        if self.graph.runs_only_once or len(readings) < len(found):
            return facts.origin.restart()
        target, nodes = check_node(readings, facts.function)
        self.effects.expect(
            self.graph.raw_call(target, nodes), facts.origin.position, facts.origin.instruction
        )
        return None

    def misplaced_effect(self) -> Restart | None:
        """The break to be made before an effect that cannot happen at the end of this capture; None
        if there is none.

        That is before the first output that may be appended to a list which the program uses, so
        that its time matters; before the first expectation, where the graph writes to its inputs
        or calls collectives, and could not start over; and before a transform with an
        autograd.Function, whose backward pass may read what the program changes later.
        """
        uses_lists = any(
            isinstance(value, ListValue) and value.source is not None
            for value in self.objects.values()
        )
        listed = next(
            (output.position for output in self.effects.outputs if output.listed and uses_lists),
            None,
        )
        if listed is not None:
            return Restart(listed, GraphBreak("output", "a warning recorded in a list"))
        if self.effects.expected and self.graph.runs_only_once:
            first = self.effects.expected[0]
            what = "calls collectives" if self.graph.has_collectives else "writes into its inputs"
            stop = GraphBreak("data-dependent-branch", f", in code that {what}")
            return Restart(first.position, first.stop or stop)
        if self.effects.may_be_seen():
            for node in self.graph.nodes:
                if isinstance(node.target, TransformedFunction):
                    what = "an autograd.Function inside a torch.func transform, before a mutation"
                    return Restart(node.target.called_at, GraphBreak("unknown-call", what))
        return None

    def misplaced_backward(self, outputs: Sequence[torch.fx.Node]) -> Restart | None:
        """The break to be made before the first backward(), where a backward pass could go through
        the graph later; None if there is none."""
        backward = first_backward(self.graph.nodes)
        if backward is None:
            return None
        with self.graph.fake_mode:
            later = any(needs_gradient(node) and not is_freed(fake_of(node)) for node in outputs)
        stop = GraphBreak("unknown-call", "Tensor.backward(), before results with gradients,")
        return Restart(backward.meta[CALLED_AT], stop) if later else None
