"""The instructions that run in Python together with a breaking call, because a break at one of them
would follow at once and there is no tensor work between.

In: a frame at a break. Out: the starts of the raw groups to run, and the index after them. This is
a matter of compile time only: Python may run any instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import GeneratorType

from ...guards.iterators import iterator_parts
from ...records import record
from ..pycode.instr import DecodedCode, Op
from ..tracing.interpreter.outcome import BrokenFrame
from ..values.base import LazyValue, Value
from ..values.functions.skipped_function import is_skipped
from ..values.objects.class_value import ClassValue
from ..values.objects.mro import class_attribute
from ..values.objects.user_object import UserObject

LOADS = frozenset({Op.LOAD_FAST, Op.LOAD_CONST})
JOINED = (enumerate, zip)  # they iterate over their arguments


@record
class BreakTail:
    """The raw instruction groups that run together at a break. starts: where each begins, the
    breaking one first. end: the index of the instruction after them."""

    starts: tuple[int, ...]
    end: int


def break_tail(frame: BrokenFrame) -> BreakTail | None:
    """The groups that run together with the breaking group; None if no others do."""
    decoded, index = frame.decoded, frame.index
    op, end = decoded.instrs[index].op, decoded.group_end(index)
    if op is Op.GET_ITER:
        loop = loop_start(decoded, end) if has_skipped(frame.stack[-1], "__iter__") else None
        return None if loop is None else tail(decoded, [index, loop])
    if op is not Op.CALL:
        return None
    count = decoded.instrs[index].arg[0] + 2
    operands, below = frame.stack[-count:], frame.stack[:-count]
    starts = [index]
    if op_at(decoded, end) is Op.GET_ITER and makes_skipped_iterable(operands):
        loop = loop_start(decoded, end + 1)
        return None if loop is None else tail(decoded, [index, end, loop])
    while op_at(decoded, end) is Op.POP_TOP:
        starts.append(end)
        call = list(skipped_statement(frame, decoded.group_end(end)))
        end = decoded.group_end(end)
        if not call:
            break
        starts += call
        end = decoded.group_end(call[-1])
    if len(starts) == 1:
        return None
    loop = loop_start(decoded, end)
    if loop is not None and below and is_skipped_iterator(below[-1]):
        return tail(decoded, [*starts, loop])
    # after the last call nothing is gained by running the removal of its result
    return tail(decoded, starts) if len(starts) > 2 or is_return(frame, end) else None


def tail(decoded: DecodedCode, starts: list[int]) -> BreakTail | None:
    """The tail of these groups; None where they have different exception handlers."""
    if any(decoded.handlers[start] != decoded.handlers[starts[0]] for start in starts):
        return None
    return BreakTail(tuple(starts), decoded.group_end(starts[-1]))


def op_at(decoded: DecodedCode, index: int) -> Op | None:
    return decoded.instrs[index].op if index < len(decoded.instrs) else None


def loop_start(decoded: DecodedCode, index: int) -> int | None:
    """The FOR_ITER that runs next, over jumps; None if another instruction does."""
    while op_at(decoded, index) in (Op.JUMP, Op.NOP):
        instr = decoded.instrs[index]
        index = instr.target if instr.op is Op.JUMP else index + 1
    return index if op_at(decoded, index) is Op.FOR_ITER else None


def is_return(frame: BrokenFrame, index: int) -> bool:
    """Whether `return constant`, or the return of a bound variable, is at `index`."""
    op = op_at(frame.decoded, index)
    return op_at(frame.decoded, index + 1) is Op.RETURN_VALUE and (
        op is Op.LOAD_CONST
        or (op is Op.LOAD_FAST and frame.slots[frame.decoded.instrs[index].arg] is not None)
    )


def skipped_statement(frame: BrokenFrame, index: int) -> Iterator[int]:
    """The groups of a call `variable.method(variables and constants)` whose method stays in Python;
    none if another statement is there."""
    decoded = frame.decoded
    if op_at(decoded, index) is not Op.LOAD_FAST:
        return
    attribute = decoded.group_end(index)
    receiver = frame.slots[decoded.instrs[index].arg]
    if (
        op_at(decoded, attribute) is not Op.LOAD_ATTR
        or receiver is None
        or not has_skipped(receiver, decoded.instrs[attribute].arg)
    ):
        return
    groups, at = [index, attribute], decoded.group_end(attribute)
    while op_at(decoded, at) in LOADS:
        groups.append(at)
        at = decoded.group_end(at)
    if op_at(decoded, at) is Op.CALL and op_at(decoded, decoded.group_end(at)) is Op.POP_TOP:
        yield from (*groups, at)


def makes_skipped_iterable(operands: tuple[Value, ...]) -> bool:
    """Whether a class is called whose instances are iterated by code that stays in Python."""
    callees = [value for value in operands[:2] if isinstance(value, ClassValue)]
    if len(callees) != 1:
        return False
    cls = callees[0].cls
    return (
        any(has_skipped(value, "__iter__") for value in operands[2:])
        if cls in JOINED
        else is_skipped(class_attribute(cls, "__iter__"))
    )


def has_skipped(value: Value, name: str) -> bool:
    """Whether a method of an existing object is a function that stays in Python."""
    return isinstance(value, LazyValue | UserObject) and is_skipped(
        class_attribute(value.python_type(), name)
    )


def is_skipped_iterator(value: Value) -> bool:
    """Whether next() of an iterator runs code that stays in Python: a generator that has begun, a
    DataLoader's iterator, or enumerate() or zip() of one."""
    if not isinstance(value, LazyValue | UserObject):
        return False
    return (
        isinstance(value, LazyValue)
        and type(value.object) in JOINED
        and any(advances_in_python(type(part)) for part in iterator_parts(value.object))
        or advances_in_python(value.python_type())
    )


def advances_in_python(cls: type) -> bool:
    return cls is GeneratorType or is_skipped(class_attribute(cls, "__next__"))
