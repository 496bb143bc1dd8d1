"""Calls, and functions made in the frame."""

from __future__ import annotations

import builtins
import sys

from .....errors import GraphBreak
from ....pycode.call_completion import AS_IS, INITIALISED, CallCompletion
from ....pycode.instr import Instr, Op
from ....pycode.liveness import is_comprehension
from ....pycode.passthrough import PassthroughFrame
from ....values.base import NULL, Value
from ....values.containers.mapping import DictValue
from ....values.context import TraceContext
from ....values.functions.builtin_function import BuiltinValue
from ....values.functions.cell import CellValue
from ....values.functions.function import FunctionValue
from ....values.functions.method import MethodValue
from ....values.models.frame_calls import frame_call
from ....values.objects.class_value import ClassValue
from ....values.objects.nn_module import ModuleValue
from ...repeats.repeated_calls import has_parts
from ..construct import begin_construction
from ..handlers import handles
from ..interpreter import Interpreter


def callee_of(frame: Interpreter, args: list[Value]) -> tuple[Value, list[Value]]:
    """The callee and first argument: of the two slots under the arguments one is NULL and dropped,
    or the upper one is the first argument."""
    upper, lower = frame.stack.pop(), frame.stack.pop()
    if lower is NULL:
        return upper, args
    if upper is NULL:
        return lower, args
    return lower, [frame.tx.look(upper), *args]


@handles(Op.CALL)
def call(frame: Interpreter, instr: Instr) -> None:
    """Pops callee and arguments, and pushes the result. Functions and modules get their arguments
    unrealised: they may never look at them."""
    n, names = instr.arg
    tx = frame.tx
    given = frame.popn(n)
    kwargs: dict[str, Value] = {}
    if names:
        kwargs = dict(zip(names, given[-len(names) :], strict=True))
        del given[-len(names) :]
    callee, args = callee_of(frame, given)
    callee = tx.look(callee)
    if not isinstance(callee, FunctionValue | MethodValue | ModuleValue):
        args, kwargs = look_at_all(tx, args, kwargs)
    special = frame_call(callee)
    frame.push(
        special(frame, args)
        if special is not None and not kwargs
        else call_value(frame, callee, args, kwargs)
    )


def look_at_all(
    tx: TraceContext, args: list[Value], kwargs: dict[str, Value]
) -> tuple[list[Value], dict[str, Value]]:
    """Looks at the arguments of a call that is not inlined. An inlined function looks at those that
    it uses."""
    return [tx.look(arg) for arg in args], {name: tx.look(arg) for name, arg in kwargs.items()}


def call_value(
    frame: Interpreter,
    callee: Value,
    args: list[Value],
    kwargs: dict[str, Value],
    completion: CallCompletion = AS_IS,
) -> Value:
    """callee(*args, **kwargs); `completion` is what the instruction does with the result."""
    if completion is AS_IS and isinstance(callee, ModuleValue) and has_parts(callee):
        return frame.tx.calls.of_module(
            callee, args, kwargs, lambda: interpret_call(frame, callee, args, kwargs, completion)
        )
    return interpret_call(frame, callee, args, kwargs, completion)


def interpret_call(
    frame: Interpreter,
    callee: Value,
    args: list[Value],
    kwargs: dict[str, Value],
    completion: CallCompletion,
) -> Value:
    """The result of a call: inlined for a Python function, else by the callee's own rules. Follows
    callables that only call another one. completion: what Python does with the result."""
    tx = frame.tx
    passthroughs: tuple[PassthroughFrame, ...] = ()
    steps = 0
    while (pending := callee.tail_call(tx, args, kwargs)) is not None:
        callee, args, kwargs, between = pending
        passthroughs += between
        steps += 1
        if steps > sys.getrecursionlimit():  # what calls itself has no end
            raise GraphBreak("too-deep", " (Python's recursion limit)")
    if isinstance(callee, FunctionValue) and callee.is_inlined():
        leave_comprehension_to_python(tx, callee, args)
        return tx.calls.inline(callee, args, kwargs, passthroughs, completion)
    args, kwargs = look_at_all(tx, args, kwargs)
    if (
        isinstance(callee, ClassValue)
        and completion is AS_IS
        and not passthroughs
        and callee.is_constructed()
    ):
        return construct_instance(frame, callee, args, kwargs)
    return callee.call(tx, args, kwargs)


def leave_comprehension_to_python(
    tx: TraceContext, callee: FunctionValue, args: list[Value]
) -> None:
    """Breaks at the call of a list comprehension over what has had several lengths."""
    if not is_comprehension(callee.code) or tx.options.fullgraph:
        return
    if args[0].varies_in_length(tx):
        tx.work.leave_comprehension_to_python(callee.code)


def construct_instance(
    frame: Interpreter, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Makes an instance. The frame holds it while its __init__ runs."""
    made, init = begin_construction(frame.tx, cls, args, kwargs)
    if init is None:
        return made
    frame.push(made)
    if not frame.complete(INITIALISED, call_value(frame, init, args, kwargs, INITIALISED)):
        raise GraphBreak("exception-leaves", "TypeError: __init__() should return None")
    return frame.pop()


@handles(Op.CALL_FUNCTION_EX)
def call_function_ex(frame: Interpreter, instr: Instr) -> None:
    tx = frame.tx
    kwargs: dict[str, Value] = {}
    if instr.arg:
        kwargs = {key.constant(): tx.look(value) for key, value in frame.pop().mapping_pairs(tx)}
        if not all(type(name) is str for name in kwargs):
            raise GraphBreak("exception-leaves", "TypeError: keywords must be strings")
    callee, args = callee_of(frame, [tx.look(item) for item in frame.pop().list_items(tx)])
    frame.push(call_value(frame, tx.look(callee), args, kwargs))


@handles(Op.MAKE_FUNCTION)
def make_function(frame: Interpreter, instr: Instr) -> None:
    code = frame.pop()
    assert isinstance(code, BuiltinValue)
    function = FunctionValue(code.real, frame.globals, [], [], {})
    for part in reversed(instr.arg):
        set_part(frame, function, part, frame.pop())
    frame.push(function)


@handles(Op.SET_FUNCTION_ATTRIBUTE)
def set_function_attribute(frame: Interpreter, instr: Instr) -> None:
    function, value = frame.pop(), frame.pop()
    assert isinstance(function, FunctionValue)
    set_part(frame, function, instr.arg, value)
    frame.push(function)


def set_part(frame: Interpreter, function: FunctionValue, part: str, value: Value) -> None:
    """Sets a part of a function, such as its defaults."""
    if part == "defaults":
        function.defaults = value.unpack(frame.tx)
    elif part == "kwdefaults":
        assert isinstance(value, DictValue)
        function.kwdefaults = {key.constant(): item for key, item in value.pairs(frame.tx)}
    elif part == "annotations":
        function.annotations = value
    else:
        cells = value.unpack(frame.tx)
        function.closure = [cell for cell in cells if isinstance(cell, CellValue)]
        assert len(function.closure) == len(cells)


@handles(Op.LOAD_BUILD_CLASS)
def load_build_class(frame: Interpreter, instr: Instr) -> None:
    frame.push(BuiltinValue(builtins.__build_class__))
