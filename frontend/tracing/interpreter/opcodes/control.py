"""Jumps, loops, returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .....guards.guard import Kind
from ....pycode.code_place import CodePlace
from ....pycode.dead_end import always_raises, may_catch
from ....pycode.instr import Instr, Op
from ....values.base import LazyValue, none_if_stopped
from ....values.constant import Constant
from ....values.tensor.symbolic_number import SymbolicNumber
from ....values.tensor.tensor import TensorValue
from ...graph_inputs import is_symbolic
from ..handlers import handles
from ..outcome import Returned

if TYPE_CHECKING:
    from ....values.base import Value
    from ...trace import Trace
    from ..frame_state import FrameState
    from ..interpreter import Interpreter

# Literals of which the type alone says that they are not None, by the ids of their types.
LITERALS_BY_TYPE = frozenset(map(id, (int, float, str, bytes, complex)))


@handles(Op.JUMP)
def jump(frame: Interpreter, instr: Instr) -> None:
    jump_to(frame, instr.target)


def jump_to(frame: Interpreter, target: int) -> None:
    """Jumps. A jump back starts another iteration of a loop."""
    if target < frame.pc:
        frame.tx.work.start_iteration(frame, target)
    frame.pc = target


@handles(Op.JUMP_IF)
def jump_if(frame: Interpreter, instr: Instr) -> None:
    if is_true(frame, frame.pop(), instr) is instr.arg:
        jump_to(frame, instr.target)


def is_true(frame: Interpreter, tested: Value, instr: Instr) -> bool:
    """The truth of a branch's condition. A tensor or a number read from one is expected to be true
    where every other way raises: the run checks that, or starts over in eager. Where the exception
    may be caught, raising may be usual, so it is expected only until the expectation has failed
    once."""
    by_number = isinstance(tested, SymbolicNumber) and tested.depends_on_values()
    if by_number or (isinstance(tested, TensorValue) and can_hand_out_truth(tested)):
        jumping, going_on = (
            always_raises(frame.decoded, index) for index in (instr.target, frame.pc)
        )
        branch = frame.tx.frames.instruction()
        expected = instr.arg is not jumping
        if jumping is going_on or frame.tx.work.uncaptured.has_instruction(branch):
            return tested.truth(frame.tx)
        if isinstance(tested, SymbolicNumber):
            return tested.expect(expected)
        if isinstance(tested, TensorValue):
            caught = any(map(may_be_caught, frame.tx.frames))
            return expect_truth(frame.tx, tested, expected, branch if caught else None)
    return tested.truth(frame.tx)


def can_hand_out_truth(tested: TensorValue) -> bool:
    """Whether the truth of a tensor can be an output of the graph."""
    outside_transforms = torch._C._functorch.maybe_current_level() is None
    return outside_transforms and not is_symbolic(tested.fake) and tested.fake.numel() == 1


def expect_truth(tx: Trace, tested: TensorValue, truth: bool, branch: CodePlace | None) -> bool:
    """Continues as if a tensor were true, or false, with an expectation."""
    fact = tx.graph.function(torch.ne if truth else torch.eq, tested, Constant(0))
    assert isinstance(fact, TensorValue)
    tx.effects.expect(
        fact.node, tx.frames.break_position(), None if tx.options.fullgraph else branch
    )
    return truth


def may_be_caught(frame: FrameState) -> bool:
    """Whether the frame may catch an exception of the call that it waits for."""
    return may_catch(frame.decoded, frame.group)


@handles(Op.JUMP_IF_OR_POP)
def jump_if_or_pop(frame: Interpreter, instr: Instr) -> None:
    if frame.peek().truth(frame.tx) is instr.arg:
        frame.pc = instr.target
    else:
        frame.pop()


@handles(Op.JUMP_IF_NONE)
def jump_if_none(frame: Interpreter, instr: Instr) -> None:
    if is_none(frame, frame.stack.pop()) is instr.arg:
        jump_to(frame, instr.target)


def is_none(frame: Interpreter, value: Value) -> bool:
    """Whether a value is None. Of a number or text that is not realised
    yet only the type is guarded."""
    if (
        type(value) is LazyValue
        and id(type(value.object)) in LITERALS_BY_TYPE
        and value.source is not None
    ):
        frame.tx.guards.add(value.source, Kind.TYPE, type(value.object))
        return False
    return frame.tx.look(value).is_none()


@handles(Op.RETURN_VALUE)
def return_value(frame: Interpreter, instr: Instr) -> Returned:
    if frame is frame.tx.frames[0] and frame.stack[-1].source is not None:
        return Returned(frame.stack.pop())  # whatever it is, the caller gets it as it is
    return Returned(frame.pop())


@handles(Op.GET_ITER)
def get_iter(frame: Interpreter, instr: Instr) -> None:
    if not frame.tx.options.fullgraph and frame.peek().varies_in_length(frame.tx):
        frame.tx.work.leave_loop_to_python(frame, frame.pc)
    frame.push(frame.pop().iterator(frame.tx))


@handles(Op.FOR_ITER)
def for_iter(frame: Interpreter, instr: Instr) -> None:
    iterator = frame.peek()
    item = none_if_stopped(lambda: iterator.next(frame.tx))
    if item is None:
        frame.pop()
        frame.pc = instr.target
    else:
        frame.push(item)
