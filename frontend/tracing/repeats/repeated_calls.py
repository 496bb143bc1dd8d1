"""RepeatedCalls: interprets a call of a module, or repeats an earlier one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from ....errors import GraphBreak
from ....guards.source import ClosureSource, GlobalsSource, SlotSource
from ...values.base import Value
from ...values.objects.attribute_storage import instance_dict
from ...values.objects.nn_module import ModuleValue
from ..trace import Trace
from .arguments import Arguments, Unlike
from .moved_guards import MovedGuards, beginnings
from .moved_paths import CannotMove
from .reachable_changes import leads_to_changed
from .recorded_call import Beginning, RecordedCall, may_repeat, record_call, steady_state
from .repetition import Repetition

MOST_FAILURES = 2  # after so many, calls of a class with like arguments are only interpreted
ROOTS = (SlotSource, GlobalsSource, ClosureSource)


class RepeatedCalls:
    """The recorded calls of one capture, by the class of the module, the depth of the call, and
    the arguments."""

    def __init__(self, tx: Trace) -> None:
        self._tx = tx
        self._recorded: dict[Hashable, RecordedCall] = {}
        self._guards: dict[Hashable, MovedGuards] = {}
        self._failures: Counter[Hashable] = Counter()
        self.repeated = 0  # calls

    def call(
        self,
        module: ModuleValue,
        args: list[Value],
        kwargs: dict[str, Value],
        interpret: Callable[[], Value],
    ) -> Value:
        """The result of a call of a module that has parts. `interpret` interprets it."""
        tx = self._tx
        if not may_repeat(tx):
            return interpret()
        try:
            arguments = Arguments(args, kwargs)
        except Unlike:
            return interpret()
        key = (module.cls, len(tx.frames), arguments.key)
        if self._failures[key] >= MOST_FAILURES:
            return interpret()
        known = self._recorded.get(key)
        if known is not None:
            result = self._repeat(key, known, module, arguments)
            if result is not None:
                self.repeated += 1
                return result
            self._failures[key] += 1
        beginning = Beginning.now(tx)
        result = interpret()
        call = record_call(tx, module, arguments, beginning, result)
        if call is not None and not self._reaches_outside(module, beginning):
            self._recorded[key] = call
            self._guards.pop(key, None)
        return result

    def release_objects(self) -> None:
        """Drops the program's objects."""
        self._recorded.clear()
        self._guards.clear()

    def _reaches_outside(self, module: ModuleValue, beginning: Beginning) -> bool:
        """Whether a call has come to what holds the module, and so to other modules, or to what
        the frame has changed."""
        reached = self._tx.objects.reached_since(beginning.instructions)
        above = set(beginnings(module.known_source))
        return any(value.source in above for value in reached) or leads_to_changed(
            self._tx, [module, *reached]
        )

    def _repeat(
        self, key: Hashable, call: RecordedCall, module: ModuleValue, arguments: Arguments
    ) -> Value | None:
        """The result; None where this call is not known to be like the recorded one."""
        tx = self._tx
        end = tx.work.instructions + call.instructions
        if (
            tx.work.instructions < tx.work.stop_at <= end  # a break is to be made inside
            or end > tx.options.trace_budget
            or not call.is_like(steady_state(tx))
        ):
            return None
        mark = tx.graph.mark()
        try:
            guards = self._guards.get(key)
            if guards is None:
                guards = self._guards[key] = MovedGuards(tx, call.module)
            return Repetition(tx, call, guards, module, arguments).run()
        except (CannotMove, Unlike, GraphBreak):
            tx.graph.rollback(mark)
            return None


def has_parts(module: ModuleValue) -> bool:
    """Whether a module existed before the frame, at a path that starts from the frame, and has
    modules of its own: calls of others are short."""
    if module.real is None or module.source is None:
        return False
    *_, root = beginnings(module.source)
    return isinstance(root, ROOTS) and bool((instance_dict(module.real) or {}).get("_modules"))
