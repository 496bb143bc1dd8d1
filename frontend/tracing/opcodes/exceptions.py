"""raise, try, with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import GraphBreak
from ...pycode.instr import Instr, Op
from ...values.base import ObservedException, Value
from ...values.constant import Constant
from ...values.containers.sequence import TupleValue
from ...values.objects.class_value import ClassValue
from ...values.objects.current_exception import HandledException, Traceback
from ...values.objects.exception import ExceptionValue
from ...values.objects.mro import lookup
from ...values.objects.user_object import UserObject
from .calls import call_value
from .table import handles

if TYPE_CHECKING:
    from ...values.context import TraceContext
    from ..interpreter import Interpreter


@handles(Op.RAISE)
def raise_(frame: Interpreter, instr: Instr) -> None:
    tx = frame.tx
    if instr.arg == 0:
        if tx.exceptions.handled is None:
            if not tx.exceptions.handled_outside().is_constant():
                raise GraphBreak("exception-leaves", "the exception being handled")
            raise tx.exceptions.new(RuntimeError, "No active exception to reraise")
        raise ObservedException(tx.exceptions.handled)
    cause = frame.pop() if instr.arg == 2 else None
    error = tx.exceptions.instance(frame.pop())
    if (
        not isinstance(error, ExceptionValue) or error.source is not None
    ):  # its traceback and context change: effects of Python's
        raise GraphBreak("exception-leaves", f"{error.describe()}, which existed before,")
    error.again = error.born is not None
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


@handles(Op.CHECK_EG_MATCH)
def check_eg_match(frame: Interpreter, instr: Instr) -> None:
    tx = frame.tx
    wanted, error = frame.pop(), frame.pop()
    if not except_classes(tx, wanted) or any(
        issubclass(cls.constant(), BaseExceptionGroup) for cls in except_classes(tx, wanted)
    ):
        raise GraphBreak("exception-leaves", "TypeError of an except clause")
    if error.is_none():  # those before have taken all
        frame.push(error)
        frame.push(error)
        return
    if not isinstance(error, ExceptionValue) or not wanted.is_constant():
        raise GraphBreak("unsupported-bytecode", "except* of this exception")
    classes = [cls.constant() for cls in except_classes(tx, wanted)]
    taken, left = error.split(
        tx, lambda one: any(cls in one.cls.__mro__ for cls in classes)
    )  # no __subclasscheck__ is asked
    if taken is not None and not issubclass(taken.python_type(), BaseExceptionGroup):
        group = ExceptionGroup if issubclass(error.cls, Exception) else BaseExceptionGroup
        taken = ExceptionValue(group, [Constant(""), TupleValue([taken])])
        taken.born = error.born  # its traceback is one of this frame, too
    if taken is not None and taken is not error:
        if error.source is not None:
            raise GraphBreak("unsupported-bytecode", "except* of a part of an existing exception")
        for part in (taken, left):
            if part is not None and error in tx.exceptions.raised_at:
                tx.exceptions.raised_at.setdefault(part, tx.exceptions.raised_at[error])
    frame.push(left or Constant(None))
    frame.push(taken or Constant(None))
    if taken is not None:
        handle_instead(frame, taken)


def handle_instead(frame: Interpreter, taken: Value) -> None:
    """Makes the part that an except* took the handled exception, until the end of the handler
    restores the former one."""
    at = max(index for index, item in enumerate(frame.stack) if isinstance(item, HandledException))
    frame.stack[at] = HandledException(frame.stack[at].previous, taken)  # type: ignore[attr-defined]
    frame.tx.exceptions.handled = taken


@handles(Op.PREP_RERAISE_STAR)
def prep_reraise_star(frame: Interpreter, instr: Instr) -> None:
    """The exception to raise after the last except*: none, or the rest that no handler took with
    the parts raised again. Python merges what handlers have raised anew."""
    tx = frame.tx
    raised, original = frame.pop().unpack(tx), frame.pop()
    left = [error for error in raised if not error.is_constant()]
    if not left or (len(left) == 1 and (left[0] is original or left[0] is raised[-1])):
        frame.push(left[0] if left else Constant(None))
        return
    if not isinstance(original, ExceptionValue) or not all(
        is_part(tx, error, original) for error in left
    ):
        raise GraphBreak("unsupported-bytecode", "except* whose handlers raise")
    kept = [leaf for error in left for leaf in error.leaves(tx)]  # type: ignore[attr-defined]
    again, _ = original.split(tx, lambda one: one in kept)
    assert again is not None
    if again is not original and original in tx.exceptions.raised_at:
        tx.exceptions.raised_at.setdefault(again, tx.exceptions.raised_at[original])
    frame.push(again)


def is_part(tx: TraceContext, error: Value, original: ExceptionValue) -> bool:
    """Whether an exception is a part that an except* took, or left, unchanged since and not raised
    by its name."""
    group = (
        isinstance(error, ExceptionValue)
        and issubclass(error.cls, BaseExceptionGroup)
        and issubclass(original.cls, BaseExceptionGroup)
    )
    if (
        not group
        or error.source is not None
        or original.source is not None
        or error.again  # type: ignore[attr-defined]
        or original.again
    ):
        return False
    for name in ("__cause__", "__context__"):
        if not tx.objects.same(error.attribute(tx, name), original.attribute(tx, name)):
            return False
    leaves = original.leaves(tx)
    return error.born == original.born and all(leaf in leaves for leaf in error.leaves(tx))  # type: ignore[attr-defined]


@handles(Op.BEFORE_WITH)
def before_with(frame: Interpreter, instr: Instr) -> None:
    tx = frame.tx
    manager = frame.pop()
    enter = of_manager(tx, manager, "__enter__", "")
    frame.push(of_manager(tx, manager, "__exit__", " (missed __exit__ method)"))
    frame.push(call_value(frame, enter, [], {}))


def of_manager(tx: TraceContext, manager: Value, name: str, missed: str) -> Value:
    """A method of a context manager, of its class, whatever the object itself has under that
    name."""
    cls = manager.python_type()
    found = None
    if isinstance(manager, UserObject):
        found = manager.special(tx, name)
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
    # A traceback that somebody keeps is Python's to make, where the exception was raised.
    traceback = Traceback(tx.exceptions.raised_at.get(error, tx.frames.break_position()))
    frame.push(leave.call(tx, [cls, error, traceback], {}))
