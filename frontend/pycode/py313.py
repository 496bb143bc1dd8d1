"""CPython 3.13: what differs from 3.12."""

from __future__ import annotations

import opcode
from dataclasses import replace
from typing import Any

from . import py312
from .dialect import Rule
from .instr import Op
from .py311 import CONVERSIONS, FUNCTION_PARTS, without_argument

JUMPS_ON_TRUTH = {"POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "UNARY_NOT"}
PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}


def load_fast(d: Any, slot: int) -> None:
    """LOAD_CLOSURE is a LOAD_FAST of the cell here, and so is one of what an inlined comprehension
    keeps there."""
    d.emit(Op.LOAD_CLOSURE if slot in d.cells or slot in d.frees else Op.LOAD_FAST, slot)


def load_fast_load_fast(d: Any, arg: int) -> None:
    load_fast(d, arg >> 4)
    load_fast(d, arg & 15)


def store_fast_load_fast(d: Any, arg: int) -> None:
    d.emit(Op.STORE_FAST, arg >> 4)
    load_fast(d, arg & 15)


def store_fast_store_fast(d: Any, arg: int) -> None:
    d.emit(Op.STORE_FAST, arg >> 4)
    d.emit(Op.STORE_FAST, arg & 15)


def load_const(d: Any, arg: int) -> None:
    if d.peek() == "CALL_KW":
        d.keywords = d.consts[arg]
        d.open = True
    else:
        d.emit(Op.LOAD_CONST, d.consts[arg])


def call_kw(d: Any, arg: int) -> None:
    if not d.keywords:
        raise ValueError("CALL_KW without a constant tuple of names before it")
    d.emit(Op.CALL, (arg, d.keywords))
    d.keywords = ()


def load_global(d: Any, arg: int) -> None:
    d.emit(Op.LOAD_GLOBAL, d.names[arg >> 1])
    if arg & 1:
        d.emit(Op.PUSH_NULL)


def load_attr(d: Any, arg: int) -> None:
    d.emit(Op.LOAD_ATTR, d.names[arg >> 1])
    if arg & 1:
        d.emit(Op.PUSH_NULL)


def load_super_attr(d: Any, arg: int) -> None:
    d.emit(Op.LOAD_SUPER_ATTR, (d.names[arg >> 2], bool(arg & 2)))
    if arg & 1:
        d.emit(Op.PUSH_NULL)


def to_bool(d: Any, arg: int) -> None:
    """JUMP_IF and UNARY "not" take truth themselves."""
    if d.peek() in JUMPS_ON_TRUTH:
        d.open = True
    else:
        d.emit(Op.UNARY, "not")
        d.emit(Op.UNARY, "not")


def part_of_function(d: Any, op: Op, arg: Any) -> None:
    """A function is not made before it has its closure: nothing goes on in between."""
    d.emit(op, arg)
    d.open = d.peek() == "SET_FUNCTION_ATTRIBUTE"


def compare_op(d: Any, arg: int) -> None:
    """Bit 16 takes truth, which what follows does in canonical form. So code entered between the
    two has to (Dialect.truth)."""
    d.emit(Op.COMPARE, opcode.cmp_op[arg >> 5])
    if arg & 16 and d.peek() not in JUMPS_ON_TRUTH:
        d.emit(Op.UNARY, "not")
        d.emit(Op.UNARY, "not")


def end_for(d: Any, arg: int) -> None:
    """FOR_ITER goes past it and the POP_TOP that follows."""
    d.skip()


def emit_call(b: Any, n: int, names: tuple[str, ...]) -> None:
    if names:
        b.load_const(names)
    b.emit("CALL_KW" if names else "CALL", n)


def emit_make_function(b: Any, flags: int) -> None:
    b.emit("MAKE_FUNCTION")
    for bit in reversed(FUNCTION_PARTS):
        if flags & bit:
            b.emit("SET_FUNCTION_ATTRIBUTE", bit)


RULES: dict[str, Rule | None] = py312.COMMON | {
    "LOAD_FAST": load_fast,
    "LOAD_FAST_LOAD_FAST": load_fast_load_fast,
    "STORE_FAST_LOAD_FAST": store_fast_load_fast,
    "STORE_FAST_STORE_FAST": store_fast_store_fast,
    "LOAD_CONST": load_const,
    "LOAD_GLOBAL": load_global,
    "LOAD_ATTR": load_attr,
    "LOAD_SUPER_ATTR": load_super_attr,
    "CALL_KW": call_kw,
    "MAKE_FUNCTION": lambda d, arg: part_of_function(d, Op.MAKE_FUNCTION, ()),
    "SET_FUNCTION_ATTRIBUTE": lambda d, arg: part_of_function(
        d, Op.SET_FUNCTION_ATTRIBUTE, FUNCTION_PARTS[arg]
    ),
    "COMPARE_OP": compare_op,
    "TO_BOOL": to_bool,
    "END_FOR": end_for,
    "CONVERT_VALUE": lambda d, arg: d.emit(Op.CONVERT, CONVERSIONS[arg]),
    "FORMAT_SIMPLE": without_argument(Op.FORMAT, ("", False)),
    "FORMAT_WITH_SPEC": without_argument(Op.FORMAT, ("", True)),
}

DIALECT = replace(
    py312.DIALECT,
    version=(3, 13),
    rules=RULES,
    internal=frozenset({"INTERPRETER_EXIT", "RESERVED", "EXIT_INIT_CHECK", "ENTER_EXECUTOR"}),
    null_below=False,
    truth="TO_BOOL",
    pairs=PAIRS,
    exits={"FOR_ITER": ("END_FOR", "POP_TOP"), "SEND": ("END_SEND",)},
    call=emit_call,
    make_function=emit_make_function,
)
