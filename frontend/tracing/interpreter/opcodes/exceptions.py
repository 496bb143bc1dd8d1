"""raise, try, with."""

from __future__ import annotations

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .....errors import GraphBreak
from ....pycode.instr import Instr, Op
from ....values.base import ObservedException, Value
from ....values.constant import Constant
from ....values.containers.sequence import TupleValue
from ....values.context import TraceContext
from ....values.objects.class_value import ClassValue
from ....values.objects.current_exception import HandledException, Traceback
from ....values.objects.exception import ExceptionValue
from ....values.objects.mro import lookup
from ....values.objects.user_object import UserObject
from ..handlers import handles
from ..interpreter import Interpreter
from .calls import call_value

# Managers that see each operation of torch, which no graph may hide from them.
MODES = (TorchFunctionMode, TorchDispatchMode)


@handles(Op.RAISE)
def raise_(frame: Interpreter, instr: Instr) -> None:
    """Raises an exception that the program made here. Breaks for one that existed before: Python
    would change its traceback and its context."""
    tx = frame.tx
    if instr.arg == 0:
        if tx.exceptions.handled is None:
            if not tx.exceptions.handled_outside().is_constant():
                raise GraphBreak("exception-leaves", "the exception being handled")
            raise tx.exceptions.new(RuntimeError, "No active exception to reraise")
        raise ObservedException(tx.exceptions.handled)
    cause = frame.pop() if instr.arg == 2 else None
    error = tx.exceptions.instance(frame.pop())
    # its traceback and context change: effects of Python's
    if not isinstance(error, ExceptionValue) or error.source is not None:
        raise GraphBreak("exception-leaves", f"{error.describe()}, which existed before,")
    if cause is not None:
        is_none = cause.is_none()
        cause = cause if is_none else tx.exceptions.instance(cause)
        error.store(tx, "__cause__", cause)
        error.store(tx, "__suppress_context__", Constant(True))
    error.happens_during(tx, tx.exceptions.handled)
    raise ObservedException(error)


@handles(Op.RERAISE)
def reraise(frame: Interpreter, instr: Instr) -> None:
    raise ObservedException(frame.pop())


@handles(Op.PUSH_EXC_INFO)
def push_exc_info(frame: Interpreter, instr: Instr) -> None:
    error = frame.pop()
    frame.push(HandledException(frame.tx.exceptions.handled, error))
    frame.push(error)
    frame.tx.exceptions.handled = error


@handles(Op.POP_EXCEPT)
def pop_except(frame: Interpreter, instr: Instr) -> None:
    handled = frame.pop()
    assert isinstance(handled, HandledException)
    frame.tx.exceptions.handled = handled.previous


@handles(Op.CHECK_EXC_MATCH)
def check_exc_match(frame: Interpreter, instr: Instr) -> None:
    wanted = frame.pop()
    frame.push(Constant(exception_matches(frame, frame.peek(), wanted)))


def exception_matches(frame: Interpreter, error: Value, wanted: Value) -> bool:
    """isinstance(error, wanted), as `except wanted` asks."""
    # As CPython asks: along the order of bases, no __subclasscheck__.
    return any(
        cls.constant() in error.python_type().__mro__ for cls in except_classes(frame.tx, wanted)
    )


def except_classes(tx: TraceContext, wanted: Value) -> list[Value]:
    """The classes of an except clause."""
    classes = wanted.all(tx) if isinstance(wanted, TupleValue) else [wanted]
    if not all(
        isinstance(cls, ClassValue) and issubclass(cls.cls, BaseException) for cls in classes
    ):
        raise GraphBreak("exception-leaves", "TypeError of an except clause")
    return classes


def handle_instead(frame: Interpreter, taken: Value) -> None:
    """Makes the part that an except* took the handled exception, until the end of the handler
    restores the former one."""
    at, former = next(
        (index, item)
        for index, item in reversed(list(enumerate(frame.stack)))
        if isinstance(item, HandledException)
    )
    frame.stack[at] = HandledException(former.previous, taken)
    frame.tx.exceptions.handled = taken


@handles(Op.BEFORE_WITH)
def before_with(frame: Interpreter, instr: Instr) -> None:
    tx = frame.tx
    manager = frame.pop()
    enter = manager_method(tx, manager, "__enter__", "")
    frame.push(manager_method(tx, manager, "__exit__", " (missed __exit__ method)"))
    try:
        frame.push(call_value(frame, enter, [], {}))
    except GraphBreak as stop:
        outside = tx.frames.caller_position()
        # the functions around would go on under the mode, and so in eager
        if outside is not None and issubclass(manager.python_type(), MODES):
            stop.position = outside
        raise


def manager_method(tx: TraceContext, manager: Value, name: str, missed: str) -> Value:
    """A method of a context manager, of its class, whatever the object itself has under that
    name."""
    cls = manager.python_type()
    found = None
    if isinstance(manager, UserObject):
        found = manager.special_method(tx, name)
    elif lookup(cls, name)[0] is not None:
        found = manager.attribute(tx, name)
    if found is None:
        raise tx.exceptions.new(
            TypeError,
            f"'{cls.__name__}' object does not support the context manager protocol{missed}",
        )
    return found


@handles(Op.WITH_EXCEPT_START)
def with_except_start(frame: Interpreter, instr: Instr) -> None:
    error, leave = frame.peek(), frame.peek(4)
    tx = frame.tx
    cls = tx.wrap(error.python_type(), None)
    # A traceback that the program keeps has to be made by Python, where the exception was raised.
    traceback = Traceback(tx.exceptions.raised_at.get(error, tx.frames.break_position()))
    frame.push(leave.call(tx, [cls, error, traceback], {}))
