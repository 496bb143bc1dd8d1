"""Generators made in the trace: a suspended interpretation, continued by next() and send()."""

from __future__ import annotations

import types
from collections.abc import Generator
from typing import Any

from ....factory_call import record_factory
from ...pycode.code_builder import dummy_closure
from ...pycode.features import CLOSE_RETURNS_VALUE
from ...pycode.resume import ResumePoint, Unresumable, generator_code
from ..base import Args, CannotReconstruct, Kwargs, Null, ObservedException, Value, none_if_stopped
from ..constant import Constant
from ..containers.sequence import TupleValue
from ..context import InterpretedFrame, TraceContext
from ..emitter import Emitter
from ..objects.current_exception import HandledException
from .iterator import Iterator


def stopped_inside(tx: TraceContext, error: Value) -> ObservedException:
    """The RuntimeError that Python makes of a StopIteration that leaves a generator's body."""
    raised = tx.exceptions.new(RuntimeError, "generator raised StopIteration")
    for name in ("__cause__", "__context__"):
        raised.value.attrs[name] = error  # type: ignore[attr-defined]
    raised.value.attrs["__suppress_context__"] = Constant(True)  # type: ignore[attr-defined]
    return raised


class GeneratorValue(Iterator):
    """A generator object. `frame` is its interpreter, which runs to the next yield."""

    __slots__ = ("frame", "finished", "started", "created_at", "names", "made_here", "maker_called")
    cls = types.GeneratorType

    def __init__(
        self,
        frame: InterpretedFrame,
        created_at: int,
        names: tuple[str, str],
        made_here: bool,
        maker_called: int | None,
    ) -> None:
        super().__init__()
        # by an instruction of a frame that runs step by step: nothing in C holds it between two of
        # them
        self.made_here = made_here
        self.created_at = created_at  # the break position at which it was made
        self.maker_called = maker_called  # the position of the call of the function that made it
        self.names = names  # __name__ and __qualname__: those of its function when it was called
        self.frame, self.finished, self.started = frame, False, False

    def describe(self) -> str:
        return f"generator {self.frame.decoded.code.co_qualname}"

    def snapshot(self) -> Any:
        return (self.frame.save(), self.finished, self.started)

    def restore(self, state: Any) -> None:
        saved, self.finished, self.started = state
        self.frame.load(saved)

    def send(self, tx: TraceContext, value: Value) -> Value:
        """Runs to the next yield; raises ObservedException of StopIteration when the generator
        returns."""
        self._refuse_running(tx)
        if self.finished:
            raise tx.exceptions.new(StopIteration)
        if not self.started and not value.is_none():
            raise tx.exceptions.new(
                TypeError, "can't send non-None value to a just-started generator"
            )
        return self._go(tx, lambda: self.frame.resume(value if self.started else None))

    def _refuse_running(self, tx: TraceContext) -> None:
        """Raises where the generator's own body asks for its next item."""
        if tx.generators.is_running(self):
            raise tx.exceptions.new(ValueError, "generator already executing")

    def _go(self, tx: TraceContext, run: Any) -> Value:
        """Resumes the frame by `run` until it yields, and returns that value; raises StopIteration
        where it returns."""
        tx.effects.change(self)
        around = tx.exceptions.handled
        opened = [item for item in self.frame.stack if isinstance(item, HandledException)]
        # the exceptions that it handles are its own: they come back with it, and go when it waits
        if opened:
            opened[0].previous, tx.exceptions.handled = around, opened[-1].current
        try:
            yielded, value = run()
        except ObservedException as error:
            self.finished, tx.exceptions.handled = True, around
            tx.generators.remove(self)
            if issubclass(error.cls, StopIteration):
                raise stopped_inside(tx, error.value) from None
            raise
        self.started, tx.exceptions.handled = True, around
        if yielded:
            tx.generators.add(self)
            return value
        self.finished = True
        tx.generators.remove(self)
        raise tx.exceptions.new_of_values(StopIteration, [] if value.is_none() else [value])

    def next(self, tx: TraceContext) -> Value | None:
        return none_if_stopped(lambda: self.advance(tx))

    def advance(self, tx: TraceContext) -> Value:
        return self.send(tx, Constant(None))

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if name == "send":
            return self.send(tx, args[0])
        if name == "throw":
            error = tx.exceptions.instance(self._exception_to_throw(args))
            self._refuse_running(tx)
            if self.finished or not self.started:
                self.finished = True
                raise ObservedException(error)
            return self._go(tx, lambda: self.frame.throw(error))
        if name == "close":
            return self._close(tx)
        return super().method(tx, name, args, kwargs)

    def _exception_to_throw(self, args: list[Value]) -> Value:
        """The exception of throw(value) or throw(type, value, traceback)."""
        if len(args) == 1 or args[1].is_none():
            return args[0]
        if not issubclass(args[1].python_type(), BaseException):
            raise self.unsupported_use("throw() with the argument of an exception")
        return args[1]

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in ("send", "throw", "close"):
            return tx.make.bound_method(self, name)
        if name in ("__name__", "__qualname__"):
            return Constant(self.names[name == "__qualname__"])
        return super().attribute(tx, name)

    def _close(self, tx: TraceContext) -> Value:
        """Throws GeneratorExit into a generator that has started, as close() does."""
        self._refuse_running(tx)
        if self.started and not self.finished:
            try:
                self._go(
                    tx,
                    lambda: self.frame.throw(tx.exceptions.instance(tx.wrap(GeneratorExit, None))),
                )
            except ObservedException as error:
                if error.cls not in (GeneratorExit, StopIteration):
                    raise
                returned = getattr(error.value, "args", [])
                if error.cls is StopIteration and returned and CLOSE_RETURNS_VALUE:
                    self.finished = True
                    return returned[0]
            else:
                raise tx.exceptions.new(RuntimeError, "generator ignored GeneratorExit")
        elif not self.finished:
            tx.effects.change(self)
        self.finished = True
        return Constant(None)

    def reconstruct(self, emit: Emitter) -> None:
        """Calls a function with the original code and a prologue that restores the frame's state
        (pycode/resume.py); a generator that has started is advanced to the yield in which it
        waits."""
        frame = self.frame
        if self.finished:
            emit.call(finished_generator, [])
            return
        if any(isinstance(item, HandledException) for item in frame.stack):
            raise CannotReconstruct(self)
        live = frame.decoded.live_in[self._resume_index() - 1]
        slots = [slot for slot, held in enumerate(frame.slots) if held is not None and slot in live]
        function = self._continuation(frozenset(slots))
        bound = [held for slot in slots if (held := frame.slots[slot]) is not None]
        state = TupleValue([held for held in (*bound, *frame.stack) if not isinstance(held, Null)])
        if self.started:
            emit.call(start_generator, [emit.const(function), state])
        else:
            emit.call(function, [state])

    def _resume_index(self) -> int:
        """The instruction at which it goes on. A generator that was not started begins after
        RETURN_GENERATOR and its POP_TOP."""
        return self.frame.pc if self.started else self.frame.decoded.start + 2

    def _continuation(self, slots: frozenset[int]) -> types.FunctionType:
        """Returns a generator function that takes the contents of these slots and of the stack, and
        goes on here."""
        frame = self.frame
        kinds = tuple("null" if isinstance(item, Null) else "value" for item in frame.stack)
        point = ResumePoint(self._resume_index(), kinds, slots)
        try:
            code = generator_code(frame.decoded, point, self.started)
        except Unresumable as error:
            raise CannotReconstruct(self) from error
        return make_function(code, frame.globals, self.names)


def make_function(
    code: types.CodeType, globals_: dict[str, Any], names: tuple[str, str]
) -> types.FunctionType:
    """A generator function of generated code. names: its name and its qualified name."""
    function = types.FunctionType(code, globals_, code.co_name, None, dummy_closure(code))
    function.__name__, function.__qualname__ = names
    return record_factory(function, make_function, code, globals_, names)


def start_generator(
    function: types.FunctionType, state: tuple[Any, ...]
) -> types.GeneratorType[Any, Any, Any]:
    """Returns a generator that waits where the one with this state did."""
    generator = function(state)
    next(generator)
    return generator


def empty_generator() -> Generator[None, None, None]:
    yield from ()


def finished_generator() -> Generator[None, None, None]:
    """Returns a generator that is finished."""
    generator = empty_generator()
    generator.close()
    return generator
