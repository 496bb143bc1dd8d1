"""Builtins that depend on the frame that calls them: super() and those that read its variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..context import InterpretedFrame, TraceContext
from ..functions.builtin_function import BuiltinValue
from ..functions.cell import CellValue
from ..objects.attribute_storage import defines_dict
from ..objects.class_value import ClassValue, has_plain_names
from ..objects.mro import lookup
from ..objects.super_value import SuperValue
from ..objects.user_object import UserObject
from ..registry import models


@models(super)
def builtin_super(tx: TraceContext, cls: Value, receiver: Value) -> Value:
    if not isinstance(cls, ClassValue):
        raise GraphBreak("exception-leaves", "TypeError: super() argument 1 must be a type")
    of = receiver.cls if isinstance(receiver, ClassValue) else None
    if (
        not (of is not None and issubclass(of, cls.cls))
        and cls.cls not in receiver.python_type().__mro__
    ):
        raise GraphBreak(
            "exception-leaves",
            "TypeError: super(type, obj): obj must be an instance or subtype of type",
        )
    return SuperValue(cls.cls, receiver)


def _zero_argument_super(frame: InterpretedFrame, args: list[Value]) -> Value:
    """super(), which finds its class in the cell `__class__` and its object in the frame's first
    variable."""
    if len(args) == 2:
        return builtin_super(frame.tx, *args)
    if args or not frame.decoded.code.co_argcount:
        raise GraphBreak("unknown-call", "super() with these arguments")
    names = frame.decoded.slots
    slot = next((s for s in frame.decoded.frees if names[s] == "__class__"), None)
    first = frame.slots[0]
    if slot is None or first is None:
        raise GraphBreak("unsupported-value", "super() here")
    cls = frame.slots[slot].get(frame.tx)  # type: ignore[union-attr]
    receiver = (
        first.get(frame.tx)
        if isinstance(first, CellValue) and 0 in frame.decoded.cells
        else frame.tx.look(first)
    )
    if cls is None or receiver is None:
        raise GraphBreak("exception-leaves", "RuntimeError: super(): a cell is empty")
    return builtin_super(frame.tx, cls, receiver)


def _frame_reader(frame: InterpretedFrame, args: list[Value]) -> Value:
    raise GraphBreak("unknown-call", "a function that reads the calling frame")


def _dir(frame: InterpretedFrame, args: list[Value]) -> Value:
    """dir() of a class or an object, sorted as Python does. A class may be changed by the frame."""
    tx = frame.tx
    if len(args) != 1 or tx.effects.globals:
        return _frame_reader(frame, args)
    obj = tx.look(args[0])
    lister = lookup(obj.python_type(), "__dir__")[0]
    if isinstance(obj, ClassValue) and lister is type:
        names = obj.names(tx)
    elif isinstance(obj, UserObject) and lister is object and not defines_dict(obj.cls):
        names = {*obj.names(tx), *ClassValue(obj.cls, obj.class_path).names(tx)}
    else:
        return _frame_reader(frame, args)
    if not has_plain_names(names):
        return _frame_reader(frame, args)
    return tx.make.list_of([Constant(name) for name in sorted(names)])


FRAME_CALLS: dict[Any, Callable[[InterpretedFrame, list[Value]], Value]] = {
    super: _zero_argument_super,
    dir: _dir,
    **dict.fromkeys((locals, globals, eval, exec), _frame_reader),
}


def frame_call(callee: Value) -> Callable[[InterpretedFrame, list[Value]], Value] | None:
    """The handler of a builtin that depends on the calling frame."""
    if isinstance(callee, ClassValue):
        return FRAME_CALLS.get(callee.cls)
    if isinstance(callee, BuiltinValue) and callee.real in (locals, globals, dir, eval, exec):
        return FRAME_CALLS[callee.real]
    return None
