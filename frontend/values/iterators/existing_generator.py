"""Generators that existed before the frame and were not started: their code is interpreted. After
the graph has run, the real one is closed, or takes the same steps."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from ....guards.guard import Kind
from ....guards.iterators import advance, is_unstarted
from ....guards.source import GeneratorArgument, Source
from ..base import Args, CannotReconstruct, Kwargs, Value
from ..context import TraceContext
from ..emitter import Emitter
from ..objects.user_object import wrap_object
from ..registry import wraps
from .generator import GeneratorValue

PACKED = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class ExistingGenerator(GeneratorValue):
    """A generator that the frame was given. `created_at`: the break position of its first step.
    `taken`: how many items it has yielded; None where the steps to them cannot be repeated, as they
    changed something, or did tensor work."""

    __slots__ = ("taken",)

    def __init__(self, made: GeneratorValue, source: Source) -> None:
        super().__init__(made.frame, made.created_at, made.names, False, None)
        self.source = source
        self.taken: int | None = 0

    def snapshot(self) -> Any:
        return super().snapshot(), self.taken

    def restore(self, state: Any) -> None:
        inner, self.taken = state
        super().restore(inner)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if name in ("send", "throw"):
            raise self.unsupported_use(f"{name}()")
        return super().method(tx, name, args, kwargs)

    def _go(self, tx: TraceContext, run: Callable[[], Any]) -> Value:
        if not self.started:
            self.created_at = tx.frames.break_position()

        def step() -> Any:
            taken, before = self.taken, footprint(tx)
            found = run()
            self.taken = taken + 1 if taken is not None and footprint(tx) == before else None
            return found

        return super()._go(tx, step)

    def emit_changes(self, emit: Emitter) -> None:
        if self.finished:
            emit.run(types.GeneratorType.close, [self])
        elif self.taken is not None:
            emit.run(advance, [self, emit.const(self.taken), emit.const(False)])
        else:
            raise CannotReconstruct(self)


def footprint(tx: TraceContext) -> tuple[int, ...]:
    """What grows where code of the program changes something or does tensor work."""
    effects = tx.effects
    grown = (effects.outputs, tx.graph.nodes, tx.modes.open)
    return effects.changes_of_existing, *map(len, grown)


@wraps(types.GeneratorType)
def wrap_generator(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    """A generator that has not started, as a call of its function with the arguments that it holds;
    others as objects."""
    code = obj.gi_code
    if source is None or not is_unstarted(obj) or code.co_freevars or code.co_flags & PACKED:
        return wrap_object(tx, obj, source)
    globals_, names = obj.gi_frame.f_globals, (obj.__name__, obj.__qualname__)
    is_alike = partial(is_unstarted_call, code, globals_, names)
    tx.guards.add(source, Kind.TYPE, types.GeneratorType)
    tx.guards.add(source, Kind.PYTHON, (f"is a new {obj.__qualname__}()", is_alike))
    function = types.FunctionType(code, globals_)
    function.__name__, function.__qualname__ = names
    arguments = obj.gi_frame.f_locals
    positional, keywords = code.co_argcount, code.co_kwonlyargcount
    bound = {
        name: tx.wrap(arguments[name], GeneratorArgument(source, name))
        for name in code.co_varnames[: positional + keywords]
    }
    made = tx.calls.inline(
        tx.wrap(function, None),
        [bound.pop(name) for name in code.co_varnames[:positional]],
        bound,
    )
    assert isinstance(made, GeneratorValue)
    return tx.objects.remember(obj, ExistingGenerator(made, source))


def is_unstarted_call(
    code: types.CodeType, globals_: dict[str, Any], names: tuple[str, str], generator: Any
) -> bool:
    """Whether a generator waits at the beginning of this code."""
    return (
        generator.gi_code is code
        and is_unstarted(generator)
        and generator.gi_frame.f_globals is globals_
        and (generator.__name__, generator.__qualname__) == names
    )
