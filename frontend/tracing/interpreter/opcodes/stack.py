"""Stack shuffling and constants."""

from __future__ import annotations

import types

from ....pycode.instr import Instr, Op
from ....values.base import NULL
from ....values.constant import Constant
from ....values.functions.builtin_function import BuiltinValue
from ..handlers import handles
from ..interpreter import Interpreter


@handles(Op.NOP)
def nop(frame: Interpreter, instr: Instr) -> None:
    pass


@handles(Op.POP_TOP)
def pop_top(frame: Interpreter, instr: Instr) -> None:
    frame.stack.pop()


@handles(Op.COPY)
def copy(frame: Interpreter, instr: Instr) -> None:
    frame.stack.append(frame.stack[-instr.arg])


@handles(Op.SWAP)
def swap(frame: Interpreter, instr: Instr) -> None:
    stack = frame.stack
    stack[-1], stack[-instr.arg] = stack[-instr.arg], stack[-1]


@handles(Op.PUSH_NULL)
def push_null(frame: Interpreter, instr: Instr) -> None:
    frame.stack.append(NULL)


@handles(Op.LOAD_CONST)
def load_const(frame: Interpreter, instr: Instr) -> None:
    if isinstance(instr.arg, types.CodeType):
        frame.push(BuiltinValue(instr.arg))
    elif isinstance(instr.arg, tuple | frozenset):
        frame.push(frame.tx.wrap(instr.arg, None))
    else:
        frame.push(Constant(instr.arg))


@handles(Op.LOAD_ASSERTION_ERROR)
def load_assertion_error(frame: Interpreter, instr: Instr) -> None:
    frame.push(frame.tx.wrap(AssertionError, None))
