"""TraceContext: the state of one capture, as values see it. tracing/trace.py is the one
implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...guards.source import Source
from .base import Value

if TYPE_CHECKING:
    from ...options import Options
    from ..tracing.calls import Calls
    from ..tracing.effect_log import EffectLog
    from ..tracing.exception_state import ExceptionState
    from ..tracing.frame_stack import FrameStack
    from ..tracing.graph_builder import GraphBuilder
    from ..tracing.guard_log import GuardLog
    from ..tracing.object_table import ObjectTable
    from ..tracing.suspended_generators import SuspendedGenerators
    from ..tracing.symbolic_inputs import SymbolicInputs
    from ..tracing.value_factory import ValueFactory
    from ..tracing.work_budget import WorkBudget
    from .modes.mode_manager import TorchModes
    from .tensor.random_state import RandomState


class TraceContext(Protocol):
    """What a value may use; each member's class documents what it does."""

    options: Options
    guards: GuardLog  # facts that the capture relies on
    objects: ObjectTable  # which value stands for which existing object; identity
    symbols: SymbolicInputs  # sizes and numbers that vary
    graph: GraphBuilder  # operations
    effects: EffectLog  # what the program changed
    exceptions: ExceptionState
    frames: FrameStack
    generators: SuspendedGenerators
    modes: TorchModes
    random: RandomState
    work: WorkBudget
    calls: Calls  # inlining, instances, methods past the instance
    make: ValueFactory  # values of other families

    def wrap(self, obj: Any, source: Source | None) -> Value:
        """The value of an object: guarded when it has a source, a literal of the program when it
        has none."""

    def look(self, value: Value) -> Value:
        """The value itself, or what a LazyValue stands for."""
